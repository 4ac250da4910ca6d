package safety

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/sched"
)

// small is a cluster of one zone and one type, in which everything can be worked out by hand.
type small struct {
	rng  *rand.Rand
	c    *sched.Cluster
	q    *sched.Queues
	now  time.Time
	free []int // devices, by node
}

func newSmall(seed uint64, nodes, devices int) *small {
	s := &small{rng: rand.New(rand.NewPCG(seed, 1)), c: sched.NewCluster(), q: sched.NewQueues(), now: epoch}
	for i := range nodes {
		n := sched.Node{Number: uint32(i + 1), Name: fmt.Sprint(i + 1), Zone: "z", CPU: 1 << 20, Memory: 1 << 40, Devices: slices.Repeat([]string{"A100"}, devices)}
		if err := s.c.SetNode(n); err != nil {
			panic(err)
		}
		s.free = append(s.free, devices)
	}
	return s
}

func (s *small) gang(id string, priority, replicas, devices int) *sched.Workload {
	return &sched.Workload{
		ID: id, Queue: "q", Priority: priority, Preemptible: true, Submitted: s.now, User: "u", Name: "n",
		Roles: []sched.Role{{Name: "worker", Replicas: replicas, Need: sched.Need{Devices: devices}}},
	}
}

// fitsIn says whether replicas of so many devices each fit what is free.
func fitsIn(free []int, replicas, devices int) bool {
	for _, n := range free {
		replicas -= n / devices
	}
	return replicas <= 0
}

// TestLeastVictims holds evictions against an exhaustive search over all sets of victims.
func TestLeastVictims(t *testing.T) {
	evicted, hopeless := 0, 0
	for seed := range uint64(300) {
		s := newSmall(seed, 3, 4)
		var low []*sched.Workload
		for i := range 9 {
			w := s.gang(fmt.Sprintf("t%d", i), 1, 1+s.rng.IntN(2), 1+s.rng.IntN(3))
			w.Preemptible = s.rng.IntN(5) > 0
			w.RestartCost = time.Duration(s.rng.IntN(100)) * time.Second
			low = append(low, w)
			s.q.Add(w)
		}
		at := map[string]sched.Assignment{}
		for _, d := range sched.Plan(s.now, s.c, s.q, sched.Policy{NoPreemption: true}).Decisions {
			at[d.Workload.ID] = d.At
			for _, slot := range d.At[0] {
				s.free[slot.Node-1] -= d.Workload.Roles[0].Need.Devices
			}
		}
		for _, w := range low { // no one else waits
			if at[w.ID] == nil {
				s.q.Remove(w.ID)
			}
		}
		low = slices.DeleteFunc(low, func(w *sched.Workload) bool { return at[w.ID] == nil })
		s.now = s.now.Add(time.Hour)
		big := s.gang("x", 9, 1+s.rng.IntN(2), 2+s.rng.IntN(3))
		best := s.cheapest(low, at, big)
		s.q.Add(big)
		res := sched.Plan(s.now, s.c, s.q, sched.Policy{})
		got := time.Duration(-1)
		if len(res.Evictions) > 0 || len(res.Decisions) > 0 {
			got = 0
		}
		for _, e := range res.Evictions {
			got += e.Lost
		}
		if got != best {
			t.Fatalf("seed %d: %v lose %s, the least is %s", seed, res.Evictions, got, best)
		}
		if best > 0 {
			evicted++
		} else if best < 0 {
			hopeless++
		}
	}
	if evicted < 50 || hopeless == 0 {
		t.Error("too little happened:", evicted, hopeless)
	}
}

