package train

import (
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
)

// field is a running task of launchers with a rank each, whose own parts of a step take so long.
func field(own ...float64) snapshot {
	s := snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: task(api.PhaseRunning, 1, 1), Placement: placed()}, World: len(own)}}
	s.Task.Spec.Restart = &api.RestartPolicy{MaxRestarts: 5}
	s.Task.Status.Replicas = api.ReplicaCount{Total: len(own), Running: len(own)}
	for i, seconds := range own {
		m := at(i, 1, engine.StateRunning, true, nil)
		if seconds > 0 {
			m.Said.Own = []link.RankOwn{{Rank: i, Seconds: seconds, Steps: 16}}
		}
		s.Members = append(s.Members, m)
	}
	return s
}

func TestStragglersAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		own  []float64
		want []int
	}{
		"one of four":                {[]float64{.1, .11, .3, .1}, []int{2}},
		"one of two":                 {[]float64{.1, .25}, []int{1}},
		"two of five, slowest first": {[]float64{.1, .2, .1, .3, .1}, []int{3, 1}},
		"all alike":                  {[]float64{.1, .11, .12, .13}, nil},
		"a little":                   {[]float64{.1, .1, .1, .14}, nil},
		"noise of short steps":       {[]float64{.001, .001, .01, .001}, nil},
		"half of them":               {[]float64{.1, .1, .3, .3}, []int{2, 3}},
		"nobody tells":               {[]float64{0, 0, 0, 0}, nil},
		"too few tell":               {[]float64{.3, 0, 0, 0, .1}, nil},
	} {
		p := decide(field(c.own...), now)
		var got []int
		for _, f := range p.status.Stragglers {
			got = append(got, f.Rank)
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: %+v", name, p.status.Stragglers)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] || p.status.Stragglers[i].Node != "n"+itoa(c.want[i]) {
				t.Errorf("%s: %+v", name, p.status.Stragglers)
			}
		}
		if len(p.events) != len(c.want) || p.commit != (len(c.want) > 0) || p.status.Phase != api.PhaseRunning || p.swap.node != "" {
			t.Errorf("%s: %d events, commit %v, %s", name, len(p.events), p.commit, p.status.Phase)
		}
	}
}

// TestAStragglerIsNamedOnce, with its evidence, until it is clearly none any more.
func TestAStragglerIsNamedOnce(t *testing.T) {
	s := field(.1, .1, .1, .3)
	p := decide(s, now)
	f := p.status.Stragglers[0]
	if f.Own.Std() != 300*time.Millisecond || f.Others.Std() != 100*time.Millisecond || f.Steps != 16 || f.Generation != 1 || !f.Since.Equal(now) || p.wake == 0 || p.wake > 2*15*time.Second {
		t.Errorf("%+v, wake %s", f, p.wake)
	}
	s = next(s, p)
	s.Members[3].Said.Own[0].Seconds = .14 // between the two bounds
	if p = decide(s, now.Add(time.Minute)); p.commit || len(p.events) > 0 || len(p.status.Stragglers) != 1 {
		t.Errorf("said again: %+v", p.events)
	}
	s.Members[3].Said.Own[0].Seconds = .11
	if p = decide(s, now.Add(time.Minute)); !p.commit || len(p.status.Stragglers) != 0 {
		t.Errorf("it is well again: %+v", p.status.Stragglers)
	}
}

func TestAStragglerIsReplacedByPolicy(t *testing.T) {
	s := field(.1, .1, .1, .3)
	s.Task.Spec.Stragglers = api.StragglersReplace
	p := decide(s, now)
	if p.swap.node != "n3" || len(p.status.Restarts) != 1 || !p.status.Stragglers[0].Replacing || p.status.Generation != 1 {
		t.Fatalf("%+v, %+v", p.swap, p.status)
	}
	s = next(s, p)
	if p = decide(s, now.Add(time.Second)); p.swap.node != "n3" || len(p.status.Restarts) != 1 || p.commit {
		t.Errorf("asked twice it costs %d restarts", len(p.status.Restarts))
	}
	s.stay = true
	if p = decide(s, now.Add(time.Minute)); p.swap.node != "" || p.status.Generation != 1 || p.status.Phase != api.PhaseRunning || len(p.events) != 1 {
		t.Errorf("with no other place it goes on: %+v", p.status)
	}
	s.stay, s.Members[3].Node = false, "n7"
	s.Task.Status.Stragglers = nil
	if p = decide(s, now.Add(time.Minute)); p.swap.node != "" || !tells(p, "StragglerStays") || len(p.status.Restarts) != 1 {
		t.Errorf("slow on another node too: %+v", p.swap)
	}
	if p = decide(s, now.Add(2*time.Hour)); p.swap.node != "n7" || len(p.status.Restarts) != 1 {
		t.Errorf("outside of the window: %+v", p.swap)
	}
	s = field(.1, .1, .1, .3)
	s.Task.Spec.Stragglers, s.Task.Spec.Restart.MaxRestarts = api.StragglersReplace, 0
	if p = decide(s, now); p.swap.node != "" || len(p.status.Stragglers) != 1 {
		t.Errorf("beyond the budget: %+v", p.swap)
	}
}
