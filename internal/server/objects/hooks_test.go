package objects

import (
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/server/access"
)

// TestKindsWithoutHooksAreRefused: a server that would not know what to do with a kind is not built.
func TestKindsWithoutHooksAreRefused(t *testing.T) {
	made := func(o api.Object, _ *access.Caller) error { return nil }
	for why, rows := range map[string][]*Hooks{
		"no kind of the API":      {{Kind: "Stranger"}},
		"two rows":                {{Kind: api.KindNode}, {Kind: api.KindNode}},
		"what may change":         {{Kind: api.KindZone, Fresh: made}},
		"Placement has no row":    {{Kind: api.KindNode}},
		"TrainingTask has no row": nil,
	} {
		table := NewKinds(access.NewRules())
		err := table.Add(rows...)
		if err == nil && strings.HasPrefix(why, "Placement") {
			for _, row := range api.Kinds { // all but one
				if row.Kind != api.KindPlacement && row.Kind != api.KindNode {
					table.by[row.Kind] = &Hooks{Kind: row.Kind}
				}
			}
		}
		if err == nil {
			err = table.Complete()
		}
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", why, err)
		}
	}
}
