package server

import (
	"context"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/store"
)

// retries is how often a write is tried again when somebody else was faster.
const retries = 8

func (s *Server) create(ctx context.Context, c *call, row api.KindInfo) (*reply, error) {
	data, err := c.readBody(s.Limits.Body)
	if err != nil {
		return nil, err
	}
	if row.Kind == api.KindTrainingTask && wantsExisting(data) {
		return s.submitExisting(ctx, c, data)
	}
	var o api.Object
	if row.Kind == api.KindTrainingTask {
		o, err = decodeTask(data)
	} else {
		o, err = api.Decode(row.Kind, data)
	}
	if err != nil {
		return nil, s.alsoWrong(ctx, c, row, data, err)
	}
	if err := s.scope(ctx, c, o.GetMeta(), row); err != nil {
		return nil, err
	}
	if err := s.nameZones(ctx, o); err != nil {
		return nil, err
	}
	return s.make(ctx, c, o)
}

// scope settles the project of a new object.
func (s *Server) scope(ctx context.Context, c *call, m *api.Meta, row api.KindInfo) (err error) {
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
		m.Project, err = s.home(ctx, c.who)
	}
	return err
}

// birth is everything a create writes and answers.
type birth struct {
	object api.Object
	ops    []store.Op // guards beside the create
	undo   func()     // gives back what admission reserved
	secret string
}

// make takes a decoded object through access, admission, defaults and the commit. Nothing of
// what only the server may set is taken from it.
func (s *Server) make(ctx context.Context, c *call, o api.Object) (*reply, error) {
	m := o.GetMeta()
	*m = api.Meta{Name: m.Name, DisplayName: m.DisplayName, Project: m.Project, Labels: m.Labels}
	c.note.about(o)
	if err := fresh(o, c.who); err != nil {
		return nil, err
	}
	if err := s.mayWrite(ctx, c.who, o); err != nil {
		return nil, err
	}
	named := m.Name != ""
	if err := api.Prepare(o, s.IDs.Random); err != nil {
		return nil, s.alsoMissing(ctx, c, o, err)
	}
	dry := c.q.yes("dryRun")
	if o.Kind() == api.KindToken { // counted and written by one at a time
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
			return &reply{message: fault.T("Valid; nothing was created.", "校验通过，未创建任何对象。"), data: bornData(b.object, "")}, nil
		}
		var rev int64
		if rev, err = s.commit(ctx, append([]store.Op{store.Create(b.object)}, b.ops...)...); err == nil {
			return s.born(c, b, rev), nil
		}
		b.undo()
		switch {
		case fault.ReasonOf(err) == "NameTaken" && !named:
			m.Name = api.MakeNameFor(o.Kind(), m.DisplayName, s.IDs.Random)
		case fault.ReasonOf(err) != "Stale":
			return nil, err
		}
	}
	return nil, err
}

// fresh refuses or clears what a new object must not carry.
func fresh(o api.Object, who *caller) error {
	refuse := func(path string, text fault.Text) error {
		return fault.New(fault.Invalid, "InvalidField", fault.T("The manifest has a field that only the server sets.", "清单包含只能由系统设置的字段。")).
			WithFields(fault.Field{Path: path, Message: text})
	}
	switch o := o.(type) {
	case *api.TrainingTask:
		o.Status = api.TrainingTaskStatus{}
		if o.Spec.Stop {
			return refuse("spec.stop", fault.T("It is set by the stop verb; leave it out.", "该字段由停止操作设置，请删除。"))
		}
		if o.Spec.Restore != nil {
			return refuse("spec.restore", fault.T("It is set by the restore verb; leave it out, or name a checkpoint in spec.checkpoint.from.", "该字段由恢复操作设置，请删除，或在 spec.checkpoint.from 中指定检查点。"))
		}
	case *api.Zone:
		o.Status = api.ZoneStatus{}
	case *api.Queue:
		o.Status = api.QueueStatus{}
	case *api.Project:
		o.Status = api.ProjectStatus{Grants: api.GrantsVersion} // there is nothing to find out about a new one
	case *api.User:
		o.Status = api.UserStatus{}
	case *api.Secret:
		o.Status = api.SecretStatus{}
		if len(o.Spec.Sealed) > 0 {
			return refuse("spec.sealed", fault.T("Values go into data; leave it out.", "请把值写入 data，并删除此字段。"))
		}
	case *api.Token:
		switch {
		case o.Spec.Hash != "":
			return refuse("spec.hash", fault.T("The secret is made by the server; leave it out.", "密钥由系统生成，请删除。"))
		case o.Spec.Use != "" || o.Spec.Epoch != "" || o.Spec.IdleAt != nil || o.Spec.Until != nil:
			return refuse("spec.use", fault.T("Sessions and codes are made by signing in; leave use, epoch, idleAt and until out.", "会话与登录码由登录产生，请删除 use、epoch、idleAt 和 until。"))
		case o.Spec.Task != "":
			return refuse("spec.task", fault.T("Tokens of tasks are made by the server; leave it out.", "任务令牌由系统生成，请删除。"))
		}
		if o.Spec.User == "" {
			o.Spec.User = who.name()
		}
		if o.Meta.Name == "" && o.Meta.DisplayName == "" {
			o.Meta.DisplayName = o.Spec.User
		}
	}
	return nil
}

