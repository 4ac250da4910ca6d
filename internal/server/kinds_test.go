package server

import (
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
)

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
