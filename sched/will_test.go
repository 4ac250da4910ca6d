package sched_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/sched"
	"github.com/fermi-cluster/fermi/sched/advice"
	"github.com/fermi-cluster/fermi/sched/fair"
)

// stage is a small cluster with its queues and a clock that is moved by hand.
type stage struct {
	t   testing.TB
	c   *sched.Cluster
	q   *sched.Queues
	now time.Time
	p   sched.Policy
}

func newStage(t testing.TB, nodes, devices int) *stage {
	s := &stage{t: t, c: sched.NewCluster(), q: sched.NewQueues(), now: now}
	for i := range nodes {
		n := node(uint32(i+1), "z", slices.Repeat([]string{"A100"}, devices)...)
		n.CPU = 1 << 20
		if err := s.c.SetNode(n); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *stage) plan() sched.Result {
	s.t.Helper()
	return sched.Plan(s.now, s.c, s.q, s.p)
}

// pass lets time pass.
func (s *stage) pass(d time.Duration) { s.now = s.now.Add(d) }

func (s *stage) end(id string) {
	s.c.Release(id)
	s.q.Stop(s.now, id, true)
}

// evict does what an eviction asks for: the victim waits again.
func (s *stage) evict(w *sched.Workload) {
	s.c.Release(w.ID)
	s.q.Stop(s.now, w.ID, false)
	s.q.Add(w)
}

// task is a gang of one role that can be preempted.
func (s *stage) task(id string, priority, replicas, devices int) *sched.Workload {
	w := gang(id, priority, replicas, devices, "")
	w.Preemptible, w.Submitted, w.User, w.Name = true, s.now, "u", "n"
	w.Roles[0].Need.CPU = 1
	return w
}

func (s *stage) starts(want ...string) sched.Result {
	s.t.Helper()
	res := s.plan()
	if got := ids(res); !slices.Equal(got, want) {
		s.t.Fatalf("started %v, want %v", got, want)
	}
	return res
}

func (s *stage) explains(id, want string) {
	s.t.Helper()
	got, ok := sched.Explain(s.now, s.c, s.q, id, 10_000)
	if !ok || got.Reason != want || got.Message.EN == "" || got.Message.ZH == "" {
		s.t.Errorf("%s: %+v, want %s", id, got, want)
	}
}

func (s *stage) teach(name string, devices int, ran time.Duration) {
	for i := range 20 {
		w := s.task(fmt.Sprintf("past-%s-%d", name, i), 0, 1, devices)
		w.Name = name
		at := sched.Assignment{{{Node: 1}}}
		s.q.Run(s.now, s.c, w, at, s.now)
		s.q.Stop(s.now.Add(ran), w.ID, true)
	}
}

func evicted(res sched.Result) []string {
	var out []string
	for _, e := range res.Evictions {
		out = append(out, e.ID)
	}
	slices.Sort(out)
	return out
}

func TestShortBeforeLongUntilOverdue(t *testing.T) {
	s := newStage(t, 1, 1)
	s.teach("short", 1, time.Minute)
	s.teach("long", 1, 24*time.Hour)
	s.q.Add(s.task("t0", 1, 1, 1))
	s.starts("t0")
	long := s.task("t1", 1, 1, 1)
	long.Name = "long"
	s.q.Add(long)
	for i := range 3 {
		short := s.task(fmt.Sprintf("t2%d", i), 1, 1, 1)
		short.Name = "short"
		s.q.Add(short)
	}
	s.end("t0")
	s.starts("t20")
	s.pass(72 * time.Hour)
	s.end("t20")
	s.starts("t1") // who has waited for the longest wait goes first
}

func TestLimitsAndGuaranteesOfQueues(t *testing.T) {
	s := newStage(t, 1, 8)
	if err := s.q.Set([]fair.Queue{{Name: "q", Limit: []int64{-1, -1, 3000}}}, s.c.Total()); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		s.q.Add(s.task(fmt.Sprintf("t%d", i), 1, 1, 1))
	}
	s.starts("t0", "t1", "t2")
	s.starts()
	s.explains("t3", advice.ReasonQueueLimit)
	s.end("t1")
	s.starts("t3")
	if got := s.q.Usage("q")[sched.VectorDevices]; got != 3000 {
		t.Error("used:", got)
	}
	if err := s.q.Set([]fair.Queue{{Name: "q", Guarantee: []int64{0, 0, 9000}}}, s.c.Total()); err == nil {
		t.Error("more was guaranteed than there is")
	}
	if err := s.q.Set(nil, s.c.Total()); err != nil {
		t.Fatal(err)
	}
	s.starts("t4") // a lifted limit is seen at once
}

