package node

import (
	"reflect"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// TestADroppedCardKeepsItsPlace: placements name devices by their place in the list, so a card that drops moves no other.
func TestADroppedCardKeepsItsPlace(t *testing.T) {
	list := func(names ...string) (out []api.Device) { // "uuid@bus"
		for i, name := range names {
			out = append(out, api.Device{Index: i, UUID: name[:1], Bus: name[2:], Vendor: "nvidia"})
		}
		return out
	}
	for name, c := range map[string]struct{ old, now, want []api.Device }{
		"as before":         {list("a@1", "b@2", "c@3"), list("a@1", "b@2", "c@3"), list("a@1", "b@2", "c@3")},
		"one dropped":       {list("a@1", "b@2", "c@3"), list("a@1", "c@3"), list("a@1", "b@2", "c@3")},
		"all dropped":       {list("a@1", "b@2"), nil, list("a@1", "b@2")},
		"another order":     {list("a@1", "b@2"), list("b@2", "a@1"), list("a@1", "b@2")},
		"replaced":          {list("a@1", "b@2", "c@3"), list("a@1", "x@2", "c@3"), list("a@1", "x@2", "c@3")},
		"one more":          {list("a@1"), list("n@0", "a@1"), list("a@1", "n@0")},
		"without a UUID":    {[]api.Device{{Index: 0}, {Index: 1}}, []api.Device{{Index: 0}}, []api.Device{{Index: 0}}},
		"none":              {nil, nil, nil}, // not an empty list: that would be another one than what is stored, and written again and again
		"first of a kind":   {nil, list("a@1"), list("a@1")},
		"moved to a slot":   {list("a@1", "b@2"), list("b@1"), []api.Device{{Index: 0, UUID: "a", Bus: "1", Vendor: "nvidia"}, {Index: 1, UUID: "b", Bus: "1", Vendor: "nvidia"}}},
		"both were swapped": {list("a@1", "b@2"), list("x@1", "y@2"), list("x@1", "y@2")},
	} {
		if got := kept(c.old, c.now); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
