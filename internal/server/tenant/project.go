package tenant

import (
	"context"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/objects"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/truth"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Projects gives the hooks of projects.
type Projects struct {
	truth  *truth.Truth
	stored Stored // nil: nobody counts bytes
}

func NewProjects(t *truth.Truth, stored Stored) *Projects { return &Projects{truth: t, stored: stored} }

// Hooks is the row of Project.
func (s *Projects) Hooks() *objects.Hooks {
	return &objects.Hooks{
		Kind: api.KindProject,
		Access: access.Kind{
			Read: access.ReadOwn, Write: access.WriteAdmins,
			Mine: func(w *access.Caller, o api.Object) bool { return w.Belongs(o.(*api.Project)) },
		},
		Read: objects.Reading{Example: map[string]any{"metadata": map[string]any{"displayName": "语音识别"}, "spec": map[string]any{"queue": "default"}}},
		Fresh: func(o api.Object, _ *access.Caller) error {
			o.(*api.Project).Status = api.ProjectStatus{Grants: api.GrantsVersion} // there is nothing to find out about a new one
			return nil
		},
		Admit: func(ctx context.Context, _ *rest.Call, b *objects.Birth, _ bool) (err error) {
			b.Ops, err = s.check(ctx, b.Object.(*api.Project), nil)
			return err
		},
		Change: func(ctx context.Context, _ *rest.Call, a *objects.Alteration) func() error {
			next, had := a.Next.(*api.Project), a.Current.(*api.Project).Spec.Members
			next.Spec = a.Given.(*api.Project).Spec
			return func() (err error) {
				a.Guards, err = s.check(ctx, next, had)
				return err
			}
		},
		Present: objects.Presenting{Detail: s.withUsage},
		Remove:  objects.Removing{Unused: s.unused},
	}
}

// check makes sure that queue and new members exist; the queue must still be there at the
// commit. Members it had may be gone by now: they harm nobody.
func (s *Projects) check(ctx context.Context, p *api.Project, had []string) ([]store.Op, error) {
	queue := p.Spec.Queue
	if queue == "" {
		queue = api.DefaultQueue
	}
	q, err := s.truth.Refer(ctx, api.Key{Kind: api.KindQueue, Name: queue}, "spec.queue")
	if err != nil {
		return nil, err
	}
	for i, member := range p.Spec.Members {
		if slices.Contains(had, member) {
			continue
		}
		if _, err := s.truth.Refer(ctx, api.Key{Kind: api.KindUser, Name: member}, refuse.Indexed("spec.members", i)); err != nil {
			return nil, err
		}
	}
	return []store.Op{store.Unchanged(api.KeyOf(q), q.GetMeta().Revision)}, nil
}

// unused refuses a project that a queue names, or that has secrets or tasks.
func (s *Projects) unused(ctx context.Context, o api.Object, rev int64) ([]store.Op, error) {
	name := o.GetMeta().Name
	// Another project of the same name would inherit what a queue allows this one.
	if err := s.truth.NoneOf(ctx, api.KindQueue, "", rev, func(x api.Object) bool { return slices.Contains(x.(*api.Queue).Spec.Projects, name) }); err != nil {
		return nil, err
	}
	if err := s.truth.NoneOf(ctx, api.KindSecret, name, rev, func(api.Object) bool { return true }); err != nil {
		return nil, err
	}
	return nil, s.truth.NoWork(ctx, name, rev, func(api.Workload) bool { return true })
}

// withUsage is a project with what it keeps now, for who asks for this one.
func (s *Projects) withUsage(ctx context.Context, o api.Object) (api.Object, error) {
	p := o.(*api.Project)
	shown := *p
	usage := &api.ProjectUsage{}
	if s.stored != nil {
		s.stored.Used(p, usage)
	}
	secrets, err := s.truth.List(ctx, api.KindSecret, p.Meta.Name, 0)
	if err == nil {
		usage.Secrets = secrets.Len()
		usage.Objects, err = s.truth.CountWork(ctx, p.Meta.Name)
	}
	if err != nil {
		return nil, err
	}
	shown.Status.Usage = usage
	return &shown, nil
}
