package server

import (
	"bytes"
	"context"
	"encoding/json"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
)

// update changes spec, displayName and labels of the revision the caller read.
func (s *writer) update(ctx context.Context, c *call, row api.KindInfo) (*reply, error) {
	data, err := c.readBody(s.body)
	if err != nil {
		return nil, err
	}
	given, err := api.Decode(row.Kind, data)
	if err != nil {
		return nil, err
	}
	h := s.kinds.by[row.Kind]
	if h.read.settle != nil {
		if err := h.read.settle(ctx, given); err != nil {
			return nil, err
		}
	}
	current, err := s.currentFor(ctx, c, row, given)
	if err != nil {
		return nil, err
	}
	c.note.about(current)
	if err := s.judge.mayWrite(ctx, c.who, current); err != nil {
		return nil, err
	}
	if m := current.GetMeta(); m.DeletedAt != nil {
		return nil, fault.New(fault.Conflict, "Deleting", fault.T("%s is being deleted.", "%s 正在删除。", m.Name))
	}
	if given.GetMeta().Revision != current.GetMeta().Revision {
		return nil, stale(row, current)
	}
	a, err := s.changed(ctx, c, h, current, given)
	if err != nil {
		return nil, err
	}
	next := a.next
	if err := s.judge.mayWrite(ctx, c.who, next); err != nil {
		return nil, err
	}
	if c.q.yes("dryRun") {
		c.note.skip = true
		return &reply{message: fault.T("Valid; nothing was changed.", "校验通过，未作任何修改。"), data: s.kinds.hide(next)}, nil
	}
	c.note.before(current)
	if h.keep != nil {
		if err := h.keep(ctx, current, next); err != nil {
			return nil, err
		}
	}
	rev, err := s.truth.write(ctx, append([]store.Op{store.Update(next)}, a.guards...)...)
	if err != nil {
		return nil, err
	}
	c.note.after(next)
	c.tell(next, "Updated", fault.T("Changed.", "已修改。"))
	return &reply{message: fault.T("Changed", "修改成功"), data: s.kinds.hide(next), revision: rev}, nil
}

// currentFor finds what a PUT is about, at least as new as the revision it carries.
func (s *writer) currentFor(ctx context.Context, c *call, row api.KindInfo, given api.Object) (api.Object, error) {
	m, name := given.GetMeta(), c.r.PathValue("name")
	c.note.names(row.Kind, name)
	if m.Revision <= 0 {
		return nil, invalid("metadata.revision", fault.T(
			"Give the revision that you read; the change is refused if somebody else changed it since.", "请填写读取时的 revision；若期间被他人修改，本次修改会被拒绝。"))
	}
	if row.Project && c.q.text("project") == "" && m.Project != "" {
		c.q.in(m.Project)
	}
	f, err := s.resolve(ctx, c, row, name)
	// Another server may have made or changed it a moment ago.
	if fault.Is(err, fault.NotFound) && c.q.number("minRevision") < m.Revision || err == nil && !f.archived && f.object.GetMeta().Revision < m.Revision {
		c.q.atLeast(m.Revision)
		f, err = s.resolve(ctx, c, row, name)
	}
	if err != nil {
		return nil, err
	}
	have := f.object.GetMeta()
	switch {
	case f.archived:
		return nil, fault.New(fault.Conflict, "Finished", fault.T("%s has finished and can no longer be changed.", "%s 已结束，不能再修改。", have.Name))
	case m.Name != "" && m.Name != have.Name:
		return nil, invalid("metadata.name", fault.T("The path says %q; a name never changes.", "路径中为 %q；名称不可更改。", have.Name))
	case m.Project != "" && m.Project != have.Project:
		return nil, invalid("metadata.project", fault.T("It is in the project %q; a project never changes.", "该对象属于项目 %q；项目不可更改。", have.Project))
	}
	return f.object, nil
}

func stale(row api.KindInfo, o api.Object) error {
	m := o.GetMeta()
	return fault.New(fault.Conflict, "Stale", fault.T(
		"The %s %q was changed by somebody else; it is now at revision %d.", "%s %q 已被他人修改，当前 revision 为 %d。", row.Singular, m.Name, m.Revision)).
		WithHint(fault.T("Read it again and repeat the change.", "请重新读取后再修改。"))
}

// changed is the next state of an object, checked, and what must hold still at the commit.
func (s *writer) changed(ctx context.Context, c *call, h *hooks, current, given api.Object) (*alteration, error) {
	a := &alteration{current: current, given: given, next: store.Clone(current)}
	m, g := a.next.GetMeta(), given.GetMeta()
	if g.DisplayName != "" {
		m.DisplayName = g.DisplayName
	}
	m.Labels, m.UpdatedAt = g.Labels, s.clock.Now().UTC()
	check := h.change(ctx, c, a)
	if err := api.Prepare(a.next, s.ids.Random); err != nil {
		return nil, err
	}
	if check != nil {
		if err := check(); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// sameJSON compares as clients see it: absent, null and empty are alike.
func sameJSON(a, b any) bool {
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && (bytes.Equal(x, y) || emptyJSON(x) && emptyJSON(y))
}

func emptyJSON(data []byte) bool {
	switch string(data) {
	case "null", "[]", "{}", `""`:
		return true
	}
	return false
}
