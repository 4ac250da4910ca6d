package store

import (
	"context"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// Bounds of one write of TakeOver: a transaction has at most 100 operations and 1.5 MiB.
const (
	takeAtOnce = 48
	takeSlots  = 16384
)

// TakeOver gives placements of an earlier release their owners' ids as names: those bore the names of their
// tasks. What stands stays where it is; each placement changes its key in one write. It comes before any
// controller of this leadership looks; running it twice changes nothing.
func TakeOver(ctx context.Context, s ReadWriter, fence Epoch) (int, error) {
	all, err := s.List(ctx, api.KindPlacement, "", 0)
	if err != nil {
		return 0, err
	}
	var old []*api.Placement
	all.Ascend("", func(o api.Object) bool {
		if p := o.(*api.Placement); p.Meta.Name != p.Spec.TaskID {
			old = append(old, p)
		}
		return true
	})
	for rest := old; len(rest) > 0; {
		n, slots := 0, 0
		var ops []Op
		for n < len(rest) && n < takeAtOnce && (n == 0 || slots+slotsOf(rest[n]) <= takeSlots) {
			next := Clone(rest[n])
			next.Meta.DisplayName, next.Meta.Name, next.Meta.Revision = next.Meta.Name, next.Spec.TaskID, 0
			ops = append(ops, Delete(api.KeyOf(rest[n]), rest[n].Meta.Revision), Create(next))
			slots, n = slots+slotsOf(rest[n]), n+1
		}
		revision, err := s.Commit(ctx, Txn{Ops: ops, Fence: fence})
		if err != nil {
			return 0, err
		}
		if rest = rest[n:]; len(rest) == 0 {
			// Whoever lists them next finds them under their new names.
			if _, err := s.List(ctx, api.KindPlacement, "", revision); err != nil {
				return 0, err
			}
		}
	}
	return len(old), nil
}

// slotsOf is how many slots a placement names.
func slotsOf(p *api.Placement) (n int) {
	lists := [][]api.RoleAssignment{p.Spec.Roles}
	if p.Spec.Evict != nil {
		lists = append(lists, p.Spec.Evict.To)
	}
	if p.Spec.Shrink != nil {
		lists = append(lists, p.Spec.Shrink.Keep)
	}
	for _, roles := range lists {
		for i := range roles {
			n += len(roles[i].Slots)
		}
	}
	return n
}
