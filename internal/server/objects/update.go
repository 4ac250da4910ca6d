package objects

import (
	"bytes"
	"context"
	"encoding/json"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/store"
)

// update changes spec, displayName and labels of the revision the caller read.
func (s *Writer) update(ctx context.Context, c *rest.Call, row api.KindInfo) (*rest.Reply, error) {
	data, err := c.ReadBody(s.body)
	if err != nil {
		return nil, err
	}
	given, err := api.Decode(row.Kind, data)
	if err != nil {
		return nil, err
	}
	h := s.kinds.Of(row.Kind)
	if h.Read.Settle != nil {
		if err := h.Read.Settle(ctx, given); err != nil {
			return nil, err
		}
	}
	current, err := s.currentFor(ctx, c, row, given)
	if err != nil {
		return nil, err
	}
	c.Note.About(current)
	if err := s.Judge.MayWrite(ctx, c.Who, current); err != nil {
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
	next := a.Next
	if err := s.Judge.MayWrite(ctx, c.Who, next); err != nil {
		return nil, err
	}
	if c.Query.Yes("dryRun") {
		c.Note.Skip = true
		return &rest.Reply{Message: fault.T("Valid; nothing was changed.", "校验通过，未作任何修改。"), Data: s.kinds.Hide(next)}, nil
	}
	c.Note.Before(current)
	if h.Keep != nil {
		if err := h.Keep(ctx, current, next); err != nil {
			return nil, err
		}
	}
	rev, err := s.Truth.Write(ctx, append([]store.Op{store.Update(next)}, a.Guards...)...)
	if err != nil {
		return nil, err
	}
	c.Note.After(next)
	c.Tell(next, "Updated", fault.T("Changed.", "已修改。"))
	return &rest.Reply{Message: fault.T("Changed", "修改成功"), Data: s.kinds.Hide(next), Revision: rev}, nil
}

// currentFor finds what a PUT is about, at least as new as the revision it carries.
func (s *Writer) currentFor(ctx context.Context, c *rest.Call, row api.KindInfo, given api.Object) (api.Object, error) {
	m, name := given.GetMeta(), c.R.PathValue("name")
	c.Note.Names(row.Kind, name)
	if m.Revision <= 0 {
		return nil, refuse.Invalid("metadata.revision", fault.T(
			"Give the revision that you read; the change is refused if somebody else changed it since.", "请填写读取时的 revision；若期间被他人修改，本次修改会被拒绝。"))
	}
	if row.Project && c.Query.Text("project") == "" && m.Project != "" {
		c.Query.In(m.Project)
	}
	f, err := s.Resolve(ctx, c, row, name)
	// Another server may have made or changed it a moment ago.
	if fault.Is(err, fault.NotFound) && c.Query.Number("minRevision") < m.Revision || err == nil && !f.Archived && f.Object.GetMeta().Revision < m.Revision {
		c.Query.AtLeast(m.Revision)
		f, err = s.Resolve(ctx, c, row, name)
	}
	if err != nil {
		return nil, err
	}
	have := f.Object.GetMeta()
	switch {
	case f.Archived:
		return nil, fault.New(fault.Conflict, "Finished", fault.T("%s has finished and can no longer be changed.", "%s 已结束，不能再修改。", have.Name))
	case m.Name != "" && m.Name != have.Name:
		return nil, refuse.Invalid("metadata.name", fault.T("The path says %q; a name never changes.", "路径中为 %q；名称不可更改。", have.Name))
	case m.Project != "" && m.Project != have.Project:
		return nil, refuse.Invalid("metadata.project", fault.T("It is in the project %q; a project never changes.", "该对象属于项目 %q；项目不可更改。", have.Project))
	}
	return f.Object, nil
}

func stale(row api.KindInfo, o api.Object) error {
	m := o.GetMeta()
	return fault.New(fault.Conflict, "Stale", fault.T(
		"The %s %q was changed by somebody else; it is now at revision %d.", "%s %q 已被他人修改，当前 revision 为 %d。", row.Singular, m.Name, m.Revision)).
		WithHint(fault.T("Read it again and repeat the change.", "请重新读取后再修改。"))
}

// changed is the next state of an object, checked, and what must hold still at the commit.
func (s *Writer) changed(ctx context.Context, c *rest.Call, h *Hooks, current, given api.Object) (*Alteration, error) {
	a := &Alteration{Current: current, Given: given, Next: store.Clone(current)}
	m, g := a.Next.GetMeta(), given.GetMeta()
	if g.DisplayName != "" {
		m.DisplayName = g.DisplayName
	}
	m.Labels, m.UpdatedAt = g.Labels, s.clock.Now().UTC()
	check := h.Change(ctx, c, a)
	if err := api.Prepare(a.Next, s.ids.Random); err != nil {
		return nil, err
	}
	if check != nil {
		if err := check(); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// SameJSON compares as clients see it: absent, null and empty are alike.
func SameJSON(a, b any) bool {
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
