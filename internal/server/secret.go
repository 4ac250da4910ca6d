package server

import (
	"context"
	"fmt"
	"maps"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
)

// admitSecret seals what was given and forgets it. old is what an update changes: keys that are not
// named stay, an empty value removes one.
func (s *Server) admitSecret(ctx context.Context, x, old *api.Secret) ([]store.Op, error) {
	if s.Box == nil {
		return nil, fault.New(fault.Unavailable, "NoKey", fault.T("This server has no key for secrets.", "本服务没有用于加密的密钥。"))
	}
	project, err := s.refer(ctx, api.Key{Kind: api.KindProject, Name: x.Meta.Project}, "metadata.project")
	if err != nil {
		return nil, err
	}
	if old == nil {
		if err := s.roomForSecret(ctx, project.(*api.Project)); err != nil {
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
		sealed[key] = s.Box.Seal(value, api.SealContext(x.Meta.Project, x.Meta.Name, key))
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

// checkSecrets makes sure that everything a task names is there; all that is not is said at once.
func (s *Server) checkSecrets(ctx context.Context, t *api.TrainingTask) error {
	var all gathered
	if c := t.Spec.Code; c != nil && c.Git != nil && c.Git.Secret != "" {
		all.take(s.checkSecretType(ctx, t.Meta.Project, c.Git.Secret, "spec.code.git.secret", api.SecretGit, api.SecretOpaque))
	}
	for i, ref := range t.Spec.Credentials {
		at := fmt.Sprintf("spec.credentials[%d].secret", i)
		all.take(s.checkSecretType(ctx, t.Meta.Project, ref.Secret, at, api.SecretRegistry, api.SecretS3))
	}
	for i, role := range t.Spec.Roles {
		at := fmt.Sprintf("spec.roles[%d]", i)
		for j, v := range role.Env {
			if v.ValueFrom != nil {
				all.take(s.checkSecret(ctx, t.Meta.Project, *v.ValueFrom, fmt.Sprintf("%s.env[%d].valueFrom", at, j)))
			}
		}
		for j, f := range role.SecretFiles {
			all.take(s.checkSecret(ctx, t.Meta.Project, api.SecretRef{Secret: f.Secret, Key: f.Key}, fmt.Sprintf("%s.secretFiles[%d]", at, j)))
		}
	}
	return all.err()
}

// checkSecretType makes sure that a secret is there and of a type that can be used at this place.
func (s *Server) checkSecretType(ctx context.Context, project, name, at string, fit ...api.SecretType) error {
	o, err := s.refer(ctx, api.Key{Kind: api.KindSecret, Project: project, Name: name}, at)
	if err != nil {
		return err
	}
	if have := secretType(o.(*api.Secret)); !slices.Contains(fit, have) {
		return invalid(at, fault.T("Secret %q is of type %s; here one of type %s or %s is needed.", "密钥 %q 的类型为 %s，此处需要 %s 或 %s 类型的密钥。", name, have, fit[0], fit[1]))
	}
	return nil
}

func (s *Server) checkSecret(ctx context.Context, project string, ref api.SecretRef, at string) error {
	o, err := s.refer(ctx, api.Key{Kind: api.KindSecret, Project: project, Name: ref.Secret}, at+".secret")
	if err != nil {
		return err
	}
	if _, ok := o.(*api.Secret).Spec.Sealed[ref.Key]; !ok {
		return invalid(at+".key", fault.T("Secret %q has no key %q.", "密钥 %q 中没有键 %q。", ref.Secret, ref.Key))
	}
	return nil
}