// TestTheSameVictims: of many that are alike the same ones are evicted every time.
func TestTheSameVictims(t *testing.T) {
	evicted := 0
	for seed := range uint64(120) {
		nodes, most := 12, 1
		if seed >= 20 { // few, so that the exact search picks, among some that cost the same
			nodes, most = 3, 3
		}
		var first []sched.Eviction
		for again := range 8 {
			s := newSmall(seed, nodes, 4)
			for i, left := 0, nodes*4; left > 0; i++ {
				w := s.gang(fmt.Sprintf("t%02d", i), 1, 1, 1+s.rng.IntN(most))
				w.Preemptible, w.RestartCost = true, time.Duration(s.rng.IntN(most))*time.Minute
				s.q.Add(w)
				left -= w.Roles[0].Need.Devices
			}
			sched.Plan(s.now, s.c, s.q, sched.Policy{NoPreemption: true})
			s.now = s.now.Add(time.Hour)
			s.q.Add(s.gang("x", 9, 2+s.rng.IntN(4), 2+s.rng.IntN(2)))
			got := sched.Plan(s.now, s.c, s.q, sched.Policy{}).Evictions
			if again == 0 {
				first = got
			}
			if !reflect.DeepEqual(got, first) {
				t.Fatalf("seed %d: first %v, then %v", seed, first, got)
			}
			evicted += len(got)
		}
	}
	if evicted < 500 {
		t.Error("too little happened:", evicted)
	}
}

// cheapest tries all sets of victims; below 0: none helps.
func (s *small) cheapest(low []*sched.Workload, at map[string]sched.Assignment, big *sched.Workload) time.Duration {
	best := time.Duration(-1)
	for mask := range 1 << len(low) {
		free, cost, ok := slices.Clone(s.free), time.Duration(0), true
		for i, w := range low {
			if mask>>i&1 == 0 {
				continue
			}
			ok = ok && w.Preemptible
			n := w.Roles[0].Need.Devices
			for _, slot := range at[w.ID][0] {
				free[slot.Node-1] += n
			}
			cost += time.Duration(n*w.Roles[0].Replicas) * (time.Hour + w.RestartCost)
		}
		if ok && (best < 0 || cost < best) && fitsIn(free, big.Roles[0].Replicas, big.Roles[0].Need.Devices) {
			best = cost
		}
	}
	return best
}

// TestBackfillDelaysNobody: when everybody ends exactly when they said, a gang with a reservation
// starts no later than it was told first, whatever came behind it.
func TestBackfillDelaysNobody(t *testing.T) {
	waited, filled := 0, 0
	for seed := range uint64(200) {
		s := newSmall(seed, 4, 4)
		ends := map[string]time.Time{}
		next, started := 0, 0
		add := func() {
			next++
			w := s.gang(fmt.Sprintf("t%03d", next), 1, 1, 1+s.rng.IntN(3))
			w.Expected = time.Duration(1+s.rng.IntN(120)) * time.Minute
			s.q.Add(w)
		}
		plan := func() bool {
			res := sched.Plan(s.now, s.c, s.q, sched.Policy{NoPreemption: true, Quantum: time.Minute})
			started += len(res.Decisions)
			for _, d := range res.Decisions {
				ends[d.Workload.ID] = s.now.Add(d.Workload.Expected)
			}
			return slices.Contains(ids(res), "x")
		}
		for range 10 {
			add()
		}
		plan()
		s.now = s.now.Add(30 * time.Second)
		x := s.gang("x", 9, 2+s.rng.IntN(3), 3+s.rng.IntN(2))
		x.Expected = time.Hour
		s.q.Add(x)
		if plan() {
			continue
		}
		r, ok := s.q.Predicted("x")
		if !ok {
			t.Fatal("seed", seed, "no reservation")
		}
		waited++
		for before := started; ; {
			add()
			if s.step(ends, r.Start); s.now.After(r.Start) {
				t.Fatalf("seed %d: told to start at %s, it is %s", seed, r.Start, s.now)
			}
			if plan() {
				filled += started - before - 1
				break
			}
			if s.now.Equal(r.Start) {
				t.Fatalf("seed %d: at %s, as told, it does not start", seed, s.now)
			}
		}
	}
	if waited < 50 || filled < 50 {
		t.Error("too little happened:", waited, filled)
	}
}

// step goes to the next end, at most to a time, and ends all that are over. Nothing is learned.
func (s *small) step(ends map[string]time.Time, most time.Time) {
	next := most
	for _, at := range ends {
		if at.Before(next) {
			next = at
		}
	}
	s.now = next
	for _, id := range sorted(ends) {
		if !ends[id].After(s.now) {
			s.c.Release(id)
			s.q.Stop(s.now, id, false)
			s.q.Remove(id)
			delete(ends, id)
		}
	}
}