func TestAReservationIsNotDelayed(t *testing.T) {
	s := newStage(t, 2, 4)
	s.p.NoPreemption = true
	s.teach("hour", 4, time.Hour)
	s.teach("hour", 8, time.Hour)
	s.teach("minute", 1, time.Minute)
	s.teach("day", 1, 24*time.Hour)
	mk := func(id, name string, replicas, devices int) *sched.Workload {
		w := s.task(id, 1, replicas, devices)
		w.Name = name
		return w
	}
	s.q.Add(mk("a", "hour", 1, 4))
	s.starts("a")
	s.pass(50 * time.Minute)
	s.q.Add(mk("gang", "hour", 2, 4)) // both nodes: waits for a, about ten minutes
	res := s.starts()
	if len(res.Reservations) != 1 || res.Reservations[0].ID != "gang" {
		t.Fatalf("%+v", res.Reservations)
	}
	r, ok := s.q.Predicted("gang")
	if in := r.Start.Sub(s.now); !ok || in < 2*time.Minute || in > 25*time.Minute || r.Early.After(r.Start) || r.Late.Before(r.Start) {
		t.Fatalf("expected in %s: %s", in, r)
	}
	s.q.Add(mk("long", "day", 1, 1))    // would stand in the gang's way
	s.q.Add(mk("mini", "minute", 1, 1)) // is gone by then
	if got := ids(s.plan()); !slices.Equal(got, []string{"mini"}) {
		t.Fatal("beside the reservation started", got)
	}
	s.explains("long", advice.ReasonReserved)
	s.pass(2 * time.Hour) // a runs for longer than anybody thought, mini as well
	s.starts()
	if r, _ := s.q.Predicted("gang"); !r.Start.After(s.now) {
		t.Error("an estimate in the past was kept:", r)
	}
	s.end("mini")
	s.end("a")
	s.starts("gang")
	s.end("gang")
	s.starts("long")
	if _, ok := s.q.Predicted("gang"); ok {
		t.Error("the reservation outlived its use")
	}
}

// TestOneVictimNotTen is Volcano#5994.
func TestOneVictimNotTen(t *testing.T) {
	s := newStage(t, 10, 1)
	for i := range 10 {
		s.q.Add(s.task(fmt.Sprintf("low%d", i), 1, 1, 1))
	}
	if n := len(s.plan().Decisions); n != 10 {
		t.Fatal(n)
	}
	s.pass(time.Minute)
	s.q.Add(s.task("z", 9, 1, 1))
	res := s.starts()
	if len(res.Evictions) != 1 || res.Evictions[0].For != "z" || !res.Evictions[0].AskCheckpoint || res.Evictions[0].Grace <= 0 || res.Evictions[0].Why != sched.EvictPriority {
		t.Fatalf("%+v", res.Evictions)
	}
	if again := s.starts(); len(again.Evictions) != 0 {
		t.Error("asked again:", again.Evictions)
	}
	late := s.task("a", 1, 1, 1) // older, and free to take any room
	s.q.Add(late)
	s.evict(s.task(res.Evictions[0].ID, 1, 1, 1))
	s.starts("z") // the room is for whom it was made
}

// TestNoUselessEviction is Volcano#4926 and Kueue#5243: eight devices in four places do not help
// one who needs eight in one.
func TestNoUselessEviction(t *testing.T) {
	s := newStage(t, 4, 8)
	for i := range 4 {
		fixed := s.task(fmt.Sprintf("fixed%d", i), 1, 1, 6)
		fixed.Preemptible = false
		for k, w := range []*sched.Workload{fixed, s.task(fmt.Sprintf("low%d", i), 1, 1, 2)} {
			at := sched.Assignment{{{Node: uint32(i + 1), Devices: []uint64{0x3f, 0xc0}[k]}}}
			if err := s.c.Hold(w.ID, w.Roles, at); err != nil {
				t.Fatal(err)
			}
			s.q.Run(s.now, s.c, w, at, s.now)
		}
	}
	s.pass(time.Hour)
	s.q.Add(s.task("big", 9, 1, 8))
	if res := s.starts(); len(res.Evictions) != 0 {
		t.Errorf("%+v", res.Evictions)
	}
	s.q.Add(s.task("pair", 9, 4, 2)) // four times two do
	if res := s.starts(); !slices.Equal(evicted(res), []string{"low0", "low1", "low2", "low3"}) {
		t.Errorf("%+v", res.Evictions)
	}
}

