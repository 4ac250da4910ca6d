package sched_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fermi-cluster/fermi/sched"
)

// build makes a scene's cluster with its runs; the one who wants in waits.
func (s scene) build(t *rapid.T) (*sched.Cluster, *sched.Queues) {
	c, q := sched.NewCluster(), sched.NewQueues()
	for i, n := range s.devices {
		if err := c.SetNode(node(uint32(i+1), "z", slices.Repeat([]string{"A100"}, n)...)); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range s.runs {
		if err := c.Hold(r.w.ID, r.w.Roles, r.at); err != nil {
			t.Fatal(err)
		}
		q.Run(now, c, r.w, r.at, r.since)
	}
	q.Add(s.big)
	return c, q
}

var still = sched.Policy{NoPreemption: true}

// TestMigrationsAdmit: a proposal is carried out move by move; each gang stands whole where it said,
// beside where it stood, and then the one that waits starts. If moving one gang would do, what is
// proposed loses no more; who may not move does not.
func TestMigrationsAdmit(t *testing.T) {
	found := 0
	rapid.Check(t, func(t *rapid.T) {
		s := drawSceneOf(t, 3, 4, 3)
		c, q := s.build(t)
		m, ok := sched.Migrate(now, c, q, s.big.ID, nil)
		if again, same := sched.Migrate(now, c, q, s.big.ID, nil); same != ok || !cmp.Equal(m, again) {
			t.Fatalf("the second time it is another: %+v %+v", m, again)
		}
		if res := sched.Plan(now, c, q, still); len(res.Decisions) > 0 {
			if ok {
				t.Fatalf("it starts as it is, and %+v is proposed", m)
			}
			return
		}
		if best, one := s.bestSingle(t); one && (!ok || m.Lost > best) {
			t.Fatalf("one that loses %s could move; proposed is %v %+v", best, ok, m)
		}
		if !ok {
			return
		}
		found++
		sum := time.Duration(0)
		for _, mv := range m.Moves {
			i := slices.IndexFunc(s.runs, func(r standing) bool { return r.w.ID == mv.ID })
			r := s.runs[i]
			if !r.w.Preemptible || r.w.Priority > s.big.Priority || r.lost() != mv.Lost || !cmp.Equal(r.at, mv.From) || len(mv.To[0]) != len(mv.From[0]) {
				t.Fatalf("%+v of %+v", mv, r)
			}
			if err := c.Reserve(mv.ID, mv.To); err != nil {
				t.Fatalf("its new place is taken: %v", err)
			}
			sum += mv.Lost
		}
		if sum != m.Lost {
			t.Fatalf("%s is not the sum %s", m.Lost, sum)
		}
		for _, mv := range m.Moves {
			if err := sched.Moved(now, c, q, mv.ID, mv.To, now); err != nil {
				t.Fatal(err)
			}
		}
		if res := sched.Plan(now.Add(time.Hour), c, q, still); len(res.Decisions) != 1 {
			t.Fatalf("after %+v: %+v", m, res.Decisions)
		}
	})
	t.Logf("%d proposals", found) // TestMigrations of sched/safety sees to it that there are some
}

// bestSingle is the least lost by moving one gang off its nodes so that the one that waits starts.
func (s scene) bestSingle(t *rapid.T) (best time.Duration, ok bool) {
	for _, r := range s.runs {
		if !r.w.Preemptible || r.w.Priority > s.big.Priority || ok && r.lost() >= best {
			continue
		}
		c, q := s.build(t)
		w := *r.w
		for _, slot := range r.at[0] {
			w.Avoid = append(w.Avoid, slot.Node)
		}
		to, fits := sched.Elsewhere(c, q, &w)
		if !fits || sched.Moved(now, c, q, w.ID, to, now) != nil {
			continue
		}
		if len(sched.Plan(now, c, q, still).Decisions) == 1 {
			best, ok = r.lost(), true
		}
	}
	return best, ok
}

// TestMigrationOfMany: with more candidates than all sets can be tried of, two that share a node go.
func TestMigrationOfMany(t *testing.T) {
	s := newStage(t, 12, 4)
	put := func(id string, preemptible bool, number uint32, devices uint64) {
		w := s.task(id, 0, 1, 1)
		w.Preemptible = preemptible
		at := sched.Assignment{{{Node: number, Devices: devices}}}
		if err := s.c.Hold(id, w.Roles, at); err != nil {
			t.Fatal(err)
		}
		s.q.Run(s.now, s.c, w, at, s.now)
	}
	for n := range uint32(12) { // two of four are free on each node
		put("a"+string(rune('a'+n)), true, n+1, 1)
		put("b"+string(rune('a'+n)), n == 4, n+1, 2)
	}
	s.q.Add(s.task("z", 0, 1, 4))
	m, ok := sched.Migrate(s.now, s.c, s.q, "z", nil)
	if !ok || len(m.Moves) != 2 || m.At[0][0].Node != 5 {
		t.Fatalf("%+v %v", m, ok)
	}
	s.q.Leaving("ae")
	if m, ok := sched.Migrate(s.now, s.c, s.q, "z", nil); ok {
		t.Errorf("who leaves already is proposed: %+v", m)
	}
	if _, ok := sched.Migrate(s.now, s.c, s.q, "nobody", nil); ok {
		t.Error("nobody waits")
	}
}
