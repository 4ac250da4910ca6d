package placement_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/where"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/control/placement"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/storetest"
	"github.com/fermi-cluster/fermi/sched/advice"
)

// twoZones have so many nodes of two devices each, numbered from 1.
func twoZones(here, there int) ([]api.Zone, []api.Node) {
	all := nodes(here + there)
	for i := range all {
		all[i].Spec.Zone = "a"
		if i >= here {
			all[i].Spec.Zone = "b"
		}
		all[i].Spec.Number = uint32(i + 1)
	}
	return []api.Zone{{Meta: api.Meta{Name: "a"}, Spec: api.ZoneSpec{Region: "r"}}, {Meta: api.Meta{Name: "b"}, Spec: api.ZoneSpec{Region: "r"}}}, all
}

// placedIn submits a task that may only start in zone a, waits for its place and lets it run.
func placedIn(t *testing.T, s *store.Store, name string, replicas, devices int) *api.TrainingTask {
	t.Helper()
	tk := task(name, replicas, devices)
	tk.Spec.Zones = &api.ZoneRules{Allow: []string{"a"}}
	commit(t, s, store.Create(tk))
	eventually(t, name+" is placed", func() bool { return place(s, name) != nil })
	next := store.Clone(tk)
	next.Status.Phase, next.Status.Attempt, next.Spec.Zones = api.PhaseRunning, 1, nil
	commit(t, s, store.Update(next))
	return next
}

// move asks until the leader has seen the task's place.
func move(t *testing.T, c *placement.Controller, tk *api.TrainingTask, wish placement.MoveWish) (api.Move, error) {
	t.Helper()
	var m api.Move
	var err error
	eventually(t, "the leader knows the task's place", func() bool {
		m, err = c.Move(t.Context(), tk, wish)
		return fault.ReasonOf(err) != "NotPlaced" && fault.ReasonOf(err) != "NotLeading"
	})
	return m, err
}

// carryOut does what train does once the processes have ended.
func carryOut(t *testing.T, s *store.Store, name string) {
	t.Helper()
	eventually(t, name+" is asked to go", func() bool { return place(s, name).Spec.Evict != nil })
	p := store.Clone(place(s, name))
	p.Spec.Roles, p.Spec.Evict = p.Spec.Evict.To, nil
	p.Spec.Attempt++
	commit(t, s, store.Update(p))
}

func nodesIn(roles []api.RoleAssignment) []uint32 {
	var out []uint32
	for _, r := range roles {
		for _, slot := range r.Slots {
			out = append(out, slot.Node)
		}
	}
	return out
}

