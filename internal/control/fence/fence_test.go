package fence

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/hold"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/storetest"
)

var now = time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)

// TestDecide: a hold stays for as long as its replica lives, and is released by another boot or by an operator, whose word also counts
// for everything else that runs there.
func TestDecide(t *testing.T) {
	one := hold.Hold{Replica: "a", Devices: []int{0, 3}, Reason: hold.Silent, BootID: "x", Since: now}
	released := one
	released.Released = true
	live := []engine.Observation{{Name: "a"}, {Name: "b", TaskID: "t"}}
	exited := []engine.Observation{{Name: "a", State: engine.StateExited}, {Name: "c", State: engine.StateExited}}
	for name, c := range map[string]struct {
		lost bool
		boot string
		live []engine.Observation
		want hold.List
	}{
		"it lives":         {false, "x", live, hold.List{one}},
		"it has ended":     {false, "x", exited, hold.List{released}},
		"it is done":       {false, "x", live[1:], nil},
		"another boot":     {false, "y", live, hold.List{released}},
		"no boot is known": {false, "", live, hold.List{one}},
		"the node is lost": {true, "x", live, hold.List{released, {Replica: "b", Owner: "t", Reason: hold.Lost, Heard: now, Since: now, BootID: "x", Released: true}}},
		"all have ended":   {true, "x", exited, hold.List{released}},
		"all are done":     {true, "x", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			n := &api.Node{Spec: api.NodeSpec{Lost: c.lost}, Status: api.NodeStatus{BootID: c.boot, Holds: hold.List{one}}}
			got := decide(n, c.live, now)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			n.Status.Holds = got
			if diff := cmp.Diff(got, decide(n, c.live, now.Add(time.Hour))); diff != "" {
				t.Errorf("the second time: %s", diff)
			}
		})
	}
	if n := (&api.Node{Status: api.NodeStatus{Holds: hold.List{one, {Devices: []int{1}, Released: true}}}}); n.Status.Holds.Closed() != 0b1001 {
		t.Errorf("closed: %b", n.Status.Holds.Closed())
	}
}

// TestBook: who was given up is refused from the write of its hold on, by every server, until the hold is gone; also where the node is.
func TestBook(t *testing.T) {
	s := storetest.Open(t)
	ctx := t.Context()
	b := NewBook(s)
	defer b.Close()
	write := func(op store.Op) {
		t.Helper()
		rev, err := s.Commit(ctx, store.Txn{Ops: []store.Op{op}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.List(ctx, api.KindNode, "", rev); err != nil { // the cache has seen it
			t.Fatal(err)
		}
	}
	refused := func(b *Book, name engine.Name) bool {
		t.Helper()
		of, err := link.ParseName(name)
		if err == nil {
			err = b.Refuse(ctx, of)
		}
		if err != nil && (!fault.Is(err, fault.Forbidden) || fault.ReasonOf(err) != "GivenUp") {
			t.Fatal(err)
		}
		return err != nil
	}
	read := func() *api.Node {
		t.Helper()
		o, err := s.Get(ctx, api.Key{Kind: api.KindNode, Name: "n1"}, 0)
		if err != nil {
			t.Fatal(err)
		}
		return store.Clone(o.(*api.Node))
	}
	write(store.Create(&api.Node{Meta: api.Meta{ID: "node-1", Name: "n1"}, Spec: api.NodeSpec{Zone: "z", Number: 1}}))
	if refused(b, "task-a-w-0-1") {
		t.Error("nobody was given up")
	}
	ops, nodes, err := Hold(ctx, s, []Given{{"n1", hold.Hold{Replica: "task-a-w-0-1", Devices: Devices(0b101), Reason: hold.Silent}}, {"gone", hold.Hold{Replica: "task-a-w-1-1"}}}, now)
	if err != nil || len(ops) != 1 || len(nodes) != 1 || nodes[0].Status.Holds.Closed() != 0b101 {
		t.Fatal(ops, nodes, err)
	}
	write(ops[0])
	late := NewBook(s) // of a server that begins now
	defer late.Close()
	for _, x := range []*Book{b, late} {
		if !refused(x, "task-a-w-0-1") || refused(x, "task-a-w-1-1") || refused(x, "task-a-w-0-2") {
			t.Error("the wrong ones are refused")
		}
	}
	n := read()
	n.Status.Holds[0].Released = true
	write(store.Update(n))
	if !refused(b, "task-a-w-0-1") {
		t.Error("what it hands over counts once its devices are open")
	}
	n = read()
	n.Status.Holds = nil
	write(store.Update(n))
	if refused(b, "task-a-w-0-1") {
		t.Error("it is refused for ever")
	}
}
