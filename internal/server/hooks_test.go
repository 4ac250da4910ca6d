package server

import (
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// TestEveryKindHasItsHooks: a kind of the API's table has a row, and a row says all that the handlers need.
func TestEveryKindHasItsHooks(t *testing.T) {
	s := emptyServer(t)
	for _, row := range api.Kinds {
		h := s.kinds.of(row.Kind)
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
