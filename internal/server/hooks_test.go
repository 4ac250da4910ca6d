package server

import (
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// TestEveryKindHasItsHooks: a kind of the API's table has a row, and a row says all that the handlers need.
func TestEveryKindHasItsHooks(t *testing.T) {
	s := emptyServer(t)
	for _, row := range api.Kinds {
		h := s.kinds.by[row.Kind]
		switch {
		case h == nil:
			t.Errorf("%s has no row", row.Kind)
		case row.Users && (h.fresh == nil || h.change == nil || h.read.example == nil):
			t.Errorf("the row of %s does not say what is fresh, what may change, or shows no example", row.Kind)
		case row.Phased && (h.filter == nil || h.remove.mark == nil || h.remove.bytes == nil):
			t.Errorf("the row of %s does not say how to filter by phase, or how it ends", row.Kind)
		}
	}
}

// TestKindsWithoutHooksAreRefused: a server that would not know what to do with a kind is not built.
func TestKindsWithoutHooksAreRefused(t *testing.T) {
	made := func(o api.Object, _ *caller) error { return nil }
	for why, rows := range map[string][]*hooks{
		"no kind of the API":      {{kind: "Stranger"}},
		"two rows":                {{kind: api.KindNode}, {kind: api.KindNode}},
		"what may change":         {{kind: api.KindZone, fresh: made}},
		"Placement has no row":    {{kind: api.KindNode}},
		"TrainingTask has no row": nil,
	} {
		table := newKinds(newRules())
		err := table.add(rows...)
		if err == nil && strings.HasPrefix(why, "Placement") {
			for _, row := range api.Kinds { // all but one
				if row.Kind != api.KindPlacement && row.Kind != api.KindNode {
					table.by[row.Kind] = &hooks{kind: row.Kind}
				}
			}
		}
		if err == nil {
			err = table.complete()
		}
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", why, err)
		}
	}
}
