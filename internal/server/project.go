package server

import (
	"context"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/store"
)

// projects gives the hooks of projects.
type projects struct {
	truth  *truth
	stored Stored // nil: nobody counts bytes
}

func newProjects(t *truth, stored Stored) *projects { return &projects{truth: t, stored: stored} }

// hooks is the row of Project.
func (s *projects) hooks() *hooks {
	return &hooks{
		kind: api.KindProject,
		access: kindAccess{
			read: readOwn, write: writeAdmins,
			mine: func(w *caller, o api.Object) bool { return w.belongs(o.(*api.Project)) },
		},
		read: reading{example: map[string]any{"metadata": map[string]any{"displayName": "语音识别"}, "spec": map[string]any{"queue": "default"}}},
		fresh: func(o api.Object, _ *caller) error {
			o.(*api.Project).Status = api.ProjectStatus{Grants: api.GrantsVersion} // there is nothing to find out about a new one
			return nil
		},
		admit: func(ctx context.Context, _ *call, b *birth, _ bool) (err error) {
			b.ops, err = s.check(ctx, b.object.(*api.Project), nil)
			return err
		},
		change: func(ctx context.Context, _ *call, a *alteration) func() error {
			next, had := a.next.(*api.Project), a.current.(*api.Project).Spec.Members
			next.Spec = a.given.(*api.Project).Spec
			return func() (err error) {
				a.guards, err = s.check(ctx, next, had)
				return err
			}
		},
		present: presenting{detail: s.withUsage},
		remove:  removing{unused: s.unused},
	}
}

// check makes sure that queue and new members exist; the queue must still be there at the
// commit. Members it had may be gone by now: they harm nobody.
func (s *projects) check(ctx context.Context, p *api.Project, had []string) ([]store.Op, error) {
	queue := p.Spec.Queue
	if queue == "" {
		queue = api.DefaultQueue
	}
	q, err := s.truth.refer(ctx, api.Key{Kind: api.KindQueue, Name: queue}, "spec.queue")
	if err != nil {
		return nil, err
	}
	for i, member := range p.Spec.Members {
		if slices.Contains(had, member) {
			continue
		}
		if _, err := s.truth.refer(ctx, api.Key{Kind: api.KindUser, Name: member}, indexed("spec.members", i)); err != nil {
			return nil, err
		}
	}
	return []store.Op{store.Unchanged(api.KeyOf(q), q.GetMeta().Revision)}, nil
}

// unused refuses a project that a queue names, or that has secrets or tasks.
func (s *projects) unused(ctx context.Context, o api.Object, rev int64) ([]store.Op, error) {
	name := o.GetMeta().Name
	// Another project of the same name would inherit what a queue allows this one.
	if err := s.truth.noneOf(ctx, api.KindQueue, "", rev, func(x api.Object) bool { return slices.Contains(x.(*api.Queue).Spec.Projects, name) }); err != nil {
		return nil, err
	}
	if err := s.truth.noneOf(ctx, api.KindSecret, name, rev, func(api.Object) bool { return true }); err != nil {
		return nil, err
	}
	return nil, s.truth.noWork(ctx, name, rev, func(api.Workload) bool { return true })
}

// withUsage is a project with what it keeps now, for who asks for this one.
func (s *projects) withUsage(ctx context.Context, o api.Object) (api.Object, error) {
	p := o.(*api.Project)
	shown := *p
	usage := &api.ProjectUsage{}
	if s.stored != nil {
		s.stored.Used(p, usage)
	}
	secrets, err := s.truth.List(ctx, api.KindSecret, p.Meta.Name, 0)
	if err == nil {
		usage.Secrets = secrets.Len()
		usage.Objects, err = s.truth.countWork(ctx, p.Meta.Name)
	}
	if err != nil {
		return nil, err
	}
	shown.Status.Usage = usage
	return &shown, nil
}
