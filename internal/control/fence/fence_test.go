package fence

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/hold"
	"github.com/fermi-cluster/fermi/internal/engine"
)

var now = time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)

// TestDecide: a hold stays for as long as its replica lives, and is released by another boot or by an operator, whose word also counts
// for everything else that runs there.
func TestDecide(t *testing.T) {
	one := hold.Hold{Replica: "a", Devices: []int{0, 3}, Reason: hold.Silent, BootID: "x", Since: now}
	released := one
	released.Released = true
	live := []engine.Observation{{Name: "a"}, {Name: "b", TaskID: "t"}}
	for name, c := range map[string]struct {
		lost bool
		boot string
		live []engine.Observation
		want hold.List
	}{
		"it lives":         {false, "x", live, hold.List{one}},
		"it has ended":     {false, "x", live[1:], nil},
		"another boot":     {false, "y", live, hold.List{released}},
		"no boot is known": {false, "", live, hold.List{one}},
		"the node is lost": {true, "x", live, hold.List{released, {Replica: "b", Owner: "t", Reason: hold.Lost, Heard: now, Since: now, BootID: "x", Released: true}}},
		"all have ended":   {true, "x", nil, nil},
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
