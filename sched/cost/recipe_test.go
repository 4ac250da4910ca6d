package cost

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRecipeNames(t *testing.T) {
	for name, want := range map[string]string{"p/train-12": "p/train", "p/实验 3": "p/实验", "p/v2_007": "p/v2", "p/bert": "p/bert", "42": "42", "p/a.1#2": "p/a.1"} {
		if got := RecipeOf("u", "plain", name).Name; got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestTrials(t *testing.T) {
	r, trials := RecipeOf("u", "plain", "p/train-1"), NewTrials()
	if trials.Samples(r) != nil {
		t.Error("something of nothing")
	}
	add := func(work string, nodes int, class string, took time.Duration) {
		trials.Add(r, Trial{work, nodes, class, took})
	}
	for _, m := range []int{99, 100, 300} { // the usual time on one node is 100 minutes
		add("a", 1, "near", time.Duration(m)*time.Minute)
	}
	add("a", 4, "near", 30*time.Minute) // 100 / (4 × 30)
	add("a", 8, "far", 25*time.Minute)  // 100 / (8 × 25)
	add("a", 2, "near", 49*time.Minute) // a little better than it can be
	add("a", 2, "near", 10*time.Minute) // that was no such work
	add("b", 2, "near", time.Hour)      // other work: nothing to compare with
	add("c", 2, "near", time.Hour)
	add("c", 4, "near", 32*time.Minute) // against 2 nodes, which have 90 %
	add("a", 0, "near", time.Hour)
	add("a", 2, "near", 0)
	want := []Sample{{4, "near", 833}, {8, "far", 500}, {2, "near", 1000}, {4, "near", 844}}
	if d := cmp.Diff(want, trials.Samples(r)); d != "" {
		t.Error(d)
	}
	if got, runs := Efficiency(8, Latency{P50: 8.5}, trials.Samples(r)); got != 500 || runs != 1 {
		t.Errorf("%d of %d runs", got, runs)
	}
	if got, runs := Efficiency(4, Latency{}, trials.Samples(r)); got != 833 || runs != 2 {
		t.Errorf("%d of %d runs", got, runs)
	}
	for i := range 3 * maxTrials {
		add("a", 1+i%3, "near", time.Hour)
	}
	for i := range 2 * maxRecipes {
		trials.Add(RecipeOf(fmt.Sprint("u", i), "plain", "x"), Trial{"a", 1, "", time.Hour})
	}
	if len(trials.by) > maxRecipes || len(trials.order) != len(trials.by) || len(trials.by[r]) > maxTrials {
		t.Errorf("%d recipes, %d trials", len(trials.by), len(trials.by[r]))
	}
}