// TestReclaimEnds is Kueue#14543: two queues with guarantees, one borrows, the other reclaims, and
// it stays so whatever the priorities.
func TestReclaimEnds(t *testing.T) {
	s := newStage(t, 1, 8)
	s.p.NoTurns = true
	four := []int64{0, 0, 4000}
	if err := s.q.Set([]fair.Queue{{Name: "a", Guarantee: four}, {Name: "b", Guarantee: four}}, s.c.Total()); err != nil {
		t.Fatal(err)
	}
	all := map[string]*sched.Workload{}
	add := func(id, queue string, priority, devices int) {
		w := s.task(id, priority, 1, devices)
		w.Queue = queue
		all[id] = w
		s.q.Add(w)
	}
	for i := range 4 {
		add(fmt.Sprintf("b%d", i), "b", 9, 2)
	}
	if n := len(s.plan().Decisions); n != 4 {
		t.Fatal("an idle guarantee was not lent:", n)
	}
	s.pass(time.Hour)
	add("a0", "a", 1, 2)
	add("a1", "a", 1, 2)
	add("a2", "a", 1, 2) // beyond the guarantee
	total := 0
	for range 20 {
		res := s.plan()
		for _, e := range res.Evictions {
			if e.Why != sched.EvictReclaim || all[e.ID].Queue != "b" {
				t.Fatalf("%+v", e)
			}
			total++
			s.evict(all[e.ID])
		}
		s.pass(time.Hour)
	}
	if total != 2 {
		t.Error(total, "were evicted to give back two places")
	}
	for _, q := range []string{"a", "b"} {
		if got := s.q.Usage(q)[sched.VectorDevices]; got != 4000 {
			t.Error(q, "uses", got)
		}
	}
}

func TestTurnsGoToWhoHasLessToDo(t *testing.T) {
	s := newStage(t, 1, 1)
	s.teach("short", 1, time.Minute)
	s.teach("long", 1, 24*time.Hour)
	long := s.task("long", 1, 1, 1)
	long.Name = "long"
	s.q.Add(long)
	s.starts("long")
	short := s.task("short", 1, 1, 1)
	short.Name = "short"
	s.q.Add(short)
	if res := s.starts(); len(res.Evictions) != 0 {
		t.Fatal("before its quantum was over:", res.Evictions)
	}
	if res := s.plan(); !res.Wake.Equal(s.now.Add(10 * time.Minute)) {
		t.Error("not woken for the end of the quantum:", res.Wake)
	}
	s.pass(10 * time.Minute)
	res := s.plan()
	if !slices.Equal(evicted(res), []string{"long"}) || res.Evictions[0].Why != sched.EvictTurn {
		t.Fatalf("%+v", res.Evictions)
	}
	s.evict(long)
	s.starts("short")
	s.pass(10 * time.Minute)
	if res := s.starts(); len(res.Evictions) != 0 {
		t.Error("the long one took the place back:", res.Evictions)
	}
	s.end("short")
	s.starts("long")
}

// TestGuests: room that is kept for a gang is not idle until it comes. One that can be asked to go has it,
// and goes when the gang's time has come; one that can't be asked waits.
func TestGuests(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*stage, *sched.Workload)
		guest  bool
	}{
		"preemptible":     {func(*stage, *sched.Workload) {}, true},
		"not preemptible": {func(_ *stage, w *sched.Workload) { w.Preemptible = false }, false},
		"without turns":   {func(s *stage, _ *sched.Workload) { s.p.NoTurns = true }, false},
		"another queue":   {func(_ *stage, w *sched.Workload) { w.Queue = "other" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 2, 8)
			s.teach("hours", 8, 10*time.Hour)
			s.teach("hours", 16, 10*time.Hour)
			s.teach("days", 8, 60*time.Hour)
			first := s.task("first", 1, 1, 8)
			first.Name, first.Preemptible = "hours", false
			s.q.Add(first)
			s.starts("first")
			gang := s.task("gang", 1, 2, 8)
			gang.Name = "hours"
			s.q.Add(gang)
			s.starts()
			guest := s.task("guest", 1, 1, 8)
			guest.Name = "days"
			tc.change(s, guest)
			s.q.Add(guest)
			if !tc.guest {
				s.starts()
				return
			}
			s.starts("guest")
			if r, ok := s.q.Predicted("gang"); !ok || r.Start.Sub(s.now) > 12*time.Hour {
				t.Errorf("the gang is expected when its guest has ended: %v", r)
			}
			s.pass(10 * time.Hour)
			s.end("first")
			res := s.plan()
			if !slices.Equal(evicted(res), []string{"guest"}) || res.Evictions[0].Why != sched.EvictKept {
				t.Fatalf("the guest is not asked to go: %+v", res)
			}
			s.evict(guest)
			s.starts("gang")
		})
	}
}

