package sched_test

import (
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/sched"
)

// fragmented is a stage with two nodes of four devices, on each of which one gang has two, and one that waits for four.
func fragmented(t *testing.T, change func(w *sched.Workload)) *stage {
	s := newStage(t, 2, 4)
	s.p.Moves = func(w *sched.Workload) bool { return !w.Stay }
	for n := range uint32(2) {
		w := s.task([]string{"a", "b"}[n], 1, 1, 2)
		w.Expected, w.RestartCost, w.LastCheckpoint = 20*time.Hour, time.Minute, s.now
		if change != nil {
			change(w)
		}
		at := sched.Assignment{{{Node: n + 1, Devices: 3}}}
		if err := s.c.Hold(w.ID, w.Roles, at); err != nil {
			t.Fatal(err)
		}
		s.q.Run(s.now, s.c, w, at, s.now)
	}
	big := s.task("z", 1, 1, 4)
	big.Expected = 100 * time.Hour
	s.q.Add(big)
	return s
}

// moved plays a time in minutes until somebody is asked to move.
func (s *stage) moved(minutes int) (asked []sched.Eviction) {
	for range minutes {
		for _, w := range []string{"a", "b"} {
			if r, ok := s.q.Running(w); ok && !r.LastCheckpoint.IsZero() { // it saves all the time
				sched.Know(s.q, w, s.now, r.RestartCost)
			}
		}
		if asked = s.plan().Evictions; len(asked) > 0 {
			return asked
		}
		s.pass(time.Minute)
	}
	return nil
}

// TestMovesAreCarriedOut: a gang that waits for a whole place gets it when another moves that saves and has stood for a while; its place
// is kept for it until then, and it goes on at its second place.
func TestMovesAreCarriedOut(t *testing.T) {
	s := fragmented(t, nil)
	began := s.now
	asked := s.moved(180)
	if len(asked) != 1 || asked[0].Why != sched.EvictMoved || asked[0].For != "z" || len(asked[0].To) != 1 {
		t.Fatalf("%+v", asked)
	}
	if took := s.now.Sub(began); took < time.Hour || took > time.Hour+time.Minute {
		t.Errorf("moved after %s", s.now.Sub(began))
	}
	e := asked[0]
	if at, ok := s.c.Reserved(e.ID); !ok || at[0][0] != e.To[0][0] {
		t.Fatalf("its second place is %v, and %v is told", at, e.To)
	}
	s.q.Add(s.task("thief", 1, 1, 2))
	s.starts()
	if err := sched.Moved(s.now, s.c, s.q, e.ID, e.To, s.now); err != nil {
		t.Fatal(err)
	}
	s.starts("z")
	if again := s.moved(300); again != nil {
		t.Errorf("it is full, and yet %+v", again)
	}
}

// TestMovesThatAreNotMade: who has the right to stay does, who does not save, and where it costs more than waiting has. What could not be
// written leaves everybody as they were.
func TestMovesThatAreNotMade(t *testing.T) {
	for name, change := range map[string]func(*sched.Workload){
		"opted out":       func(w *sched.Workload) { w.Stay = true },
		"saves nothing":   func(w *sched.Workload) { w.LastCheckpoint = time.Time{} },
		"not preemptible": func(w *sched.Workload) { w.Preemptible = false },
		"dear":            func(w *sched.Workload) { w.RestartCost = 30 * time.Hour },
		"over soon":       func(w *sched.Workload) { w.Expected, w.RestartCost = 62*time.Minute, 10*time.Minute },
	} {
		s := fragmented(t, change)
		s.p.NoTurns = true
		if asked := s.moved(61); asked != nil {
			t.Errorf("%s: %+v", name, asked)
		}
	}
	s := fragmented(t, nil)
	e := s.moved(180)
	if len(e) != 1 {
		t.Fatal(e)
	}
	s.c.Unreserve(e[0].ID)
	sched.UndoEviction(s.q, e[0])
	if _, ok := s.q.Get("z"); !ok {
		t.Fatal("it waits no more")
	}
	if again := s.moved(30); len(again) != 1 {
		t.Errorf("asked again: %+v", again)
	}
}
