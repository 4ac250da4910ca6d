package train

import (
	"context"
	"fmt"
	"slices"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/where"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/cluster"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/tenant"
	"github.com/fermi-cluster/fermi/internal/server/truth"
)

// checkSecrets makes sure that every secret that work names is there; all that is not is said at once.
func (s *Gate) checkSecrets(ctx context.Context, t *api.Workload) error {
	var all refuse.Gathered
	if c := t.Program.Code; c != nil && c.Git != nil && c.Git.Secret != "" {
		all.Take(s.checkSecretType(ctx, t.Meta.Project, c.Git.Secret, "spec.code.git.secret", api.SecretGit, api.SecretOpaque))
	}
	for _, c := range t.Program.Clones {
		if c.Secret != "" {
			all.Take(s.checkSecretType(ctx, t.Meta.Project, c.Secret, c.Field+".secret", api.SecretGit, api.SecretOpaque))
		}
	}
	for i, ref := range t.Program.Credentials {
		at := fmt.Sprintf("spec.credentials[%d].secret", i)
		all.Take(s.checkSecretType(ctx, t.Meta.Project, ref.Secret, at, api.SecretRegistry, api.SecretS3))
	}
	for i, role := range t.Roles {
		at := fmt.Sprintf("spec.roles[%d]", i)
		for j, v := range role.Env {
			if v.ValueFrom != nil {
				all.Take(s.checkSecret(ctx, t.Meta.Project, *v.ValueFrom, fmt.Sprintf("%s.env[%d].valueFrom", at, j)))
			}
		}
		for j, f := range role.SecretFiles {
			all.Take(s.checkSecret(ctx, t.Meta.Project, api.SecretRef{Secret: f.Secret, Key: f.Key}, fmt.Sprintf("%s.secretFiles[%d]", at, j)))
		}
	}
	return all.Err()
}

// checkSecretType makes sure that a secret is there and of a type that can be used at this place.
func (s *Gate) checkSecretType(ctx context.Context, project, name, at string, fit ...api.SecretType) error {
	o, err := s.truth.Refer(ctx, api.Key{Kind: api.KindSecret, Project: project, Name: name}, at)
	if err != nil {
		return err
	}
	if have := tenant.SecretType(o.(*api.Secret)); !slices.Contains(fit, have) {
		return refuse.Invalid(at, fault.T("Secret %q is of type %s; here one of type %s or %s is needed.", "密钥 %q 的类型为 %s，此处需要 %s 或 %s 类型的密钥。", name, have, fit[0], fit[1]))
	}
	return nil
}

func (s *Gate) checkSecret(ctx context.Context, project string, ref api.SecretRef, at string) error {
	o, err := s.truth.Refer(ctx, api.Key{Kind: api.KindSecret, Project: project, Name: ref.Secret}, at+".secret")
	if err != nil {
		return err
	}
	if _, ok := o.(*api.Secret).Spec.Sealed[ref.Key]; !ok {
		return refuse.Invalid(at+".key", fault.T("Secret %q has no key %q.", "密钥 %q 中没有键 %q。", ref.Secret, ref.Key))
	}
	return nil
}

// checkInside refuses environments that are none, and those in which the caller's may not run.
func (s *Gate) checkInside(ctx context.Context, who *access.Caller, t *api.Workload) error {
	around := surroundings{s.truth}
	for i, name := range t.Wish.Inside {
		at := refuse.Indexed("spec.inside", i)
		w, err := around.host(ctx, t.Meta.Project, name)
		switch {
		case err != nil:
			return err
		case w == nil || w.Meta.Name != name:
			return refuse.Invalid(at, fault.T("There is no environment, and no task, %q.", "环境或任务 %q 不存在。", refuse.Clip(name, 64)))
		case !w.Host.Lends:
			return refuse.Invalid(at, fault.T("%q is neither an environment nor a task of one replica with a place of its own.", "%q 既不是环境，也不是拥有自己位置的单副本任务。", name))
		case !admits(who, w):
			return refuse.Invalid(at, fault.T("%q belongs to %s, who does not share it.", "%q 属于 %s，且未共享。", name, w.Meta.Owner))
		}
	}
	return nil
}

// NameZone puts the name of a zone in the place of its display name.
func (s *Gate) NameZone(ctx context.Context, path string, zone *string) error {
	if *zone == "" || api.IsName(*zone) {
		return nil
	}
	z, err := cluster.NewZoneNames(ctx, s.truth)
	if err != nil {
		return err
	}
	named := z.Of(*zone)
	if !api.IsName(named) {
		return noZone(path, *zone, z)
	}
	*zone = named
	return nil
}

// ZoneIsThere refuses the name of a zone that is not there.
func ZoneIsThere(ctx context.Context, known *truth.Truth, path, zone string) error {
	z, err := cluster.NewZoneNames(ctx, known)
	if err != nil || z.Has(zone) {
		return err
	}
	return noZone(path, zone, z)
}

func noZone(path, zone string, z cluster.ZoneNames) error {
	return refuse.Invalid(path, fault.T("There is no zone %q; there are: %s.", "没有可用区 %q；可用的有：%s。", refuse.Clip(zone, 64), strings.Join(z.List, ", ")))
}

// nameZones puts names in the place of display names in the zone rules of a task.
func nameZones(ctx context.Context, known *truth.Truth, o api.Object) error {
	t := o.(*api.TrainingTask)
	if t.Spec.Zones == nil {
		return nil
	}
	z, err := cluster.NewZoneNames(ctx, known)
	if err != nil {
		return err
	}
	var bad []fault.Field
	name := func(path, text string) string {
		named := z.Of(text)
		if !api.IsName(named) && text != "" {
			bad = append(bad, fault.Field{Path: path, Message: fault.T("There is no zone %q; there are: %s.", "没有可用区 %q；可用的有：%s。", refuse.Clip(text, 64), strings.Join(z.List, ", "))})
		}
		return named
	}
	r := t.Spec.Zones
	each := func(path string, list []string) {
		for i := range list {
			list[i] = name(fmt.Sprintf("spec.zones.%s[%d]", path, i), list[i])
		}
	}
	each("allow", r.Allow)
	each("deny", r.Deny)
	for i := range r.Data {
		each(fmt.Sprintf("data[%d].zones", i), r.Data[i].Zones)
	}
	if len(r.Split) > 0 {
		split := make(where.Split, len(r.Split))
		for text, n := range r.Split {
			zone := name("spec.zones.split", text) // two names of one zone ask for what both do
			split[zone] = where.Span{Least: split[zone].Least + n.Least, Most: min(split[zone].Most+n.Most, where.MostReplicas)}
		}
		r.Split = split
	}
	if len(bad) == 0 {
		return nil
	}
	at := bad[0]
	return fault.New(fault.Invalid, "NoSuchZone", fault.Text{EN: at.Path + ": " + at.Message.EN, ZH: at.Path + ": " + at.Message.ZH}).WithFields(bad...)
}
