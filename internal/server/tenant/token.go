package tenant

import (
	"context"
	"io"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/door"
	"github.com/fermi-cluster/fermi/internal/server/objects"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/truth"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Tokens gives the hooks of tokens.
type Tokens struct {
	truth  *truth.Truth
	door   *door.Door
	clock  clock.Clock
	random io.Reader // of secrets
}

func NewTokens(t *truth.Truth, d *door.Door, c clock.Clock, random io.Reader) *Tokens {
	return &Tokens{truth: t, door: d, clock: c, random: random}
}

// Hooks is the row of Token.
func (s *Tokens) Hooks() *objects.Hooks {
	return &objects.Hooks{
		Kind: api.KindToken,
		Access: access.Kind{
			Read: access.ReadOwn, Write: access.WriteMine,
			Mine:    func(w *access.Caller, o api.Object) bool { return o.(*api.Token).Spec.User == w.Name() },
			NotMine: fault.T("Only an admin makes or changes tokens of others.", "只有管理员可以管理他人的令牌。"),
		},
		Read:   objects.Reading{Example: map[string]any{"metadata": map[string]any{"displayName": "nightly"}, "spec": map[string]any{"scope": "read"}}},
		Fresh:  s.fresh,
		Admit:  s.admit,
		Serial: true,
		Born: objects.Bearing{
			Message: fault.T("Token created; its secret is shown only now.", "令牌已创建，密钥仅显示一次。"),
			Data: func(o api.Object, secret string) any {
				return map[string]any{"object": withoutHash(o), "secret": secret}
			},
			Schema: func(reg *rest.Schemas) *huma.Schema {
				return rest.Object([]string{"object", "secret"}, map[string]*huma.Schema{"object": reg.Kind(api.MustInfo(api.KindToken)), "secret": rest.TextSchema("Shown once.")})
			},
			At: "/object/metadata/name",
		},
		Change: func(_ context.Context, c *rest.Call, a *objects.Alteration) func() error {
			next, current := a.Next.(*api.Token), a.Current.(*api.Token)
			check := s.change(next, current, a.Given.(*api.Token))
			return func() error {
				if err := check(); err != nil {
					return err
				}
				if !objects.SameJSON(next.Spec.ExpiresAt, current.Spec.ExpiresAt) {
					return s.door.BoundLife(c.Who, next)
				}
				return nil
			}
		},
		Present: objects.Presenting{Hide: withoutHash},
	}
}

// withoutHash hides what is stored of a secret.
func withoutHash(o api.Object) api.Object {
	private := *o.(*api.Token)
	private.Spec.Hash = ""
	return &private
}

// fresh refuses what only signing in or the server makes.
func (s *Tokens) fresh(o api.Object, who *access.Caller) error {
	t := o.(*api.Token)
	switch {
	case t.Spec.Hash != "":
		return refuse.ServerSets("spec.hash", fault.T("The secret is made by the server; leave it out.", "密钥由系统生成，请删除。"))
	case t.Spec.Use != "" || t.Spec.Epoch != "" || t.Spec.IdleAt != nil || t.Spec.Until != nil:
		return refuse.ServerSets("spec.use", fault.T("Sessions and codes are made by signing in; leave use, epoch, idleAt and until out.", "会话与登录码由登录产生，请删除 use、epoch、idleAt 和 until。"))
	case t.Spec.Task != "":
		return refuse.ServerSets("spec.task", fault.T("Tokens of tasks are made by the server; leave it out.", "任务令牌由系统生成，请删除。"))
	}
	if t.Spec.User == "" {
		t.Spec.User = who.Name()
	}
	if t.Meta.Name == "" && t.Meta.DisplayName == "" {
		t.Meta.DisplayName = t.Spec.User
	}
	return nil
}

func (s *Tokens) admit(ctx context.Context, c *rest.Call, b *objects.Birth, _ bool) error {
	t := b.Object.(*api.Token)
	if err := s.checkExpiry(t); err != nil {
		return err
	}
	if err := s.door.BoundLife(c.Who, t); err != nil {
		return err
	}
	user, err := s.truth.Refer(ctx, api.Key{Kind: api.KindUser, Name: t.Spec.User}, "spec.user")
	if err != nil {
		return err
	}
	if err := s.door.RoomForToken(ctx, t.Spec.User); err != nil {
		return err
	}
	b.Ops = append(b.Ops, store.Unchanged(api.KeyOf(user), user.GetMeta().Revision))
	b.Secret, t.Spec.Hash, err = door.NewSecret(t.Meta.Name, s.random)
	return err
}

func (s *Tokens) checkExpiry(t *api.Token) error {
	if at := t.Spec.ExpiresAt; at != nil && !at.After(s.clock.Now()) {
		return refuse.Invalid("spec.expiresAt", fault.T("The time is in the past; give one to come, or none.", "该时间已过，请给出将来的时间，或不填。"))
	}
	return nil
}

func (s *Tokens) change(next, current, given *api.Token) func() error {
	next.Spec.ExpiresAt = given.Spec.ExpiresAt
	return func() error {
		var fields []fault.Field
		if given.Spec.User != "" && given.Spec.User != current.Spec.User {
			fields = append(fields, refuse.FixedField("spec.user"))
		}
		if given.Spec.Task != "" && given.Spec.Task != current.Spec.Task {
			fields = append(fields, refuse.FixedField("spec.task"))
		}
		if given.Spec.Hash != "" {
			fields = append(fields, refuse.FixedField("spec.hash"))
		}
		if given.Spec.Scope != current.Spec.Scope {
			fields = append(fields, refuse.FixedField("spec.scope"))
		}
		if !slices.Equal(given.Spec.Projects, current.Spec.Projects) {
			fields = append(fields, refuse.FixedField("spec.projects"))
		}
		if current.Spec.Use != "" || given.Spec.Use != "" {
			fields = append(fields, refuse.FixedField("spec.use"))
		}
		if len(fields) > 0 {
			return refuse.Immutable(fields)
		}
		if next.Spec.ExpiresAt != nil && (current.Spec.ExpiresAt == nil || !next.Spec.ExpiresAt.Equal(*current.Spec.ExpiresAt)) {
			return s.checkExpiry(next)
		}
		return nil
	}
}