// TestMove: the new place is reserved in the same write that asks the task to go; until it has gone
// nobody else gets either place, then the old one is free, and a new leader knows all that.
func TestMove(t *testing.T) {
	s := storetest.Open(t)
	zones, all := twoZones(1, 2)
	c := lead(t, s, zones, all)
	tk := placedIn(t, s, "mover", 1, 2)
	reads := store.Clone(tk)
	reads.Spec.Zones = &api.ZoneRules{Data: []api.DataPlace{{Bytes: 7, Zones: []string{"a"}}, {Bytes: 5, Zones: []string{"a", "b"}}}}
	p, err := move(t, c, reads, placement.MoveWish{Zone: "b", Preview: true})
	if p.Bytes == nil || *p.Bytes != 7 {
		t.Errorf("bytes to bring: %v", p.Bytes)
	}
	if err != nil || !p.Fits || p.Moving || p.From.Zones[0].Zone != "a" || p.To.Zones[0].Zone != "b" || p.Lost.Devices != 2 || p.Lost.DeviceSeconds < 240 {
		t.Fatalf("%+v %v", p, err)
	}
	if place(s, "mover").Spec.Evict != nil {
		t.Fatal("a preview changed something")
	}
	m, err := move(t, c, tk, placement.MoveWish{Zone: "b"})
	if err != nil || !m.Moving {
		t.Fatalf("%+v %v", m, err)
	}
	eventually(t, "it is asked to go", func() bool { return place(s, "mover").Spec.Evict != nil })
	e := place(s, "mover").Spec.Evict
	if e.Reason != "Moved" || e.Grace.Std().Minutes() != 2 || len(e.To) != 1 || len(e.To[0].Slots) != 1 || e.To[0].Slots[0].Node == 1 {
		t.Fatalf("%+v", e)
	}
	if _, err := move(t, c, tk, placement.MoveWish{Zone: "b"}); fault.ReasonOf(err) != "AlreadyLeaving" {
		t.Errorf("twice: %v", err)
	}
	// One more fits beside both places, the next does not.
	one, two := task("one", 1, 2), task("two", 1, 2)
	commit(t, s, store.Create(one))
	eventually(t, "the last free node is given", func() bool { return place(s, "one") != nil })
	if n := nodesIn(place(s, "one").Spec.Roles); slices.Contains(n, e.To[0].Slots[0].Node) || slices.Contains(n, 1) {
		t.Fatalf("given twice: %v", n)
	}
	commit(t, s, store.Create(two))
	waits := func(c *placement.Controller) {
		t.Helper()
		eventually(t, "the other waits", func() bool {
			ex, ok := c.Why(two.Meta.ID)
			return ok && ex.Reason == advice.ReasonDevicesBusy
		})
	}
	waits(c)
	fresh := placement.New(placement.Config{Store: s, Clock: clock.Real, IDs: id.Default, Log: quiet, Host: "h", Processes: 100})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- fresh.Run(ctx, store.Epoch{Key: "nobody", Revision: 1}) }() // one whose writes are all refused
	waits(fresh)
	stop()
	<-ended
	carryOut(t, s, "mover")
	eventually(t, "what it left is given", func() bool { return place(s, "two") != nil })
	if n := nodesIn(place(s, "two").Spec.Roles); n[0] != 1 {
		t.Errorf("%v", n)
	}
	if _, err := move(t, c, tk, placement.MoveWish{Zone: "b"}); fault.ReasonOf(err) != "AlreadyThere" {
		t.Errorf("again: %v", err)
	}
	if _, err := move(t, c, tk, placement.MoveWish{Zone: "a"}); fault.ReasonOf(err) != advice.ReasonDevicesBusy {
		t.Errorf("into a full zone: %v", err)
	}
	if place(s, "mover").Spec.Evict != nil {
		t.Error("a refused move was written")
	}
}

// TestMoveRefused: each refusal says why, and nothing is written or kept.
func TestMoveRefused(t *testing.T) {
	s := storetest.Open(t)
	zones, all := twoZones(2, 1)
	c := lead(t, s, zones, all)
	tk := placedIn(t, s, "mover", 2, 2)
	excluded := store.Clone(tk)
	excluded.Spec.Zones = &api.ZoneRules{Allow: []string{"a"}}
	for _, c2 := range []struct {
		task   *api.TrainingTask
		wish   placement.MoveWish
		reason string
	}{
		{tk, placement.MoveWish{Zone: "b"}, advice.ReasonNeverFits},
		{tk, placement.MoveWish{Zone: "a"}, "AlreadyThere"},
		{tk, placement.MoveWish{Nodes: []string{"n0"}}, advice.ReasonNeverFits},
		{tk, placement.MoveWish{Nodes: []string{"none"}}, "NoSuchNode"},
		{excluded, placement.MoveWish{Zone: "b"}, advice.ReasonNoZone},
	} {
		if m, err := move(t, c, c2.task, c2.wish); fault.ReasonOf(err) != c2.reason || m.Moving {
			t.Errorf("%+v: %v, want %s", c2.wish, err, c2.reason)
		}
	}
	ex, err := move(t, c, tk, placement.MoveWish{Zone: "b", Preview: true})
	if err != nil || ex.Fits || ex.Reason != advice.ReasonNeverFits || ex.Message.ZH == "" || ex.To != nil {
		t.Errorf("%+v %v", ex, err)
	}
	ghost := task("ghost", 1, 1)
	if _, err := c.Move(t.Context(), ghost, placement.MoveWish{Zone: "b"}); fault.ReasonOf(err) != "NotPlaced" {
		t.Error(err)
	}
	commit(t, s, store.Create(ghost))
	eventually(t, "nothing is kept", func() bool { return place(s, "ghost") != nil })
	if _, err := placement.New(placement.Config{Store: s, Clock: clock.Real}).Move(t.Context(), tk, placement.MoveWish{Zone: "b"}); fault.ReasonOf(err) != "NotLeading" {
		t.Error(err)
	}
}

