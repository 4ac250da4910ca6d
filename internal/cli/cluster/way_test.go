package cluster

import (
	"fmt"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/way"
)

// TestWaysOf: what holds between two zones is shown once, from the zone that was named, with those that say it.
func TestWaysOf(t *testing.T) {
	zones := func() (out []*api.Zone) {
		for name, ways := range map[string]map[string]way.Way{
			"west": {"east": {Encrypted: true}}, "east": {"east": {Network: "10.1.0.0/16"}, "west": {Network: "10.8.0.0/16"}}, "north": nil,
		} {
			z := &api.Zone{Meta: api.Meta{Name: name}}
			z.Spec.Ways = ways
			out = append(out, z)
		}
		return out
	}
	own, between := "east east 10.1.0.0/16 false [east]", "10.8.0.0/16 true"
	for named, want := range map[string]string{
		"":           own + "\neast west " + between + " [east west]",
		"west":       "west east " + between + " [west east]",
		"east":       own + "\neast west " + between + " [east west]",
		"west east":  "west east " + between + " [west east]",
		"east east":  own,
		"north":      "",
		"north west": "north west  false []",
	} {
		var got []string
		for _, h := range waysOf(zones(), strings.Fields(named)) {
			got = append(got, fmt.Sprintf("%s %s %s %v %v", h.From, h.To, h.Network, h.Encrypted, h.SaidBy))
		}
		if strings.Join(got, "\n") != want {
			t.Errorf("%q: %q, want %q", named, got, want)
		}
	}
}
