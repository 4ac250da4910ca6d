package objects

import (
	"context"
	"sync"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/truth"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Writer makes, changes and deletes objects. Safe for concurrent use.
type Writer struct {
	*Finder
	ids    *id.Source
	clock  clock.Clock
	body   int64      // bytes of a manifest
	making sync.Mutex // held while objects that are made one at a time are counted and written
}

// NewWriter finds what is to be changed by f; body is how many bytes a manifest may have.
func NewWriter(f *Finder, ids *id.Source, c clock.Clock, body int64) *Writer {
	return &Writer{Finder: f, ids: ids, clock: c, body: body}
}

func (s *Writer) create(ctx context.Context, c *rest.Call, row api.KindInfo) (*rest.Reply, error) {
	data, err := c.ReadBody(s.body)
	if err != nil {
		return nil, err
	}
	h := s.kinds.Of(row.Kind)
	if h.Read.Instead != nil {
		if rep, err := h.Read.Instead(ctx, c, data); rep != nil || err != nil {
			return rep, err
		}
	}
	var o api.Object
	if h.Read.Decode != nil {
		o, err = h.Read.Decode(data)
	} else {
		o, err = api.Decode(row.Kind, data)
	}
	if err != nil {
		return nil, s.alsoWrong(ctx, c, h, data, err)
	}
	if err := s.Scope(ctx, c, o.GetMeta(), row); err != nil {
		return nil, err
	}
	if h.Read.Settle != nil {
		if err := h.Read.Settle(ctx, o); err != nil {
			return nil, err
		}
	}
	return s.Make(ctx, c, o)
}

// Scope settles the project of a new object.
func (s *Writer) Scope(ctx context.Context, c *rest.Call, m *api.Meta, row api.KindInfo) (err error) {
	asked := c.Query.Text("project")
	if !row.Project {
		return nil // Prepare refuses a project where there is none
	}
	if asked != "" && m.Project != "" && asked != m.Project {
		return fault.New(fault.Invalid, "InvalidField", fault.T("Two projects are given.", "给出了两个不同的项目。")).WithFields(fault.Field{
			Path: "metadata.project", Message: fault.T("The query says %q and the manifest %q.", "查询参数为 %q，清单中为 %q。", refuse.Clip(asked, 64), refuse.Clip(m.Project, 64)),
		})
	}
	if m.Project == "" {
		m.Project = asked
	}
	if m.Project == "" {
		m.Project, err = s.Judge.Home(ctx, c.Who)
	}
	return err
}

// Make takes a decoded object through access, admission, defaults and the commit. Nothing of
// what only the server may set is taken from it.
func (s *Writer) Make(ctx context.Context, c *rest.Call, o api.Object) (*rest.Reply, error) {
	h := s.kinds.Of(o.Kind())
	m := o.GetMeta()
	*m = api.Meta{Name: m.Name, DisplayName: m.DisplayName, Project: m.Project, Labels: m.Labels}
	c.Note.About(o)
	if err := h.Fresh(o, c.Who); err != nil {
		return nil, err
	}
	if err := s.Judge.MayWrite(ctx, c.Who, o); err != nil {
		return nil, err
	}
	named := m.Name != ""
	if err := api.Prepare(o, s.ids.Random); err != nil {
		return nil, s.alsoMissing(ctx, c, o, err)
	}
	dry := c.Query.Yes("dryRun")
	if h.Serial {
		s.making.Lock()
		defer s.making.Unlock()
	}
	var err error
	for range truth.Retries {
		var b Birth
		if b, err = s.admission(ctx, c, o, dry); err != nil {
			return nil, err
		}
		if dry {
			c.Note.Skip = true
			b.Undo()
			return &rest.Reply{Message: fault.T("Valid; nothing was created.", "校验通过，未创建任何对象。"), Data: s.bornData(b.Object, "")}, nil
		}
		var rev int64
		if rev, err = s.Truth.Write(ctx, append([]store.Op{store.Create(b.Object)}, b.Ops...)...); err == nil {
			return s.born(c, b, rev), nil
		}
		b.Undo()
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
func (s *Writer) admission(ctx context.Context, c *rest.Call, o api.Object, dry bool) (Birth, error) {
	b := Birth{Object: o, Undo: func() {}}
	m := o.GetMeta()
	now := s.clock.Now().UTC()
	m.ID = s.ids.New(api.MustInfo(o.Kind()).IDPrefix)
	m.Owner, m.CreatedAt, m.UpdatedAt, m.Revision = c.Who.Name(), now, now, 0
	admit := s.kinds.Of(o.Kind()).Admit
	if admit == nil {
		return b, nil
	}
	err := admit(ctx, c, &b, dry)
	if err != nil {
		b.Undo()
	}
	return b, err
}

// born answers for what was committed.
func (s *Writer) born(c *rest.Call, b Birth, rev int64) *rest.Reply {
	o := b.Object
	c.Note.After(o)
	c.Tell(o, "Created", fault.T("Created.", "已创建。"))
	text := s.kinds.Of(o.Kind()).Born.Message
	if text.IsZero() {
		text = fault.T("Created", "创建成功")
	}
	return &rest.Reply{Message: text, Data: s.bornData(o, b.Secret), Revision: rev}
}

// bornData is what a create answers with.
func (s *Writer) bornData(o api.Object, secret string) any {
	if data := s.kinds.Of(o.Kind()).Born.Data; data != nil {
		return data(o, secret)
	}
	return s.kinds.Hide(o)
}

// alsoWrong adds to why a manifest can't be read what is wrong with the rest of it. What it names is looked up only in
// a project that the caller may write to.
func (s *Writer) alsoWrong(ctx context.Context, c *rest.Call, h *Hooks, data []byte, err error) error {
	e := fault.From(err)
	if h.References == nil || e.Code != fault.Invalid || len(e.Fields) == 0 || len(e.Fields) >= refuse.MaxGathered {
		return err
	}
	if h.Read.Foreign != nil && h.Read.Foreign(data) {
		return err
	}
	rest, also := api.AlsoWrong(h.Kind, data, e.Fields)
	var all refuse.Gathered
	all.Take(err)
	if len(also) > 0 {
		all.Take(fault.New(fault.Invalid, "InvalidField", fault.Text{}).WithFields(also...))
	}
	if rest != nil && s.Judge.MayWrite(ctx, c.Who, rest) == nil {
		if missing := h.References(ctx, c, rest); fault.Is(missing, fault.Invalid) && len(fault.From(missing).Fields) > 0 {
			all.Take(missing)
		}
	}
	return all.Err()
}

// alsoMissing adds to why a new object is refused what it names that is not there.
func (s *Writer) alsoMissing(ctx context.Context, c *rest.Call, o api.Object, err error) error {
	references := s.kinds.Of(o.Kind()).References
	if references == nil || !fault.Is(err, fault.Invalid) || len(fault.From(err).Fields) == 0 {
		return err
	}
	var all refuse.Gathered
	all.Take(err)
	if missing := references(ctx, c, o); fault.Is(missing, fault.Invalid) && len(fault.From(missing).Fields) > 0 {
		all.Take(missing)
	}
	return all.Err()
}
