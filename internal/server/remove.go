package server

import (
	"context"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
)

// remove deletes. What a controller looks after only gets its mark here: the controller ends its work, then
// removes it. Other kinds go at once unless something refers to them.
func (s *writer) remove(ctx context.Context, c *call, row api.KindInfo) (*reply, error) {
	name := c.r.PathValue("name")
	c.note.names(row.Kind, name)
	f, err := s.resolve(ctx, c, row, name)
	if err != nil {
		return nil, err
	}
	c.note.about(f.object)
	if err := s.judge.mayWrite(ctx, c.who, f.object); err != nil {
		return nil, err
	}
	c.note.before(f.object)
	h := s.kinds.by[row.Kind]
	switch {
	case f.archived:
		return s.forget(ctx, c, h, f.object)
	case h.remove.mark != nil:
		return h.remove.mark(ctx, c, f.object)
	}
	guards, err := s.unused(ctx, h, f.object)
	if err != nil {
		return nil, err
	}
	if h.keep != nil {
		if err := h.keep(ctx, f.object, nil); err != nil {
			return nil, err
		}
	}
	rev, err := s.truth.write(ctx, append([]store.Op{store.Delete(api.KeyOf(f.object), f.object.GetMeta().Revision)}, guards...)...)
	if err != nil {
		return nil, err
	}
	c.tell(f.object, "Deleted", fault.T("Deleted.", "已删除。"))
	return &reply{message: fault.T("Deleted", "删除成功"), data: s.kinds.hide(f.object), revision: rev}, nil
}

// forget removes an archived object: bytes first, so that a crash leaves a row to delete again.
func (s *writer) forget(ctx context.Context, c *call, h *hooks, o api.Object) (*reply, error) {
	id := o.GetMeta().ID
	if h.remove.bytes != nil {
		if err := h.remove.bytes(ctx, id); err != nil {
			return nil, err
		}
	}
	if err := s.history.Forget(ctx, o.Kind(), id); err != nil {
		return nil, err
	}
	if h.remove.forgotten != nil {
		h.remove.forgotten(id)
	}
	c.tell(o, "Deleted", fault.T("Deleted with its logs and outputs.", "已连同日志和产出一起删除。"))
	return &reply{message: fault.T("Deleted with its logs and outputs", "已连同日志和产出一起删除"), data: s.kinds.hide(o)}, nil
}

// unused refuses with InUse when something refers to the object; guards must hold at the commit.
func (s *writer) unused(ctx context.Context, h *hooks, o api.Object) ([]store.Op, error) {
	// Everything committed so far must be looked at, not only what the cache has seen.
	rev, err := s.truth.Commit(ctx, store.Txn{Ops: []store.Op{store.Unchanged(api.KeyOf(o), o.GetMeta().Revision)}})
	if err != nil || h.remove.unused == nil {
		return nil, err
	}
	return h.remove.unused(ctx, o, rev)
}
