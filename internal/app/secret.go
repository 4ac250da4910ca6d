package app

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/launch/gitcode"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/store"
)

// currentReplica refuses code and secrets to replicas of an attempt that is over. What this server
// has not heard of yet may come any moment.
func (p *part) currentReplica(ctx context.Context, r link.Parts) error {
	work, err := store.WorkByID(ctx, p.store, r.TaskID, 0)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	var now api.Workload
	if err == nil {
		now = work.Workload()
	}
	current := now.AttemptOf(r.Role)
	switch {
	case r.Attempt > current:
		return fault.New(fault.Unavailable, "NotYet", fault.T("This server does not know of this attempt yet.", "本服务尚未获知该次尝试。")).Because(err)
	case r.Attempt < current || now.Phase.Finished():
		return fault.New(fault.Forbidden, "AttemptOver", fault.T("This attempt is over.", "该次尝试已结束。"))
	}
	return nil
}

// secretsOf opens the values that a role of a task names: what its launcher may have, and no more.
func (p *part) secretsOf(ctx context.Context, taskID, role string) (map[api.SecretRef]string, error) {
	work, err := p.workByID(ctx, taskID)
	if err != nil {
		return nil, err
	}
	task := work.Workload()
	out := map[api.SecretRef]string{}
	for _, r := range task.Roles {
		if r.Name != role {
			continue
		}
		for _, ref := range refs(r) {
			if out[ref], err = p.open1(ctx, &task, ref); err != nil {
				return nil, err
			}
		}
	}
	for _, ref := range task.Program.Credentials {
		if err := p.credential(ctx, task.Meta.Project, ref.Secret, out); err != nil {
			return nil, err
		}
	}
	return out, p.gitSecrets(ctx, &task, out)
}

// secretsUsed writes into the audit which secrets a replica gets: one entry for each secret, never a value. A
// replica gets them once in an attempt, so that their number is bounded by that of attempts.
func (p *part) secretsUsed(ctx context.Context, r link.Parts, remote string, refs []api.SecretRef) {
	work, err := p.workByID(ctx, r.TaskID)
	if err != nil {
		p.cfg.Log.Error("the use of secrets was not kept", "task", r.TaskID, "error", err)
		return
	}
	task := work.GetMeta()
	if host, _, err := net.SplitHostPort(remote); err == nil {
		remote = host
	}
	keys := map[string][]string{}
	for _, ref := range refs {
		keys[ref.Secret] = append(keys[ref.Secret], ref.Key)
	}
	var rows []history.AuditEntry
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		slices.Sort(keys[name])
		detail, _ := json.Marshal(map[string]any{ // texts and numbers always encode
			"task": task.Name, "taskId": r.TaskID, "replica": fmt.Sprintf("%s-%d", r.Role, r.Index), "attempt": r.Attempt, "keys": keys[name],
		})
		e := history.AuditEntry{
			Time: clock.Real.Now().UTC(), Actor: task.Owner, Verb: "use", Kind: api.KindSecret, Project: task.Project, Name: name,
			RemoteIP: remote, Outcome: "ok", Detail: string(detail),
		}
		if o, err := p.store.Get(ctx, api.Key{Kind: api.KindSecret, Project: task.Project, Name: name}, 0); err == nil {
			e.ID = o.GetMeta().ID
		}
		rows = append(rows, e)
	}
	if err := p.history.AddAudit(ctx, rows...); err != nil {
		p.cfg.Log.Error("the use of secrets was not kept", "task", r.TaskID, "error", err)
	}
}

// credential adds all values of a secret that is one. One made anew with another type is refused:
// the task named it for what it was.
func (p *part) credential(ctx context.Context, project, name string, out map[api.SecretRef]string) error {
	kind, values, err := p.openSecret(ctx, project, name)
	if err != nil {
		return err
	}
	if !kind.IsCredential() {
		return fault.New(fault.NotFound, "NoCredential", fault.T("Secret %q is of type %s, which is no credential.", "密钥 %q 的类型为 %s，不是凭据。", name, kind))
	}
	for key, value := range values {
		out[api.SecretRef{Secret: name, Key: key}] = value
	}
	return nil
}

// openSecret opens a whole secret; api.ReadS3 and api.ReadRegistry make use of the values.
func (p *part) openSecret(ctx context.Context, project, name string) (api.SecretType, map[string]string, error) {
	o, err := p.store.Get(ctx, api.Key{Kind: api.KindSecret, Project: project, Name: name}, 0)
	if err != nil {
		return "", nil, err
	}
	x := o.(*api.Secret)
	values := map[string]string{}
	for key := range x.Spec.Sealed {
		if values[key], err = p.unseal(x, key); err != nil {
			return "", nil, err
		}
	}
	return x.Spec.Type, values, nil
}

// gitSecrets adds what the launcher needs to bring the code: those of the known keys that are there.
func (p *part) gitSecrets(ctx context.Context, task *api.Workload, out map[api.SecretRef]string) error {
	c := task.Program.Code
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
func (p *part) open1(ctx context.Context, task *api.Workload, ref api.SecretRef) (string, error) {
	project := task.Meta.Project
	// At least as new as the task: what was set before it was submitted is there.
	o, err := p.store.Get(ctx, api.Key{Kind: api.KindSecret, Project: project, Name: ref.Secret}, task.Meta.Revision)
	if err != nil {
		return "", err
	}
	return p.unseal(o.(*api.Secret), ref.Key)
}

func (p *part) unseal(x *api.Secret, key string) (string, error) {
	name := x.Meta.Name
	sealed, ok := x.Spec.Sealed[key]
	if !ok {
		return "", fault.New(fault.NotFound, "NoSuchKey", fault.T("Secret %q has no key %q.", "密钥 %q 中没有键 %q。", name, key))
	}
	value, err := p.box.Open(sealed, api.SealContext(x.Meta.Project, name, key))
	if err != nil {
		return "", fault.New(fault.NotFound, "SealBroken", fault.T(
			"Key %q of secret %q does not open with this server's secret.key; set it again.",
			"密钥 %[2]q 的键 %[1]q 无法用本服务的 secret.key 解密，请重新设置。", key, name)).Because(err)
	}
	return value, nil
}
