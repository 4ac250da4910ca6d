package tenant

import (
	"context"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/door"
	"github.com/fermi-cluster/fermi/internal/server/objects"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/truth"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Users gives the hooks of users.
type Users struct{ truth *truth.Truth }

func NewUsers(t *truth.Truth) *Users { return &Users{truth: t} }

// Hooks is the row of User.
func (s *Users) Hooks() *objects.Hooks {
	return &objects.Hooks{
		Kind: api.KindUser,
		Access: access.Kind{
			Read: access.ReadOwn, Write: access.WriteAdmins,
			Mine: func(w *access.Caller, o api.Object) bool { return o.GetMeta().Name == w.Name() },
		},
		Read: objects.Reading{Example: map[string]any{"metadata": map[string]any{"displayName": "林"}, "spec": map[string]any{"role": "member"}}},
		Fresh: func(o api.Object, _ *access.Caller) error {
			o.(*api.User).Status = api.UserStatus{}
			return nil
		},
		Change: func(ctx context.Context, _ *rest.Call, a *objects.Alteration) func() error {
			next, current := a.Next.(*api.User), a.Current.(*api.User)
			next.Spec = a.Given.(*api.User).Spec
			if next.Spec.Disabled && !current.Spec.Disabled {
				next.Status.SignOuts++ // sessions don't come back with the user
			}
			return func() (err error) {
				a.Guards, err = s.keepAdmin(ctx, current, next)
				return err
			}
		},
		Present: objects.Presenting{Hide: func(o api.Object) api.Object { return door.WithoutPassword(o.(*api.User)) }},
		Remove:  objects.Removing{Unused: s.unused},
	}
}

// unused refuses a user who has tokens or tasks, or is the last admin.
func (s *Users) unused(ctx context.Context, o api.Object, rev int64) ([]store.Op, error) {
	name := o.GetMeta().Name
	if err := s.truth.NoneOf(ctx, api.KindToken, "", rev, func(x api.Object) bool {
		t := x.(*api.Token)
		return t.Spec.User == name && t.Spec.Use == "" // sessions end with their user
	}); err != nil {
		return nil, err
	}
	if err := s.truth.NoWork(ctx, "", rev, func(w api.Workload) bool { return w.Meta.Owner == name }); err != nil {
		return nil, err
	}
	return s.keepAdmin(ctx, o.(*api.User), nil)
}

func activeAdmin(u *api.User) bool {
	return u != nil && u.Spec.Role == api.RoleAdmin && !u.Spec.Disabled
}

// keepAdmin makes sure that an admin is left when this one changes (next nil: goes): another one
// is found and must hold still at the commit, so that two cannot remove each other.
func (s *Users) keepAdmin(ctx context.Context, current, next *api.User) ([]store.Op, error) {
	if !activeAdmin(current) || activeAdmin(next) {
		return nil, nil
	}
	snap, err := s.truth.List(ctx, api.KindUser, "", current.Meta.Revision)
	if err != nil {
		return nil, err
	}
	var other *api.User
	snap.Ascend("", func(o api.Object) bool {
		if u := o.(*api.User); u.Meta.ID != current.Meta.ID && activeAdmin(u) {
			other = u
		}
		return other == nil
	})
	if other == nil {
		return nil, fault.New(fault.Conflict, "LastAdmin", fault.T(
			"%s is the last admin.", "%s 是最后一个管理员。", current.Meta.Name)).WithHint(fault.T(
			"Make another admin first.", "请先设置另一个管理员。"))
	}
	return []store.Op{store.Unchanged(api.KeyOf(other), other.Meta.Revision)}, nil
}
