package tenant

import (
	"context"
	"maps"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/quota"
	"github.com/fermi-cluster/fermi/internal/seal"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/objects"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/truth"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Secrets gives the hooks of secrets.
type Secrets struct {
	truth *truth.Truth
	box   *seal.Box // nil: secrets are refused
}

func NewSecrets(t *truth.Truth, box *seal.Box) *Secrets { return &Secrets{truth: t, box: box} }

// Hooks is the row of Secret.
func (s *Secrets) Hooks() *objects.Hooks {
	return &objects.Hooks{
		Kind:   api.KindSecret,
		Access: access.Kind{Read: access.ReadOwn, Write: access.WriteSecrets}, // never with its values
		Read:   objects.Reading{Example: map[string]any{"metadata": map[string]any{"displayName": "hub"}, "spec": map[string]any{"data": map[string]any{"username": "lin", "password": "…"}}}},
		Fresh: func(o api.Object, _ *access.Caller) error {
			x := o.(*api.Secret)
			x.Status = api.SecretStatus{}
			if len(x.Spec.Sealed) > 0 {
				return refuse.ServerSets("spec.sealed", fault.T("Values go into data; leave it out.", "请把值写入 data，并删除此字段。"))
			}
			return nil
		},
		Admit: func(ctx context.Context, _ *rest.Call, b *objects.Birth, _ bool) (err error) {
			sealed := store.Clone(b.Object.(*api.Secret)) // a repeated admission needs the values again
			b.Object = sealed
			b.Ops, err = s.admit(ctx, sealed, nil)
			return err
		},
		Change: func(ctx context.Context, _ *rest.Call, a *objects.Alteration) func() error {
			next, current := a.Next.(*api.Secret), a.Current.(*api.Secret)
			next.Spec = a.Given.(*api.Secret).Spec
			if next.Spec.Type == "" {
				next.Spec.Type = SecretType(current)
			}
			return func() (err error) {
				a.Guards, err = s.admit(ctx, next, current)
				return err
			}
		},
		Present: objects.Presenting{Hide: withoutValues},
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
func (s *Secrets) admit(ctx context.Context, x, old *api.Secret) ([]store.Op, error) {
	if s.box == nil {
		return nil, fault.New(fault.Unavailable, "NoKey", fault.T("This server has no key for secrets.", "本服务没有用于加密的密钥。"))
	}
	project, err := s.truth.Refer(ctx, api.Key{Kind: api.KindProject, Name: x.Meta.Project}, "metadata.project")
	if err != nil {
		return nil, err
	}
	if old == nil {
		if err := s.room(ctx, project.(*api.Project)); err != nil {
			return nil, err
		}
	}
	if old != nil && len(x.Spec.Sealed) > 0 {
		return nil, refuse.Immutable([]fault.Field{refuse.FixedField("spec.sealed")})
	}
	if old != nil && x.Spec.Type != SecretType(old) {
		return nil, refuse.Immutable([]fault.Field{refuse.FixedField("spec.type")})
	}
	sealed := map[string]string{}
	if old != nil {
		maps.Copy(sealed, old.Spec.Sealed)
	}
	if x.Spec.Data == nil && old == nil || len(sealed)+len(x.Spec.Data) == 0 {
		return nil, refuse.Invalid("spec.data", fault.T("Give at least one key with its value.", "请至少给出一个键及其值。"))
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

// SecretType is opaque for secrets older than types.
func SecretType(x *api.Secret) api.SecretType {
	if x.Spec.Type == "" {
		return api.SecretOpaque
	}
	return x.Spec.Type
}

// room refuses a new secret of a project that has as many as it may.
func (s *Secrets) room(ctx context.Context, p *api.Project) error {
	snap, err := s.truth.List(ctx, api.KindSecret, p.Meta.Name, s.truth.Newest())
	if err != nil {
		return err
	}
	if most := p.StorageLimits().Secrets; snap.Len() >= most {
		return quota.OverLimit(p.Meta.Name, "secrets", snap.Len(), 1, most)
	}
	return nil
}