// shaky is a store whose commits of an eviction fail as told.
type shaky struct {
	*store.Store
	mode atomic.Int32 // 0: well; 1: not written, unknown to the caller; 2: written, unknown to the caller
}

func (s *shaky) Commit(ctx context.Context, txn store.Txn) (int64, error) {
	p, ok := txn.Ops[0].Object.(*api.Placement)
	mode := s.mode.Load()
	if !ok || p.Spec.Evict == nil || mode == 0 {
		return s.Store.Commit(ctx, txn)
	}
	if mode == 2 {
		if rev, err := s.Store.Commit(ctx, txn); err != nil {
			return rev, err
		}
	}
	return 0, fault.New(fault.Unavailable, "NoQuorum", fault.T("No quorum.", "无多数派。")).Because(errors.New("cut"))
}

// TestMoveInDoubt: a write whose outcome is unknown neither leaks the reserved place nor gives it twice.
func TestMoveInDoubt(t *testing.T) {
	for _, mode := range []int32{1, 2} {
		s := &shaky{Store: storetest.Open(t)}
		zones, all := twoZones(1, 1)
		c := leadOn(t, s, s.Store, zones, all)
		tk := placedIn(t, s.Store, "mover", 1, 2)
		if _, err := move(t, c, tk, placement.MoveWish{Zone: "b", Preview: true}); err != nil {
			t.Fatal(err)
		}
		s.mode.Store(mode)
		if _, err := c.Move(t.Context(), tk, placement.MoveWish{Zone: "b"}); fault.ReasonOf(err) != "NoQuorum" {
			t.Fatal(err)
		}
		s.mode.Store(0)
		other := task("other", 1, 2)
		commit(t, s.Store, store.Create(other))
		if mode == 1 {
			eventually(t, "the place is free again", func() bool { return place(s.Store, "other") != nil })
			if place(s.Store, "mover").Spec.Evict != nil {
				t.Error("it was written after all")
			}
			continue
		}
		eventually(t, "the other waits", func() bool { _, ok := c.Why(other.Meta.ID); return ok })
		eventually(t, "the wish is seen", func() bool { return place(s.Store, "mover").Spec.Evict != nil })
		if place(s.Store, "other") != nil {
			t.Error("the reserved place was lost")
		}
		carryOut(t, s.Store, "mover")
		eventually(t, "what it left is given", func() bool { return place(s.Store, "other") != nil })
	}
}

// TestDrainMoves: what has another place goes there, what has none waits.
func TestDrainMoves(t *testing.T) {
	s := storetest.Open(t)
	zones, all := twoZones(2, 1)
	lead(t, s, zones, all)
	placedIn(t, s, "one", 1, 2)
	placedIn(t, s, "two", 1, 2)
	for _, name := range []string{"n0", "n1"} {
		o, err := s.Get(t.Context(), api.Key{Kind: api.KindNode, Name: name}, 0)
		if err != nil {
			t.Fatal(err)
		}
		n := store.Clone(o.(*api.Node))
		n.Spec.Cordoned, n.Spec.Drain = true, true
		commit(t, s, store.Update(n))
	}
	eventually(t, "both are asked to go", func() bool { return place(s, "one").Spec.Evict != nil && place(s, "two").Spec.Evict != nil })
	moved := 0
	for _, name := range []string{"one", "two"} {
		e := place(s, name).Spec.Evict
		if e.Reason != "Drained" || e.Grace == 0 {
			t.Errorf("%+v", e)
		}
		if len(e.To) > 0 {
			moved++
			if n := nodesIn(e.To); n[0] != 3 {
				t.Errorf("%v", n)
			}
		}
	}
	if moved > 1 {
		t.Errorf("%d have the last node", moved)
	}
}

