package result_test

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermi-cluster/fermi/bench/result"
)

// TestPlannerPageIsWhatTheFilesGive: the page and its pictures are a function of the results.
func TestPlannerPageIsWhatTheFilesGive(t *testing.T) {
	runs, err := result.Load("../results")
	if err != nil {
		t.Fatal(err)
	}
	page, pictures := result.PlannerPage(runs)
	same := func(path, want string) {
		got, err := os.ReadFile(filepath.Join("../../docs", path))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("make results writes docs/%s anew:\n%s", path, diff)
		}
	}
	same("reference/planner.md", page)
	if len(pictures) < 3 {
		t.Error("only", len(pictures), "pictures")
	}
	for name, picture := range pictures {
		same("pictures/"+name, picture)
		for dec := xml.NewDecoder(strings.NewReader(picture)); ; {
			if _, err := dec.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(name, err)
			}
		}
	}
}
