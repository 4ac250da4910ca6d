package cost

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Recipe is what repeated runs have in common.
type Recipe struct{ User, Framework, Name string }

// RecipeOf leaves a number at the end of a name out: train-12 is another train-11.
func RecipeOf(user, framework, name string) Recipe {
	base := strings.TrimRight(strings.TrimRight(name, "0123456789"), " -_.#")
	return Recipe{user, framework, cmp.Or(base, name)}
}

// Trial is a run that succeeded at the first attempt. Work names what was to be done: only runs of
// the same work are compared.
type Trial struct {
	Work  string
	Nodes int
	Class string // of latency between its zones
	Took  time.Duration
}

const (
	// maxRecipes and maxTrials bound the memory: the oldest are forgotten.
	maxRecipes = 4096
	maxTrials  = 64
	// A run a quarter faster than it can be was other work: it is no sample.
	impossible = 1250
)

// Trials are what runs of recipes showed. Not safe for concurrent use: it has one owner.
type Trials struct {
	by    map[Recipe][]Trial
	order []Recipe // as first seen
}

// NewTrials knows nothing yet.
func NewTrials() *Trials { return &Trials{by: map[Recipe][]Trial{}} }

// Add takes up a run; what is no run is left out.
func (t *Trials) Add(r Recipe, trial Trial) {
	if trial.Nodes < 1 || trial.Took <= 0 {
		return
	}
	known, ok := t.by[r]
	if !ok {
		if len(t.order) == maxRecipes {
			delete(t.by, t.order[0])
			t.order = slices.Delete(t.order, 0, 1)
		}
		t.order = append(t.order, r)
	}
	if len(known) == maxTrials {
		known = slices.Delete(known, 0, 1)
	}
	t.by[r] = append(known, trial)
}

// Samples compares runs of the same work on more nodes with those on the fewest, time and nodes
// together: twice the nodes in half the time is all. Of those on the fewest, the usual time counts,
// and where they are several nodes themselves they have what is estimated for so many.
func (t *Trials) Samples(r Recipe) []Sample {
	var out []Sample
	done := map[string]bool{}
	for _, first := range t.by[r] {
		if done[first.Work] {
			continue
		}
		done[first.Work] = true
		out = append(out, compare(t.by[r], first.Work)...)
	}
	return out
}

func compare(all []Trial, work string) (out []Sample) {
	fewest := 0
	for _, x := range all {
		if x.Work == work && (fewest == 0 || x.Nodes < fewest) {
			fewest = x.Nodes
		}
	}
	var base []time.Duration
	for _, x := range all {
		if x.Work == work && x.Nodes == fewest {
			base = append(base, x.Took)
		}
	}
	slices.Sort(base)
	alone := base[(len(base)-1)/2].Seconds() * float64(fewest) * float64(onNodes(fewest))
	for _, x := range all {
		if x.Work != work || x.Nodes == fewest {
			continue
		}
		if share := int(alone/(x.Took.Seconds()*float64(x.Nodes)) + 0.5); share <= impossible {
			out = append(out, Sample{Nodes: x.Nodes, Class: x.Class, Thousandths: min(share, 1000)})
		}
	}
	return out
}