// TestDrained: a preview says what a drain does, for a node and for one device, and changes nothing.
func TestDrained(t *testing.T) {
	s := storetest.Open(t)
	zones, all := twoZones(3, 0)
	c := lead(t, s, zones, all)
	placedIn(t, s, "one", 1, 2)
	placedIn(t, s, "two", 1, 2)
	preview := func(place string) api.Outage {
		t.Helper()
		out, err := c.Drained(place)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for range 2 { // it gives everything back
		if out := preview("n0"); out.Node != "n0" || out.Move != 1 || out.Wait != 0 || len(out.Items) != 1 || out.Items[0].Lost != 1 || len(out.Items[0].To) != 1 {
			t.Fatalf("%+v", out)
		}
	}
	if out := preview("n2"); len(out.Items) != 0 {
		t.Errorf("%+v", out)
	}
	if out := preview("n0/0"); len(out.Items) != 1 {
		t.Errorf("%+v", out)
	}
	for _, place := range []string{"nowhere", "n0/99", "n0/x"} {
		if _, err := c.Drained(place); err == nil {
			t.Errorf("%s was previewed", place)
		}
	}
	for _, name := range []string{"one", "two"} {
		if place(s, name).Spec.Evict != nil {
			t.Errorf("%s was asked to go", name)
		}
	}
}

// TestWouldAdmit: a gang that has enough free devices but no whole place is told who could move where;
// moved there by hand, it starts.
func TestWouldAdmit(t *testing.T) {
	s := storetest.Open(t)
	zones, all := twoZones(2, 0)
	c := lead(t, s, zones, all)
	var holders []*api.TrainingTask
	for _, name := range []string{"one", "two"} {
		tk := task(name, 1, 1)
		tk.Spec.Topology = &api.Topology{Mode: api.TopologySpread}
		tk.Spec.Preemptible = name == "two"
		commit(t, s, store.Create(tk))
		eventually(t, name+" is placed", func() bool { return place(s, name) != nil })
		next := store.Clone(tk)
		next.Status.Phase, next.Status.Attempt = api.PhaseRunning, 1
		commit(t, s, store.Update(next))
		holders = append(holders, next)
	}
	if a, b := nodesIn(place(s, "one").Spec.Roles), nodesIn(place(s, "two").Spec.Roles); a[0] == b[0] {
		if _, err := move(t, c, holders[1], placement.MoveWish{Nodes: []string{[]string{"n0", "n1"}[2-a[0]]}}); err != nil {
			t.Fatal(err)
		}
		carryOut(t, s, "two")
	}
	big := task("big", 1, 2)
	commit(t, s, store.Create(big))
	var moves []api.TaskMove
	eventually(t, "it is told what would help", func() bool {
		moves = c.WouldAdmit(big.Meta.ID)
		return len(moves) == 1
	})
	m := moves[0]
	if m.Name != "two" || m.Project != "p" || len(m.To) != 1 || len(m.From) != 1 || m.To[0] == m.From[0] || m.DeviceSeconds < 120 {
		t.Fatalf("%+v", m)
	}
	if _, err := move(t, c, holders[1], placement.MoveWish{Nodes: m.To}); err != nil {
		t.Fatal(err)
	}
	carryOut(t, s, "two")
	eventually(t, "it starts", func() bool { return place(s, "big") != nil })
	if got := c.WouldAdmit(big.Meta.ID); got != nil {
		t.Errorf("it runs, and %+v would help", got)
	}
}

// TestMovesForOthers: a task that saves is asked to move so that one that waits finds a whole node, with its new place in the same write; the
// one that waits starts when it has gone.
func TestMovesForOthers(t *testing.T) {
	s := storetest.Open(t)
	zones, all := twoZones(2, 0)
	c := lead(t, s, zones, all, func(cfg *placement.Config) { cfg.Quantum = time.Second })
	tasks := map[string]*api.TrainingTask{}
	for _, name := range []string{"x", "y", "z"} { // two of them fill a node, the third has half of the other
		tk := task(name, 1, 1)
		tk.Spec.Preemptible, tk.Spec.ExpectedTime = true, api.Duration(20*time.Hour)
		commit(t, s, store.Create(tk))
		eventually(t, name+" is placed", func() bool { return place(s, name) != nil })
		at := time.Now().UTC()
		next := store.Clone(tk)
		next.Status.Phase, next.Status.Attempt, next.Status.PlacedAt = api.PhaseRunning, 1, &at
		next.Status.Saved = &api.SavedStep{Step: 1, At: at}
		next.Status.Time = &api.TimeUse{From: at.Add(time.Millisecond), At: at, Step: 1} // what a start costs is known: nothing
		commit(t, s, store.Update(next))
		tasks[name] = next
	}
	gone := "x"
	if nodesIn(place(s, "y").Spec.Roles)[0] == nodesIn(place(s, "z").Spec.Roles)[0] {
		gone = "z"
	}
	done := store.Clone(tasks[gone])
	done.Status.Phase = api.PhaseCompleted
	commit(t, s, store.Update(done), store.Delete(api.KeyOf(place(s, gone)), 0))
	big := task("big", 1, 2)
	big.Spec.ExpectedTime = api.Duration(1000 * time.Hour)
	commit(t, s, store.Create(big))
	asked := func() (names []string) {
		for _, name := range []string{"x", "y", "z"} {
			if p := place(s, name); p != nil && p.Spec.Evict != nil {
				names = append(names, name)
			}
		}
		return names
	}
	eventually(t, "one is asked to move", func() bool { return len(asked()) == 1 })
	mover := asked()[0]
	e := place(s, mover).Spec.Evict
	if e.Reason != "MakesRoom" || len(e.To) != 1 || len(e.To[0].Slots) != 1 || e.To[0].Role != "worker" || e.Message.ZH == "" {
		t.Fatalf("%+v", e)
	}
	eventually(t, "it waits for that", func() bool {
		why, ok := c.Why(big.Meta.ID)
		return ok && why.Reason == advice.ReasonVictims
	})
	carryOut(t, s, mover)
	eventually(t, "the other starts", func() bool { return place(s, "big") != nil })
}

// TestWeighed: what a task says counts between zones, else what its queue says, and tasks that wait follow the queue.
func TestWeighed(t *testing.T) {
	s := storetest.Open(t)
	zones, all := twoZones(1, 1)
	for i := range zones { // a is cheap, b is clean
		price, grams := float64(1+i), float64(200-100*i)
		zones[i].Spec.Price, zones[i].Spec.Carbon = api.Price{DeviceHour: &price}, &api.Carbon{GramsPerKWh: &grams}
	}
	c := lead(t, s, zones, all)
	tk := task("t", 1, 2)
	zone := func() string {
		p := look(t, c, tk)
		if !p.Fits {
			t.Fatalf("%+v", p)
		}
		return p.Planned.Zones[0].Zone + ": " + p.Planned.Text.EN
	}
	eventually(t, "the leader knows the nodes", func() bool { p, err := c.Preview(t.Context(), tk); return err == nil && p.Fits })
	if got := zone(); got != "a: " {
		t.Error(got)
	}
	setQueue := func(w *where.Weights) {
		eventually(t, "the queue is changed", func() bool {
			q, err := s.Get(t.Context(), api.Key{Kind: api.KindQueue, Name: "q"}, 0)
			if err != nil {
				return false
			}
			next := store.Clone(q.(*api.Queue))
			next.Spec.Prefer = w
			_, err = s.Commit(t.Context(), store.Txn{Ops: []store.Op{store.Update(next)}})
			return err == nil
		})
	}
	setQueue(&where.Weights{Carbon: 2})
	eventually(t, "the queue's word counts", func() bool { return zone() == "b: the best zone with room by carbon 2, as queue q says" })
	tk.Spec.Zones = &api.ZoneRules{Prefer: &where.Weights{Price: 5, Carbon: 1}}
	if got := zone(); got != "a: the best zone with room by price 5, carbon 1" {
		t.Error(got)
	}
	setQueue(nil)
	for _, f := range []*api.TrainingTask{task("f1", 1, 2), task("f2", 1, 2)} {
		commit(t, s, store.Create(f))
		eventually(t, "it is full", func() bool { return place(s, f.Meta.Name) != nil })
	}
	waits := task("waits", 1, 2)
	commit(t, s, store.Create(waits))
	weighed := func() bool {
		why, _ := c.Why(waits.Meta.ID)
		return slices.ContainsFunc(why.Evidence, func(e advice.Evidence) bool { return e.Fact == "ZonesWeighed" && e.Count == 2 })
	}
	eventually(t, "it waits", func() bool { _, ok := c.Why(waits.Meta.ID); return ok })
	if weighed() {
		t.Error("nobody said what counts")
	}
	setQueue(&where.Weights{Carbon: 1})
	eventually(t, "it follows its queue", weighed)
}
