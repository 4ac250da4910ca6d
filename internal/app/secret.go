package app

import (
	"context"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/gitcode"
)

// secretsOf opens the values that a role of a task names: what its launcher may have, and no more.
func (p *part) secretsOf(ctx context.Context, taskID, role string) (map[api.SecretRef]string, error) {
	task, err := p.taskByID(ctx, taskID)
	if err != nil {
		return nil, err
	}
	out := map[api.SecretRef]string{}
	for _, r := range task.Spec.Roles {
		if r.Name != role {
			continue
		}
		for _, ref := range refs(r) {
			if out[ref], err = p.open1(ctx, task, ref); err != nil {
				return nil, err
			}
		}
	}
	return out, p.gitSecrets(ctx, task, out)
}

// gitSecrets adds what the launcher needs to bring the code: those of the known keys that are there.
func (p *part) gitSecrets(ctx context.Context, task *api.TrainingTask, out map[api.SecretRef]string) error {
	c := task.Spec.Code
	if c == nil || c.Git == nil || c.Git.Secret == "" {
		return nil
	}
	for _, key := range gitcode.Keys {
		ref := api.SecretRef{Secret: c.Git.Secret, Key: key}
		value, err := p.open1(ctx, task, ref)
		if fault.ReasonOf(err) == "NoSuchKey" {
			continue
		}
		if err != nil {
			return err
		}
		out[ref] = value
	}
	return nil
}

func refs(r api.Role) []api.SecretRef {
	var out []api.SecretRef
	for _, v := range r.Env {
		if v.ValueFrom != nil {
			out = append(out, *v.ValueFrom)
		}
	}
	for _, f := range r.SecretFiles {
		out = append(out, api.SecretRef{Secret: f.Secret, Key: f.Key})
	}
	return out
}

// open1 opens one value. A key that went away, or does not open with this server's key, is final:
// the task can't start until somebody mends it.
func (p *part) open1(ctx context.Context, task *api.TrainingTask, ref api.SecretRef) (string, error) {
	project := task.Meta.Project
	// At least as new as the task: what was set before it was submitted is there.
	o, err := p.store.Get(ctx, api.Key{Kind: api.KindSecret, Project: project, Name: ref.Secret}, task.Meta.Revision)
	if err != nil {
		return "", err
	}
	sealed, ok := o.(*api.Secret).Spec.Sealed[ref.Key]
	if !ok {
		return "", fault.New(fault.NotFound, "NoSuchKey", fault.T("Secret %q has no key %q.", "密钥 %q 中没有键 %q。", ref.Secret, ref.Key))
	}
	value, err := p.box.Open(sealed, api.SealContext(project, ref.Secret, ref.Key))
	if err != nil {
		return "", fault.New(fault.NotFound, "SealBroken", fault.T(
			"Key %q of secret %q does not open with this server's secret.key; set it again.",
			"密钥 %[2]q 的键 %[1]q 无法用本服务的 secret.key 解密，请重新设置。", ref.Key, ref.Secret)).Because(err)
	}
	return value, nil
}
