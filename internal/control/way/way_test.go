package way

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/joined"
	"github.com/fermi-cluster/fermi/api/v1/way"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func node(name, zone string, can bool) *api.Node {
	n := &api.Node{Meta: api.Meta{Name: name}, Spec: api.NodeSpec{Zone: zone}}
	if n.Status.Agent = (&joined.AgentStatus{}); can {
		n.Status.Agent.Tunnel = &joined.Tunnel{Key: "k", Port: 1}
	}
	return n
}

func TestPlan(t *testing.T) {
	says := func(ways map[string]way.Way) *way.Roads { return &way.Roads{Ways: ways} }
	a1, a2, b1, c1 := node("a1", "a", true), node("a2", "a", true), node("b1", "b", true), node("c1", "c", true)
	for name, c := range map[string]struct {
		zones map[string]*way.Roads
		nodes []*api.Node
		want  map[string]engine.Way
		no    string
	}{
		"nothing is said": {zones: map[string]*way.Roads{"a": says(nil), "b": says(nil)}, nodes: []*api.Node{a1, b1}},
		"among themselves": {
			zones: map[string]*way.Roads{"a": says(map[string]way.Way{"a": {Network: "10.1.0.0/16"}, "b": {Encrypted: true}})}, nodes: []*api.Node{a1, a2},
			want: map[string]engine.Way{"a1": {Network: "10.1.0.0/16"}, "a2": {Network: "10.1.0.0/16"}},
		},
		"one says encrypted, each its network": {
			zones: map[string]*way.Roads{"a": says(map[string]way.Way{"b": {Network: "10.1.0.0/16"}}), "b": says(map[string]way.Way{"a": {Network: "10.2.0.0/16", Encrypted: true}})},
			nodes: []*api.Node{a1, a2, b1, b1},
			want: map[string]engine.Way{
				"a1": {Network: "10.1.0.0/16", Sealed: []string{"b1"}}, "a2": {Network: "10.1.0.0/16", Sealed: []string{"b1"}}, "b1": {Network: "10.2.0.0/16", Sealed: []string{"a1", "a2"}},
			},
		},
		"one says it for both": {
			zones: map[string]*way.Roads{"a": says(map[string]way.Way{"b": {Network: "10.1.0.0/16"}}), "b": says(nil)}, nodes: []*api.Node{a1, b1},
			want: map[string]engine.Way{"a1": {Network: "10.1.0.0/16"}, "b1": {Network: "10.1.0.0/16"}},
		},
		"three that differ": {
			zones: map[string]*way.Roads{"a": says(map[string]way.Way{"b": {Network: "10.1.0.0/16"}}), "b": says(nil), "c": says(map[string]way.Way{"b": {Network: "10.1.0.0/16"}})},
			nodes: []*api.Node{a1, b1, c1, nil},
			want:  map[string]engine.Way{"a1": {}, "b1": {Network: "10.1.0.0/16"}, "c1": {}},
		},
		"one can't": {
			zones: map[string]*way.Roads{"a": says(map[string]way.Way{"b": {Encrypted: true}}), "b": says(nil)}, nodes: []*api.Node{a1, node("old", "b", false)}, no: "WayNotEncrypted",
		},
		"a server's own": {
			zones: map[string]*way.Roads{"a": says(map[string]way.Way{"b": {Encrypted: true}}), "b": says(nil)}, nodes: []*api.Node{{Spec: api.NodeSpec{Zone: "a"}}, b1}, no: "WayNotEncrypted",
		},
	} {
		got, err := plan(c.zones, c.nodes)
		if fault.ReasonOf(err) != c.no || err != nil && c.no == "" {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}
