package server

import (
	"context"
	"io"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
)

// tokens gives the hooks of tokens.
type tokens struct {
	truth  *truth
	door   *door
	clock  clock.Clock
	random io.Reader // of secrets
}

func newTokens(t *truth, d *door, c clock.Clock, random io.Reader) *tokens {
	return &tokens{truth: t, door: d, clock: c, random: random}
}

// hooks is the row of Token.
func (s *tokens) hooks() *hooks {
	return &hooks{
		kind: api.KindToken,
		access: kindAccess{
			read: readOwn, write: rule{all, own, own, own, power, false},
			mine:    func(w *caller, o api.Object) bool { return o.(*api.Token).Spec.User == w.name() },
			notMine: fault.T("Only an admin makes or changes tokens of others.", "只有管理员可以管理他人的令牌。"),
		},
		read:   reading{example: map[string]any{"metadata": map[string]any{"displayName": "nightly"}, "spec": map[string]any{"scope": "read"}}},
		fresh:  s.fresh,
		admit:  s.admit,
		serial: true,
		born: bearing{
			message: fault.T("Token created; its secret is shown only now.", "令牌已创建，密钥仅显示一次。"),
			data: func(o api.Object, secret string) any {
				return map[string]any{"object": withoutHash(o), "secret": secret}
			},
			schema: func(reg *schemas) *huma.Schema {
				return object([]string{"object", "secret"}, map[string]*huma.Schema{"object": reg.kind(api.MustInfo(api.KindToken)), "secret": textSchema("Shown once.")})
			},
			at: "/object/metadata/name",
		},
		change: func(_ context.Context, c *call, a *alteration) func() error {
			next, current := a.next.(*api.Token), a.current.(*api.Token)
			check := s.change(next, current, a.given.(*api.Token))
			return func() error {
				if err := check(); err != nil {
					return err
				}
				if !sameJSON(next.Spec.ExpiresAt, current.Spec.ExpiresAt) {
					return s.door.boundLife(c.who, next)
				}
				return nil
			}
		},
		present: presenting{hide: withoutHash},
	}
}

// withoutHash hides what is stored of a secret.
func withoutHash(o api.Object) api.Object {
	private := *o.(*api.Token)
	private.Spec.Hash = ""
	return &private
}

// fresh refuses what only signing in or the server makes.
func (s *tokens) fresh(o api.Object, who *caller) error {
	t := o.(*api.Token)
	switch {
	case t.Spec.Hash != "":
		return serverSets("spec.hash", fault.T("The secret is made by the server; leave it out.", "密钥由系统生成，请删除。"))
	case t.Spec.Use != "" || t.Spec.Epoch != "" || t.Spec.IdleAt != nil || t.Spec.Until != nil:
		return serverSets("spec.use", fault.T("Sessions and codes are made by signing in; leave use, epoch, idleAt and until out.", "会话与登录码由登录产生，请删除 use、epoch、idleAt 和 until。"))
	case t.Spec.Task != "":
		return serverSets("spec.task", fault.T("Tokens of tasks are made by the server; leave it out.", "任务令牌由系统生成，请删除。"))
	}
	if t.Spec.User == "" {
		t.Spec.User = who.name()
	}
	if t.Meta.Name == "" && t.Meta.DisplayName == "" {
		t.Meta.DisplayName = t.Spec.User
	}
	return nil
}

func (s *tokens) admit(ctx context.Context, c *call, b *birth, _ bool) error {
	t := b.object.(*api.Token)
	if err := s.checkExpiry(t); err != nil {
		return err
	}
	if err := s.door.boundLife(c.who, t); err != nil {
		return err
	}
	user, err := s.truth.refer(ctx, api.Key{Kind: api.KindUser, Name: t.Spec.User}, "spec.user")
	if err != nil {
		return err
	}
	if err := s.door.roomForToken(ctx, t.Spec.User); err != nil {
		return err
	}
	b.ops = append(b.ops, store.Unchanged(api.KeyOf(user), user.GetMeta().Revision))
	b.secret, t.Spec.Hash, err = NewSecret(t.Meta.Name, s.random)
	return err
}

func (s *tokens) checkExpiry(t *api.Token) error {
	if at := t.Spec.ExpiresAt; at != nil && !at.After(s.clock.Now()) {
		return invalid("spec.expiresAt", fault.T("The time is in the past; give one to come, or none.", "该时间已过，请给出将来的时间，或不填。"))
	}
	return nil
}

func (s *tokens) change(next, current, given *api.Token) func() error {
	next.Spec.ExpiresAt = given.Spec.ExpiresAt
	return func() error {
		var fields []fault.Field
		if given.Spec.User != "" && given.Spec.User != current.Spec.User {
			fields = append(fields, fixedField("spec.user"))
		}
		if given.Spec.Task != "" && given.Spec.Task != current.Spec.Task {
			fields = append(fields, fixedField("spec.task"))
		}
		if given.Spec.Hash != "" {
			fields = append(fields, fixedField("spec.hash"))
		}
		if given.Spec.Scope != current.Spec.Scope {
			fields = append(fields, fixedField("spec.scope"))
		}
		if !slices.Equal(given.Spec.Projects, current.Spec.Projects) {
			fields = append(fields, fixedField("spec.projects"))
		}
		if current.Spec.Use != "" || given.Spec.Use != "" {
			fields = append(fields, fixedField("spec.use"))
		}
		if len(fields) > 0 {
			return immutable(fields)
		}
		if next.Spec.ExpiresAt != nil && (current.Spec.ExpiresAt == nil || !next.Spec.ExpiresAt.Equal(*current.Spec.ExpiresAt)) {
			return s.checkExpiry(next)
		}
		return nil
	}
}
