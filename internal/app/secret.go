package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/kubeengine/pull"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/launch/gitcode"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/seal"
	"github.com/fermi-cluster/fermi/internal/store"
)

// secrets opens for launchers what their tasks name.
type secrets struct {
	store   *store.Store
	history history.History
	box     *seal.Box
	work    func(ctx context.Context, id string) (api.Work, error)
	log     *slog.Logger
}

// of opens the values that a role of a task names: what its launcher may have, and no more.
func (s *secrets) of(ctx context.Context, taskID, role string) (map[api.SecretRef]string, error) {
	work, err := s.work(ctx, taskID)
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
			if out[ref], err = s.one(ctx, &task, ref); err != nil {
				return nil, err
			}
		}
	}
	for _, ref := range task.Program.Credentials {
		if err := s.credential(ctx, task.Meta.Project, ref.Secret, out); err != nil {
			return nil, err
		}
	}
	for _, from := range mount.Buckets(task.Program.Datasets) {
		if err := s.credential(ctx, task.Meta.Project, from.Secret, out); err != nil {
			return nil, err
		}
	}
	return out, s.git(ctx, &task, out)
}

// used writes into the audit which secrets a replica gets: one entry for each secret, never a value. A
// replica gets them once in an attempt, so that their number is bounded by that of attempts.
func (s *secrets) used(ctx context.Context, r link.Parts, remote string, refs []api.SecretRef) {
	work, err := s.work(ctx, r.TaskID)
	if err != nil {
		s.log.Error("the use of secrets was not kept", "task", r.TaskID, "error", err)
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
		if o, err := s.store.Get(ctx, api.Key{Kind: api.KindSecret, Project: task.Project, Name: name}, 0); err == nil {
			e.ID = o.GetMeta().ID
		}
		rows = append(rows, e)
	}
	if err := s.history.AddAudit(ctx, rows...); err != nil {
		s.log.Error("the use of secrets was not kept", "task", r.TaskID, "error", err)
	}
}

// credential adds all values of a secret that is one. One made anew with another type is refused:
// the task named it for what it was.
func (s *secrets) credential(ctx context.Context, project, name string, out map[api.SecretRef]string) error {
	kind, values, err := s.open(ctx, project, name)
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

// accounts are those at registries that a replica names, for who pulls its image in the launcher's place. What a user has to mend is Invalid: asking again
// changes nothing.
func (s *secrets) accounts(ctx context.Context, r engine.Replica) (out pull.Accounts, err error) {
	sum := sha256.New()
	for _, ref := range r.Credentials {
		o, err := s.store.Get(ctx, api.Key{Kind: api.KindSecret, Project: r.Project, Name: ref.Secret}, 0)
		if fault.Is(err, fault.NotFound) {
			return out, fault.New(fault.Invalid, "NoSuchSecret", fault.T("The secret %q that its credentials name is not there.", "其凭据引用的密钥 %q 不存在。", ref.Secret)).Because(err)
		}
		if err != nil {
			return out, err
		}
		x := o.(*api.Secret)
		if x.Spec.Type != api.SecretRegistry {
			continue // of a store: its launcher's
		}
		values := map[string]string{}
		for key := range x.Spec.Sealed {
			if values[key], err = s.unseal(x, key); err != nil {
				f := fault.From(err)
				return out, fault.New(fault.Invalid, f.Reason, f.Message).Because(err)
			}
		}
		one, err := api.ReadRegistry(values)
		if err != nil {
			return out, err
		}
		if slices.ContainsFunc(out.List, func(o api.RegistryCredential) bool { return o.Server == one.Server }) {
			return out, fault.New(fault.Invalid, "TwoAccounts", fault.T("Two credentials are for the registry %s.", "有两个凭据都用于镜像仓库 %s。", one.Server))
		}
		out.List = append(out.List, one)
		fmt.Fprintf(sum, "%s@%d\n", x.Meta.ID, x.Meta.Revision)
	}
	out.Version = hex.EncodeToString(sum.Sum(nil))[:24]
	return out, nil
}

// open opens a whole secret; api.ReadS3 and api.ReadRegistry make use of the values.
func (s *secrets) open(ctx context.Context, project, name string) (api.SecretType, map[string]string, error) {
	o, err := s.store.Get(ctx, api.Key{Kind: api.KindSecret, Project: project, Name: name}, 0)
	if err != nil {
		return "", nil, err
	}
	x := o.(*api.Secret)
	values := map[string]string{}
	for key := range x.Spec.Sealed {
		if values[key], err = s.unseal(x, key); err != nil {
			return "", nil, err
		}
	}
	return x.Spec.Type, values, nil
}

// git adds what the launcher needs to bring code and repositories: those of the known keys that are there.
func (s *secrets) git(ctx context.Context, task *api.Workload, out map[api.SecretRef]string) error {
	for _, name := range gitSecretNames(&task.Program) {
		for _, key := range gitcode.Keys {
			ref := api.SecretRef{Secret: name, Key: key}
			value, err := s.one(ctx, task, ref)
			if fault.ReasonOf(err) == "NoSuchKey" {
				continue
			}
			if err != nil {
				return err
			}
			out[ref] = value
		}
	}
	return nil
}

// gitSecretNames are the secrets with which a program's repositories are read.
func gitSecretNames(p *api.Program) (names []string) {
	if c := p.Code; c != nil && c.Git != nil && c.Git.Secret != "" {
		names = append(names, c.Git.Secret)
	}
	for _, c := range p.Clones {
		if c.Secret != "" {
			names = append(names, c.Secret)
		}
	}
	return names
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

// one opens one value. A key that went away, or does not open with this server's key, is final:
// the task can't start until somebody mends it.
func (s *secrets) one(ctx context.Context, task *api.Workload, ref api.SecretRef) (string, error) {
	project := task.Meta.Project
	// At least as new as the task: what was set before it was submitted is there.
	o, err := s.store.Get(ctx, api.Key{Kind: api.KindSecret, Project: project, Name: ref.Secret}, task.Meta.Revision)
	if err != nil {
		return "", err
	}
	return s.unseal(o.(*api.Secret), ref.Key)
}

func (s *secrets) unseal(x *api.Secret, key string) (string, error) {
	name := x.Meta.Name
	sealed, ok := x.Spec.Sealed[key]
	if !ok {
		return "", fault.New(fault.NotFound, "NoSuchKey", fault.T("Secret %q has no key %q.", "密钥 %q 中没有键 %q。", name, key))
	}
	value, err := s.box.Open(sealed, api.SealContext(x.Meta.Project, name, key))
	if err != nil {
		return "", fault.New(fault.NotFound, "SealBroken", fault.T(
			"Key %q of secret %q does not open with this server's secret.key; set it again.",
			"密钥 %[2]q 的键 %[1]q 无法用本服务的 secret.key 解密，请重新设置。", key, name)).Because(err)
	}
	return value, nil
}