func TestElasticStartsSmallGrowsAndShrinksBeforeAnybodyIsKilled(t *testing.T) {
	s := newStage(t, 1, 8)
	s.q.Add(s.task("other", 1, 1, 4))
	s.starts("other")
	w := s.task("elastic", 1, 6, 1)
	w.Roles[0].Min, w.Roles[0].Max = 2, 8
	s.q.Add(w)
	res := s.starts("elastic")
	if n := len(res.Decisions[0].At[0]); n != 2 {
		t.Fatal("started with", n)
	}
	s.pass(time.Hour)
	res = s.starts()
	if len(res.Resizes) != 1 || len(res.Resizes[0].At[0]) != 4 || res.Resizes[0].For != "" {
		t.Fatalf("grew to %+v", res.Resizes)
	}
	if err := sched.Resized(s.now, s.c, s.q, res.Resizes[0].ID, res.Resizes[0].Was); err != nil {
		t.Fatal(err)
	}
	s.end("other")
	s.pass(time.Hour)
	res = s.starts()
	if len(res.Resizes) != 1 || len(res.Resizes[0].At[0]) != 8 {
		t.Fatalf("grew to %+v", res.Resizes)
	}
	s.q.Add(s.task("vip", 9, 1, 5))
	res = s.starts()
	if len(res.Evictions) != 0 || len(res.Resizes) != 1 || res.Resizes[0].For != "vip" || len(res.Resizes[0].At[0]) != 2 {
		t.Fatalf("%+v %+v", res.Evictions, res.Resizes)
	}
	s.starts()
	if err := sched.Resized(s.now, s.c, s.q, "elastic", res.Resizes[0].At); err != nil {
		t.Fatal(err)
	}
	s.starts("vip")
	s.end("elastic")
	s.end("vip")
	if got := s.q.Usage("q")[sched.VectorDevices]; got != 0 {
		t.Error("usage was left behind:", got)
	}
}

func TestAPausedQueueKeepsNothing(t *testing.T) {
	s := newStage(t, 1, 4)
	s.q.Add(s.task("a", 1, 1, 3))
	s.starts("a")
	gang := s.task("gang", 1, 1, 4)
	gang.Queue, gang.Preemptible = "other", false
	s.q.Add(gang)
	if res := s.starts(); len(res.Reservations) != 1 {
		t.Fatalf("%+v", res.Reservations)
	}
	s.q.SetPaused("other", true)
	s.q.Add(s.task("b", 1, 1, 1))
	if res := s.starts("b"); len(res.Reservations) != 0 {
		t.Errorf("%+v", res.Reservations)
	}
	s.end("a")
	s.end("b")
	s.starts()
	s.q.SetPaused("other", false)
	s.starts("gang")
}

func TestAnEvictionTakenBack(t *testing.T) {
	s := newStage(t, 1, 1)
	low := s.task("low", 1, 1, 1)
	s.q.Add(low)
	s.starts("low")
	s.q.Add(s.task("vip", 9, 1, 1))
	res := s.starts()
	if len(res.Evictions) != 1 {
		t.Fatalf("%+v", res.Evictions)
	}
	if r, ok := s.q.Predicted("vip"); !ok || r.Start.Before(s.now) {
		t.Error("others go for it, and no time is known:", r)
	}
	sched.UndoEviction(s.q, res.Evictions[0])
	again := s.starts()
	if len(again.Evictions) != 1 {
		t.Fatalf("not asked again: %+v", again.Evictions)
	}
	s.evict(low)
	s.starts("vip")
}

func TestWithoutATimeNobodyAges(t *testing.T) {
	s := newStage(t, 1, 1)
	s.now = time.Time{}
	for _, id := range []string{"a", "b"} {
		s.q.Add(s.task(id, 1, 1, 1)) // says no time of submission either
	}
	s.starts("a")
	s.now = now
	s.end("a")
	s.starts("b")
}

func TestUndoLeavesNothingBehind(t *testing.T) {
	s := newStage(t, 1, 2)
	s.q.Add(s.task("t", 1, 1, 2))
	before := s.q.Usage("q")
	res := s.starts("t")
	sched.Undo(s.c, s.q, res.Decisions[0])
	if got := s.q.Usage("q"); s.q.Len() != 1 || s.q.Runs() != 0 || got[sched.VectorDevices] != 0 {
		t.Error(s.q.Len(), s.q.Runs(), before, got)
	}
	if again := s.starts("t"); !reflect.DeepEqual(again.Decisions, res.Decisions) {
		t.Error("another decision:", again.Decisions)
	}
	s.pass(-time.Hour) // a clock that goes back
	s.end("t")
	s.starts()
}
