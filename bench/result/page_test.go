package result_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermi-cluster/fermi/bench/result"
)

// TestPageIsWhatTheFilesGive: nobody writes a figure by hand.
func TestPageIsWhatTheFilesGive(t *testing.T) {
	runs, err := result.Load("../results")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../RESULTS.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(result.Page(runs), string(page)); diff != "" {
		t.Errorf("make results writes bench/RESULTS.md anew:\n%s", diff)
	}
}

// TestEveryRunIsOnThePage: each number that was kept has its row, and its verdict follows from its bound.
func TestEveryRunIsOnThePage(t *testing.T) {
	runs, err := result.Load("../results")
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) < 20 {
		t.Fatalf("only %d runs", len(runs))
	}
	page := result.Page(runs)
	for _, r := range runs {
		if !strings.Contains(page, "\n### "+r.Bench+"\n") {
			t.Errorf("%s has no place on the page: bench/result/subjects.go", r.File())
		}
		if r.Date == "" || len(r.Checks) == 0 {
			t.Errorf("%s has no date, or no checks", r.File())
		}
		for _, c := range r.Checks {
			if held, known := result.Holds(c.Value, c.Bound); known && held != c.OK {
				t.Errorf("%s: %q is %g, its bound %q, and it says %v", r.File(), c.Name, c.Value, c.Bound, c.OK)
			}
		}
	}
}

func TestNumber(t *testing.T) {
	for want, v := range map[string]float64{"0.168": .168, "1.95": 1.95, "130,000": 130000, "15,682": 15682, "−1.2": -1.2, "0": 0, "95.72": 95.72, "1,000,000": 1e6, "0.01235": .0123456, "12,346": 12345.6} {
		if got := result.Number(v); got != want {
			t.Errorf("Number(%v) = %q, want %q", v, got, want)
		}
	}
}
