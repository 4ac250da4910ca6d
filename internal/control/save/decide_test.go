package save

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
)

// training is a task whose two launchers are of the second generation and hold these steps.
func training(steps ...int64) *gang.Gang {
	g := persistedBy(0, 0)
	g.Task.Status.Generation = 2
	for i := range g.Members {
		m := &g.Members[i]
		m.State, m.Said.Generation, m.Said.Held, m.Said.Persisted, m.Said.Fresh = engine.StateRunning, 2, steps, nil, true
	}
	return g
}

// sightOf is what a turn sees of it where checkpoints are kept in all tiers.
func sightOf(g *gang.Gang) sight { return *turnOf(g, false).sight }

// written has all launchers say that they have written a step to a tier.
func written(g *gang.Gang, tier string, step int64) {
	for i := range g.Members {
		parts := fmt.Sprintf(`[{"rank":%d,"key":"parts/00/a-%d","bytes":1,"hash":"%s","lease":"a","size":1,"new":1}]`, i, i, hash0)
		g.Members[i].Said.Persisted = append(g.Members[i].Said.Persisted, link.Persisted{Tier: tier, Generation: 2, Step: step, Parts: json.RawMessage(parts)})
	}
}

// TestAStepGoesToATier: ordered when it is due, committed when all have written it, told when that has succeeded, and not
// ordered again until the next is due.
func TestAStepGoesToATier(t *testing.T) {
	g := training(9)
	s := sightOf(g)
	_, mem := decide(s, memory{}, now) // the first interval begins
	when := now.Add(time.Hour)
	s.full = nil
	if p, _ := decide(s, mem, when); !p.askRoom {
		t.Fatal("the shared store was not asked for room")
	}
	room := false
	s.full = &room
	p, mem := decide(s, mem, when)
	if len(p.tell) != 2 || p.tell[0].mark.Step != 9 || p.tell[0].mark.Persist == nil || !slices.Equal(p.tell[0].mark.Persist.Tiers, []string{link.TierLocal, link.TierShared}) {
		t.Fatalf("%+v", p)
	}
	if p, _ := decide(s, mem, when); len(p.tell) != 0 {
		t.Errorf("the same was told twice: %+v", p.tell)
	}
	written(g, link.TierLocal, 9)
	written(g, link.TierShared, 9)
	s.Gang = *g
	p, mem = decide(s, mem, when)
	if len(p.commits) != 2 || p.commits[0].Step != 9 || len(p.commits[0].Parts) != 2 {
		t.Fatalf("%+v", p.commits)
	}
	if p, _ := decide(s, mem, when); len(p.commits) != 0 {
		t.Errorf("it is committed twice: %+v", p.commits)
	}
	s.ended = []outcome{
		{link.Committed{Tier: link.TierLocal, Generation: 2, Step: 9}, nil}, {link.Committed{Tier: link.TierShared, Generation: 2, Step: 9}, errors.New("torn")},
	}
	p, mem = decide(s, mem, when.Add(time.Second))
	if len(p.wrote) != 1 || p.wrote[0] != (wrote{link.TierLocal, time.Second}) || len(p.commits) != 0 {
		t.Errorf("%+v", p)
	}
	if m := p.tell[0].mark; len(m.Committed) != 1 || m.Committed[0].Tier != link.TierLocal || m.Persist != nil {
		t.Errorf("%+v", m)
	}
	s.ended = nil
	if p, _ := decide(s, mem, when.Add(2*time.Second)); len(p.tell)+len(p.commits) != 0 {
		t.Errorf("%+v", p)
	}
}

// TestAFullStoreIsNoReasonToSaveNothing: what has no room in the shared store goes to the nodes' disks all the same.
func TestAFullStoreIsNoReasonToSaveNothing(t *testing.T) {
	s := sightOf(training(9))
	full := true
	s.full = &full
	_, mem := decide(s, memory{}, now)
	p, _ := decide(s, mem, now.Add(time.Hour))
	if p.askRoom || p.tell[0].mark.Persist == nil || !slices.Equal(p.tell[0].mark.Persist.Tiers, []string{link.TierLocal}) {
		t.Errorf("%+v", p)
	}
}

// TestOverIsForgotten: whoever waits is let go, and nothing is remembered.
func TestOverIsForgotten(t *testing.T) {
	g := training(9)
	_, mem := decide(sightOf(g), memory{}, now)
	g.Task.Status.Phase = "Failed"
	g.Members[1].Said.Keeping.Ended = engine.ReasonNonZero
	s := sightOf(g)
	s.leftover = []leftover{{"old", 1}}
	p, next := decide(s, mem, now)
	if !next.empty() || len(p.tell) != 0 || len(p.release) != 2 || p.release[0].name != "old" || !p.release[1].mark.Last {
		t.Errorf("%+v %+v", p, next)
	}
}

// TestTheWatermarkRises, whatever launchers say and whoever commits; and a turn changes nothing of what it is given, so that it
// can be judged twice.
func TestTheWatermarkRises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var mem memory
		when, told, generation := now, int64(0), 2
		for range 30 {
			g := training()
			if rapid.IntRange(0, 9).Draw(t, "another generation") == 0 {
				generation, told = generation+1, 0
			}
			g.Task.Status.Generation = generation
			for i := range g.Members {
				m := &g.Members[i]
				m.Said.Generation = int64(generation - rapid.IntRange(0, 5).Draw(t, "behind")/5)
				m.Said.Held = rapid.SliceOfNDistinct(rapid.Int64Range(1, 6), 0, 3, rapid.ID).Draw(t, "held")
				m.Said.Offer, m.Said.Fresh = rapid.Int64Range(0, 2).Draw(t, "offer"), rapid.Bool().Draw(t, "fresh")
				if rapid.Bool().Draw(t, "wants") {
					m.Said.Keeping.Wants = []link.Want{{Tier: link.TierLocal, Step: rapid.Int64Range(1, 6).Draw(t, "wanted")}}
				}
				m.Said.Keeping.Ended = rapid.SampledFrom([]string{"", "", "", engine.ReasonSucceeded}).Draw(t, "ended")
			}
			if rapid.Bool().Draw(t, "written") {
				written(g, link.TierLocal, rapid.Int64Range(1, 6).Draw(t, "step"))
			}
			s := sightOf(g)
			if rapid.Bool().Draw(t, "a commit has ended") {
				s.ended = []outcome{{link.Committed{Tier: link.TierLocal, Generation: int64(generation), Step: 3}, nil}}
			}
			before := mem.again()
			p, next := decide(s, mem, when)
			if again, same := decide(s, mem, when); !reflect.DeepEqual(p, again) || !reflect.DeepEqual(next, same) {
				t.Fatalf("another judgement the second time: %+v, then %+v", p, again)
			}
			if !reflect.DeepEqual(before, mem.again()) {
				t.Fatal("a turn changed what it was given")
			}
			for _, m := range p.tell {
				if m.mark.Generation == int64(generation) && m.mark.Step > 0 {
					if m.mark.Step < told {
						t.Fatalf("the watermark fell from %d to %d", told, m.mark.Step)
					}
					told = m.mark.Step
				}
			}
			mem, when = next, when.Add(time.Duration(rapid.IntRange(0, 600).Draw(t, "seconds"))*time.Second)
		}
	})
}
