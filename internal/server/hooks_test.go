package server

import (
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// TestEveryKindHasItsHooks: a kind of the API's table has a row, and a row says all that the handlers need.
func TestEveryKindHasItsHooks(t *testing.T) {
	s := emptyServer(t)
	for _, row := range api.Kinds {
		h := s.kinds.Of(row.Kind)
		switch {
		case h == nil:
			t.Errorf("%s has no row", row.Kind)
		case row.Users && (h.Fresh == nil || h.Change == nil || h.Read.Example == nil):
			t.Errorf("the row of %s does not say what is fresh, what may change, or shows no example", row.Kind)
		case row.Phased && (h.Filter == nil || h.Remove.Mark == nil || h.Remove.Bytes == nil):
			t.Errorf("the row of %s does not say how to filter by phase, or how it ends", row.Kind)
		}
	}
}
