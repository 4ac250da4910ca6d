package placement_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/control/node"
	"github.com/fermi-cluster/fermi/internal/control/placement"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/storetest"
	"github.com/fermi-cluster/fermi/sched/advice"
)

var quiet = slog.New(slog.DiscardHandler)

func nodes(n int) []api.Node {
	var out []api.Node
	for i := range n {
		node := api.Node{Meta: api.Meta{Name: fmt.Sprintf("n%d", i)}, Spec: api.NodeSpec{Zone: "z", CPU: 8000, Memory: 8 << 30}, Status: api.NodeStatus{Ready: true}}
		for d := range 2 {
			node.Spec.Devices = append(node.Spec.Devices, api.Device{Index: d, Type: "A100", Virtual: true})
		}
		out = append(out, node)
	}
	return out
}

func task(name string, replicas, devices int) *api.TrainingTask {
	return &api.TrainingTask{
		Meta: api.Meta{ID: id.Default.New("task"), Name: name, DisplayName: name, Project: "p", CreatedAt: time.Now().UTC()},
		Spec: api.TrainingTaskSpec{Queue: "q", Roles: []api.Role{{
			Name: "worker", Replicas: replicas, Command: []string{"x"},
			Resources: api.Resources{CPU: 1000, Memory: 1 << 20, Accelerators: api.Accelerators{Count: devices}},
		}}},
		Status: api.TrainingTaskStatus{Phase: api.PhasePending},
	}
}

func commit(t testing.TB, s *store.Store, ops ...store.Op) {
	t.Helper()
	if _, err := s.Commit(t.Context(), store.Txn{Ops: ops}); err != nil {
		t.Fatal(err)
	}
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
		<-clock.Real.After(2 * time.Millisecond)
	}
}

func place(s *store.Store, name string) *api.Placement {
	all, err := s.List(context.Background(), api.KindPlacement, "p", 0)
	if err != nil {
		return nil
	}
	var found *api.Placement
	all.Ascend("", func(o api.Object) bool {
		if p := o.(*api.Placement); p.OwnerName() == name {
			found = p
		}
		return found == nil
	})
	return found
}

func TestPlacesFollowsAndExplains(t *testing.T) {
	s := storetest.Open(t)
	inventory := nodes(2)
	syncer := node.New(node.Config{
		Store: s, Clock: clock.Real, IDs: id.Default, Log: quiet,
		Zones: []api.Zone{{Meta: api.Meta{Name: "z"}, Spec: api.ZoneSpec{Region: "r"}}},
		Nodes: func() ([]api.Node, bool) { return inventory, true },
	})
	for range 2 { // the second changes nothing
		if err := syncer.Sync(t.Context(), store.Epoch{}); err != nil {
			t.Fatal(err)
		}
	}
	before := task("before", 2, 1) // waits before anybody leads
	commit(t, s, store.Create(before), store.Create(&api.Queue{Meta: api.Meta{ID: id.Default.New("queue"), Name: "q"}}))
	c := placement.New(placement.Config{Store: s, Clock: clock.Real, IDs: id.Default, Log: quiet, Host: "h", Processes: 100})
	leading, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- s.Campaign(leading, "me", func(ctx context.Context, epoch store.Epoch) error { return c.Run(ctx, epoch) })
	}()
	t.Cleanup(func() { stop(); <-ended })
	eventually(t, "the waiting gang is placed", func() bool { return place(s, "before") != nil })
	if p := place(s, "before"); len(p.Spec.Roles[0].Slots) != 2 || p.Spec.TaskID != before.Meta.ID || p.Spec.Attempt != 1 {
		t.Errorf("%+v", p.Spec)
	}

	big := task("big", 2, 2)
	commit(t, s, store.Create(big))
	eventually(t, "the second says why it waits", func() bool {
		ex, ok := c.Why(big.Meta.ID)
		return ok && ex.Reason == advice.ReasonDevicesBusy
	})
	if n, ok := waiting(c, "q"); !ok || n != 1 {
		t.Errorf("%d wait, %v", n, ok)
	}

	done := store.Clone(before) // the first finishes: its placement goes, the second starts
	done.Status.Phase = api.PhaseCompleted
	commit(t, s, store.Update(done), store.Delete(api.KeyOf(place(s, "before")), 0))
	eventually(t, "the second is placed", func() bool { return place(s, "big") != nil })

	stopped := task("stopped", 1, 1)
	stopped.Spec.Stop = true
	commit(t, s, store.Create(stopped))
	free := store.Clone(big)
	free.Status.Phase = api.PhaseCompleted
	commit(t, s, store.Update(free), store.Delete(api.KeyOf(place(s, "big")), 0))
	last := task("last", 1, 1)
	commit(t, s, store.Create(last))
	eventually(t, "the last is placed", func() bool { return place(s, "last") != nil })
	if place(s, "stopped") != nil {
		t.Error("a stopped task was placed")
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	ended <- nil
	if _, ok := c.Why(last.Meta.ID); ok {
		t.Error("who does not lead does not explain")
	}
}

func TestNodeSyncKeepsNumbersAndCordons(t *testing.T) {
	s := storetest.Open(t)
	inventory := nodes(3)
	syncer := node.New(node.Config{
		Store: s, Clock: clock.Real, IDs: id.Default, Log: quiet,
		Zones: []api.Zone{{Meta: api.Meta{Name: "z"}, Spec: api.ZoneSpec{Region: "r"}}},
		Nodes: func() ([]api.Node, bool) { return inventory, true },
	})
	sync := func() map[string]*api.Node {
		t.Helper()
		if err := syncer.Sync(t.Context(), store.Epoch{}); err != nil {
			t.Fatal(err)
		}
		// A write of our own is behind all of the syncer's; who reads at least that sees them too.
		mark := &api.Queue{Meta: api.Meta{ID: id.Default.New("queue"), Name: id.Default.New("mark")}}
		commit(t, s, store.Create(mark))
		out := map[string]*api.Node{}
		for i := range 3 {
			name := fmt.Sprintf("n%d", i)
			o, err := s.Get(t.Context(), api.Key{Kind: api.KindNode, Name: name}, mark.Meta.Revision)
			if err != nil {
				t.Fatal(err)
			}
			out[name] = o.(*api.Node)
		}
		return out
	}
	first := sync()
	cordoned := store.Clone(first["n1"])
	cordoned.Spec.Cordoned = true
	commit(t, s, store.Update(cordoned))
	inventory = inventory[1:]
	inventory[0].Spec.CPU = 4000
	eventually(t, "the cache has the cordon", func() bool {
		o, err := s.Get(t.Context(), api.Key{Kind: api.KindNode, Name: "n1"}, 0)
		return err == nil && o.(*api.Node).Spec.Cordoned
	})
	second := sync()
	if n := second["n1"]; !n.Spec.Cordoned || n.Spec.CPU != 4000 || n.Spec.Number != first["n1"].Spec.Number {
		t.Errorf("%+v", n.Spec)
	}
	if n := second["n0"]; n.Status.Ready || n.Status.Reason != "NotReported" {
		t.Errorf("%+v", n.Status)
	}
	if _, err := s.Get(t.Context(), api.Key{Kind: api.KindZone, Name: "z"}, 0); err != nil {
		t.Fatal(err)
	}
}

// waiting counts who waits in a queue; false: the server does not lead.
func waiting(c *placement.Controller, queue string) (int, bool) {
	share, ok := c.Share(queue)
	return share.Waiting, ok
}
