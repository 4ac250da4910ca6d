package objects

import (
	"cmp"
	"context"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/truth"
	"github.com/fermi-cluster/fermi/internal/store"
)

// remove deletes. What a controller looks after only gets its mark here: the controller ends its work, then
// removes it. Other kinds go at once unless something refers to them.
func (s *Writer) remove(ctx context.Context, c *rest.Call, row api.KindInfo) (*rest.Reply, error) {
	ctx = store.Urgent(ctx) // it makes room
	name := c.R.PathValue("name")
	c.Note.Names(row.Kind, name)
	f, err := s.Resolve(ctx, c, row, name)
	if err != nil {
		return nil, err
	}
	c.Note.About(f.Object)
	if err := s.Judge.MayWrite(ctx, c.Who, f.Object); err != nil {
		return nil, err
	}
	c.Note.Before(f.Object)
	h := s.kinds.Of(row.Kind)
	switch {
	case f.Archived:
		return s.forget(ctx, c, h, f.Object)
	case h.Remove.Mark != nil:
		return h.Remove.Mark(ctx, c, f.Object)
	}
	// Who deletes names no revision. That the object changed a moment ago, maybe by the same caller and not seen by our cache yet, is no
	// reason to refuse: it is looked at again, as long as it is the same one.
	rev, err := int64(0), error(nil)
	for o, tries := f.Object, 0; tries < truth.Retries && (tries == 0 || fault.ReasonOf(err) == "Stale"); tries++ {
		if tries > 0 {
			var again error
			if o, again = s.Truth.Get(ctx, api.KeyOf(o), o.GetMeta().Revision+1); again != nil || o.GetMeta().ID != f.Object.GetMeta().ID {
				return nil, cmp.Or(again, refuse.Missing(row, name))
			}
		}
		var guards []store.Op
		guards, err = s.unused(ctx, h, o)
		if h.Keep != nil && err == nil {
			err = h.Keep(ctx, o, nil)
		}
		if err == nil {
			rev, err = s.Truth.Write(ctx, append([]store.Op{store.Delete(api.KeyOf(o), o.GetMeta().Revision)}, guards...)...)
		}
	}
	if err != nil {
		return nil, err
	}
	c.Tell(f.Object, "Deleted", fault.T("Deleted.", "已删除。"))
	return &rest.Reply{Message: fault.T("Deleted", "删除成功"), Data: s.kinds.Hide(f.Object), Revision: rev}, nil
}

// forget removes an archived object: bytes first, so that a crash leaves a row to delete again.
func (s *Writer) forget(ctx context.Context, c *rest.Call, h *Hooks, o api.Object) (*rest.Reply, error) {
	id := o.GetMeta().ID
	if h.Remove.Bytes != nil {
		if err := h.Remove.Bytes(ctx, id); err != nil {
			return nil, err
		}
	}
	if err := s.History.Forget(ctx, o.Kind(), id); err != nil {
		return nil, err
	}
	if h.Remove.Forgotten != nil {
		h.Remove.Forgotten(id)
	}
	c.Tell(o, "Deleted", fault.T("Deleted with its logs and outputs.", "已连同日志和产出一起删除。"))
	return &rest.Reply{Message: fault.T("Deleted with its logs and outputs", "已连同日志和产出一起删除"), Data: s.kinds.Hide(o)}, nil
}

// unused refuses with InUse when something refers to the object; guards must hold at the commit.
func (s *Writer) unused(ctx context.Context, h *Hooks, o api.Object) ([]store.Op, error) {
	// Everything committed so far must be looked at, not only what the cache has seen.
	rev, err := s.Truth.Commit(ctx, store.Txn{Ops: []store.Op{store.Unchanged(api.KeyOf(o), o.GetMeta().Revision)}})
	if err != nil || h.Remove.Unused == nil {
		return nil, err
	}
	return h.Remove.Unused(ctx, o, rev)
}
