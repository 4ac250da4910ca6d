package server

import (
	"context"
	"sync"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/store"
)

// writer makes, changes and deletes objects. Safe for concurrent use.
type writer struct {
	*finder
	ids    *id.Source
	clock  clock.Clock
	body   int64      // bytes of a manifest
	making sync.Mutex // held while objects that are made one at a time are counted and written
}

// newWriter finds what is to be changed by f; body is how many bytes a manifest may have.
func newWriter(f *finder, ids *id.Source, c clock.Clock, body int64) *writer {
	return &writer{finder: f, ids: ids, clock: c, body: body}
}

func (s *writer) create(ctx context.Context, c *call, row api.KindInfo) (*reply, error) {
	data, err := c.readBody(s.body)
	if err != nil {
		return nil, err
	}
	h := s.kinds.by[row.Kind]
	if h.read.instead != nil {
		if rep, err := h.read.instead(ctx, c, data); rep != nil || err != nil {
			return rep, err
		}
	}
	var o api.Object
	if h.read.decode != nil {
		o, err = h.read.decode(data)
	} else {
		o, err = api.Decode(row.Kind, data)
	}
	if err != nil {
		return nil, s.alsoWrong(ctx, c, h, data, err)
	}
	if err := s.scope(ctx, c, o.GetMeta(), row); err != nil {
		return nil, err
	}
	if h.read.settle != nil {
		if err := h.read.settle(ctx, o); err != nil {
			return nil, err
		}
	}
	return s.make(ctx, c, o)
}

// scope settles the project of a new object.
func (s *writer) scope(ctx context.Context, c *call, m *api.Meta, row api.KindInfo) (err error) {
	asked := c.q.text("project")
	if !row.Project {
		return nil // Prepare refuses a project where there is none
	}
	if asked != "" && m.Project != "" && asked != m.Project {
		return fault.New(fault.Invalid, "InvalidField", fault.T("Two projects are given.", "给出了两个不同的项目。")).WithFields(fault.Field{
			Path: "metadata.project", Message: fault.T("The query says %q and the manifest %q.", "查询参数为 %q，清单中为 %q。", clip(asked, 64), clip(m.Project, 64)),
		})
	}
	if m.Project == "" {
		m.Project = asked
	}
	if m.Project == "" {
		m.Project, err = s.judge.home(ctx, c.who)
	}
	return err
}

// make takes a decoded object through access, admission, defaults and the commit. Nothing of
// what only the server may set is taken from it.
func (s *writer) make(ctx context.Context, c *call, o api.Object) (*reply, error) {
	h := s.kinds.by[o.Kind()]
	m := o.GetMeta()
	*m = api.Meta{Name: m.Name, DisplayName: m.DisplayName, Project: m.Project, Labels: m.Labels}
	c.note.about(o)
	if err := h.fresh(o, c.who); err != nil {
		return nil, err
	}
	if err := s.judge.mayWrite(ctx, c.who, o); err != nil {
		return nil, err
	}
	named := m.Name != ""
	if err := api.Prepare(o, s.ids.Random); err != nil {
		return nil, s.alsoMissing(ctx, c, o, err)
	}
	dry := c.q.yes("dryRun")
	if h.serial {
		s.making.Lock()
		defer s.making.Unlock()
	}
	var err error
	for range retries {
		var b birth
		if b, err = s.admission(ctx, c, o, dry); err != nil {
			return nil, err
		}
		if dry {
			c.note.skip = true
			b.undo()
			return &reply{message: fault.T("Valid; nothing was created.", "校验通过，未创建任何对象。"), data: s.bornData(b.object, "")}, nil
		}
		var rev int64
		if rev, err = s.truth.write(ctx, append([]store.Op{store.Create(b.object)}, b.ops...)...); err == nil {
			return s.born(c, b, rev), nil
		}
		b.undo()
		switch {
		case fault.ReasonOf(err) == "NameTaken" && !named:
			m.Name = api.MakeNameFor(o.Kind(), m.DisplayName, s.ids.Random)
		case fault.ReasonOf(err) != "Stale":
			return nil, err
		}
	}
	return nil, err
}

// admission checks an object against the others and settles what the server decides. It runs
// again when what it looked at has moved before the commit.
func (s *writer) admission(ctx context.Context, c *call, o api.Object, dry bool) (birth, error) {
	b := birth{object: o, undo: func() {}}
	m := o.GetMeta()
	now := s.clock.Now().UTC()
	m.ID = s.ids.New(api.MustInfo(o.Kind()).IDPrefix)
	m.Owner, m.CreatedAt, m.UpdatedAt, m.Revision = c.who.name(), now, now, 0
	admit := s.kinds.by[o.Kind()].admit
	if admit == nil {
		return b, nil
	}
	err := admit(ctx, c, &b, dry)
	if err != nil {
		b.undo()
	}
	return b, err
}

// born answers for what was committed.
func (s *writer) born(c *call, b birth, rev int64) *reply {
	o := b.object
	c.note.after(o)
	c.tell(o, "Created", fault.T("Created.", "已创建。"))
	text := s.kinds.by[o.Kind()].born.message
	if text.IsZero() {
		text = fault.T("Created", "创建成功")
	}
	return &reply{message: text, data: s.bornData(o, b.secret), revision: rev}
}

// bornData is what a create answers with.
func (s *writer) bornData(o api.Object, secret string) any {
	if data := s.kinds.by[o.Kind()].born.data; data != nil {
		return data(o, secret)
	}
	return s.kinds.hide(o)
}

// alsoWrong adds to why a manifest can't be read what is wrong with the rest of it. What it names is looked up only in
// a project that the caller may write to.
func (s *writer) alsoWrong(ctx context.Context, c *call, h *hooks, data []byte, err error) error {
	e := fault.From(err)
	if h.references == nil || e.Code != fault.Invalid || len(e.Fields) == 0 || len(e.Fields) >= maxGathered {
		return err
	}
	if h.read.foreign != nil && h.read.foreign(data) {
		return err
	}
	rest, also := api.AlsoWrong(h.kind, data, e.Fields)
	var all gathered
	all.take(err)
	if len(also) > 0 {
		all.take(fault.New(fault.Invalid, "InvalidField", fault.Text{}).WithFields(also...))
	}
	if rest != nil && s.judge.mayWrite(ctx, c.who, rest) == nil {
		if missing := h.references(ctx, c, rest); fault.Is(missing, fault.Invalid) && len(fault.From(missing).Fields) > 0 {
			all.take(missing)
		}
	}
	return all.err()
}

// alsoMissing adds to why a new object is refused what it names that is not there.
func (s *writer) alsoMissing(ctx context.Context, c *call, o api.Object, err error) error {
	references := s.kinds.by[o.Kind()].references
	if references == nil || !fault.Is(err, fault.Invalid) || len(fault.From(err).Fields) == 0 {
		return err
	}
	var all gathered
	all.take(err)
	if missing := references(ctx, c, o); fault.Is(missing, fault.Invalid) && len(fault.From(missing).Fields) > 0 {
		all.take(missing)
	}
	return all.err()
}