// admission checks an object against the others and settles what the server decides. It runs
// again when what it looked at has moved before the commit.
func (s *Server) admission(ctx context.Context, c *call, o api.Object, dry bool) (birth, error) {
	b := birth{object: o, undo: func() {}}
	m := o.GetMeta()
	now := s.Clock.Now().UTC()
	m.ID = s.IDs.New(api.MustInfo(o.Kind()).IDPrefix)
	m.Owner, m.CreatedAt, m.UpdatedAt, m.Revision = c.who.name(), now, now, 0
	var err error
	switch o := o.(type) {
	case *api.TrainingTask:
		if err = checkRecipe(o); err == nil {
			err = s.admitTask(ctx, c, &b, o, dry)
		}
	case *api.Token:
		err = s.admitToken(ctx, c, &b, o)
	case *api.Project:
		b.ops, err = s.checkProject(ctx, o, nil)
	case *api.Secret:
		sealed := store.Clone(o) // a repeated admission needs the values again
		b.object = sealed
		b.ops, err = s.admitSecret(ctx, sealed, nil)
	case *api.Queue:
		b.ops, err = s.checkQueue(ctx, o, nil)
	}
	if err != nil {
		b.undo()
	}
	return b, err
}

func (s *Server) admitToken(ctx context.Context, c *call, b *birth, t *api.Token) error {
	if err := s.checkExpiry(t); err != nil {
		return err
	}
	if err := s.boundLife(c.who, t); err != nil {
		return err
	}
	user, err := s.refer(ctx, api.Key{Kind: api.KindUser, Name: t.Spec.User}, "spec.user")
	if err != nil {
		return err
	}
	if err := s.roomForToken(ctx, t.Spec.User); err != nil {
		return err
	}
	b.ops = append(b.ops, store.Unchanged(api.KeyOf(user), user.GetMeta().Revision))
	b.secret, t.Spec.Hash, err = NewSecret(t.Meta.Name, s.Random)
	return err
}

func (s *Server) checkExpiry(t *api.Token) error {
	if at := t.Spec.ExpiresAt; at != nil && !at.After(s.Clock.Now()) {
		return invalid("spec.expiresAt", fault.T("The time is in the past; give one to come, or none.", "该时间已过，请给出将来的时间，或不填。"))
	}
	return nil
}

// checkProject makes sure that queue and new members exist; the queue must still be there at the
// commit. Members it had may be gone by now: they harm nobody.
func (s *Server) checkProject(ctx context.Context, p *api.Project, had []string) ([]store.Op, error) {
	queue := p.Spec.Queue
	if queue == "" {
		queue = api.DefaultQueue
	}
	q, err := s.refer(ctx, api.Key{Kind: api.KindQueue, Name: queue}, "spec.queue")
	if err != nil {
		return nil, err
	}
	for i, member := range p.Spec.Members {
		if slices.Contains(had, member) {
			continue
		}
		if _, err := s.refer(ctx, api.Key{Kind: api.KindUser, Name: member}, indexed("spec.members", i)); err != nil {
			return nil, err
		}
	}
	return []store.Op{store.Unchanged(api.KeyOf(q), q.GetMeta().Revision)}, nil
}

// refer finds an object that another one names; missing is the fault of that field.
func (s *Server) refer(ctx context.Context, key api.Key, path string) (api.Object, error) {
	o, err := s.find(ctx, key, 0)
	if fault.Is(err, fault.NotFound) {
		row := api.MustInfo(key.Kind)
		return nil, invalid(path, fault.T("There is no %s %q.", "%s %q 不存在。", row.Singular, clip(key.Name, 64)))
	}
	return o, err
}

func invalid(path string, text fault.Text) error {
	return fault.New(fault.Invalid, "InvalidField", fault.T("A field has a value that cannot be used.", "某个字段的值无法使用。")).
		WithFields(fault.Field{Path: path, Message: text})
}

// born answers for what was committed.
func (s *Server) born(c *call, b birth, rev int64) *reply {
	o := b.object
	c.note.after(o)
	s.tell(c, o, "Created", fault.T("Created.", "已创建。"))
	text := fault.T("Created", "创建成功")
	switch o.Kind() {
	case api.KindTrainingTask:
		text = fault.T("Training task created", "训练任务创建成功")
	case api.KindToken:
		text = fault.T("Token created; its secret is shown only now.", "令牌已创建，密钥仅显示一次。")
	}
	return &reply{message: text, data: bornData(o, b.secret), revision: rev}
}

// bornData is what a create answers with.
func bornData(o api.Object, secret string) any {
	switch o := o.(type) {
	case *api.TrainingTask:
		return submittedOf(o)
	case *api.Token:
		return map[string]any{"object": hide(o), "secret": secret}
	}
	return hide(o)
}

// tell notes an event; it is written after the commit, together with the audit.
func (s *Server) tell(c *call, o api.Object, reason string, text fault.Text) {
	m := o.GetMeta()
	c.told = append(c.told, history.Event{
		Time: s.Clock.Now().UTC(), Kind: o.Kind(), Project: m.Project, Name: m.Name, ID: m.ID,
		Type: "Normal", Reason: reason, Message: text, Actor: c.who.name(),
	})
}
