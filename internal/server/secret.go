package server

import (
	"context"
	"maps"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/seal"
	"github.com/fermi-cluster/fermi/internal/store"
)

// secrets gives the hooks of secrets.
type secrets struct {
	truth *truth
	box   *seal.Box // nil: secrets are refused
}

func newSecrets(t *truth, box *seal.Box) *secrets { return &secrets{truth: t, box: box} }

// hooks is the row of Secret.
func (s *secrets) hooks() *hooks {
	return &hooks{
		kind:   api.KindSecret,
		access: kindAccess{read: readOwn, write: rule{all, none, own, none, power, false}}, // never with its values
		read:   reading{example: map[string]any{"metadata": map[string]any{"displayName": "hub"}, "spec": map[string]any{"data": map[string]any{"username": "lin", "password": "…"}}}},
		fresh: func(o api.Object, _ *caller) error {
			x := o.(*api.Secret)
			x.Status = api.SecretStatus{}
			if len(x.Spec.Sealed) > 0 {
				return serverSets("spec.sealed", fault.T("Values go into data; leave it out.", "请把值写入 data，并删除此字段。"))
			}
			return nil
		},
		admit: func(ctx context.Context, _ *call, b *birth, _ bool) (err error) {
			sealed := store.Clone(b.object.(*api.Secret)) // a repeated admission needs the values again
			b.object = sealed
			b.ops, err = s.admit(ctx, sealed, nil)
			return err
		},
		change: func(ctx context.Context, _ *call, a *alteration) func() error {
			next, current := a.next.(*api.Secret), a.current.(*api.Secret)
			next.Spec = a.given.(*api.Secret).Spec
			if next.Spec.Type == "" {
				next.Spec.Type = secretType(current)
			}
			return func() (err error) {
				a.guards, err = s.admit(ctx, next, current)
				return err
			}
		},
		present: presenting{hide: withoutValues},
	}
}

// withoutValues shows which keys a secret has, and no more.
func withoutValues(o api.Object) api.Object {
	x := o.(*api.Secret)
	private := *x
	private.Spec.Data, private.Spec.Sealed = nil, nil
	private.Status.Keys = slices.Sorted(maps.Keys(x.Spec.Sealed))
	return &private
}

// admit seals what was given and forgets it. old is what an update changes: keys that are not
// named stay, an empty value removes one.
func (s *secrets) admit(ctx context.Context, x, old *api.Secret) ([]store.Op, error) {
	if s.box == nil {
		return nil, fault.New(fault.Unavailable, "NoKey", fault.T("This server has no key for secrets.", "本服务没有用于加密的密钥。"))
	}
	project, err := s.truth.refer(ctx, api.Key{Kind: api.KindProject, Name: x.Meta.Project}, "metadata.project")
	if err != nil {
		return nil, err
	}
	if old == nil {
		if err := s.room(ctx, project.(*api.Project)); err != nil {
			return nil, err
		}
	}
	if old != nil && len(x.Spec.Sealed) > 0 {
		return nil, immutable([]fault.Field{fixedField("spec.sealed")})
	}
	if old != nil && x.Spec.Type != secretType(old) {
		return nil, immutable([]fault.Field{fixedField("spec.type")})
	}
	sealed := map[string]string{}
	if old != nil {
		maps.Copy(sealed, old.Spec.Sealed)
	}
	if x.Spec.Data == nil && old == nil || len(sealed)+len(x.Spec.Data) == 0 {
		return nil, invalid("spec.data", fault.T("Give at least one key with its value.", "请至少给出一个键及其值。"))
	}
	for key, value := range x.Spec.Data {
		if value == "" {
			delete(sealed, key)
			continue
		}
		sealed[key] = s.box.Seal(value, api.SealContext(x.Meta.Project, x.Meta.Name, key))
	}
	if fields := api.MissingSecretKeys(x.Spec.Type, func(key string) bool { return sealed[key] != "" }); len(fields) > 0 {
		return nil, fault.New(fault.Invalid, "InvalidField", fault.T("The secret lacks keys of its type.", "密钥缺少其类型所需的键。")).WithFields(fields...)
	}
	x.Spec.Data, x.Spec.Sealed, x.Status = nil, sealed, api.SecretStatus{}
	return []store.Op{store.Unchanged(api.KeyOf(project), project.GetMeta().Revision)}, nil
}

// secretType is opaque for secrets older than types.
func secretType(x *api.Secret) api.SecretType {
	if x.Spec.Type == "" {
		return api.SecretOpaque
	}
	return x.Spec.Type
}

// room refuses a new secret of a project that has as many as it may.
func (s *secrets) room(ctx context.Context, p *api.Project) error {
	snap, err := s.truth.List(ctx, api.KindSecret, p.Meta.Name, s.truth.newest())
	if err != nil {
		return err
	}
	if most := p.StorageLimits().Secrets; snap.Len() >= most {
		return OverLimit(p.Meta.Name, "secrets", snap.Len(), 1, most)
	}
	return nil
}
