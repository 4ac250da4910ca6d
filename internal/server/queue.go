package server

import (
	"context"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
)

// queues serves queues: their hooks, and how they stand.
type queues struct {
	truth  *truth
	judge  *judge
	finder *finder
	tasks  *tracker
	live   clusterLive
}

func newQueues(f *finder, tasks *tracker, live clusterLive) *queues {
	return &queues{truth: f.truth, judge: f.judge, finder: f, tasks: tasks, live: live}
}

// hooks is the row of Queue.
func (s *queues) hooks() *hooks {
	return &hooks{
		kind:   api.KindQueue,
		access: kindAccess{read: readAll, write: writeOperators},
		read:   reading{example: map[string]any{"metadata": map[string]any{"displayName": "夜间队列"}, "spec": map[string]any{"maxPending": 1000}}},
		fresh: func(o api.Object, _ *caller) error {
			o.(*api.Queue).Status = api.QueueStatus{}
			return nil
		},
		admit: func(ctx context.Context, _ *call, b *birth, _ bool) (err error) {
			b.ops, err = s.check(ctx, b.object.(*api.Queue), nil)
			return err
		},
		change: func(ctx context.Context, _ *call, a *alteration) func() error {
			next, had := a.next.(*api.Queue), a.current.(*api.Queue).Spec.Projects
			next.Spec = a.given.(*api.Queue).Spec
			return func() (err error) {
				a.guards, err = s.check(ctx, next, had)
				return err
			}
		},
		present: presenting{fill: func(context.Context) (func(api.Object) api.Object, error) {
			return func(o api.Object) api.Object {
				q := *o.(*api.Queue)
				q.Status.Pending, q.Status.Running = s.tasks.counts(q.Meta.Name)
				return &q
			}, nil
		}},
		remove: removing{unused: s.unused},
	}
}

// unused refuses a queue that has queues below it, is the home of a project or has tasks.
func (s *queues) unused(ctx context.Context, o api.Object, rev int64) ([]store.Op, error) {
	name := o.GetMeta().Name
	if err := s.truth.noneOf(ctx, api.KindQueue, "", rev, func(x api.Object) bool { return x.(*api.Queue).Spec.Parent == name }); err != nil {
		return nil, err
	}
	if err := s.truth.noneOf(ctx, api.KindProject, "", rev, func(x api.Object) bool { return x.(*api.Project).HomeQueue() == name }); err != nil {
		return nil, err
	}
	return nil, s.truth.noWork(ctx, "", rev, func(w api.Workload) bool { return w.Queue == name })
}

// check refuses a queue that does not fit into the tree of the others. The queues above it must
// hold still until the commit: two that become each other's parent at once would make a circle.
// had are the projects that it named before.
func (s *queues) check(ctx context.Context, q *api.Queue, had []string) ([]store.Op, error) {
	if err := s.checkGrants(ctx, q, had); err != nil {
		return nil, err
	}
	snap, err := s.truth.List(ctx, api.KindQueue, "", s.truth.newest())
	if err != nil {
		return nil, err
	}
	var others []*api.Queue
	byName := map[string]*api.Queue{}
	snap.Ascend("", func(o api.Object) bool {
		others = append(others, o.(*api.Queue))
		byName[o.GetMeta().Name] = o.(*api.Queue)
		return true
	})
	if fields := api.CheckQueues(q, others); len(fields) > 0 {
		return nil, fault.New(fault.Invalid, "InvalidField", fault.T("The queue does not fit into the tree.", "队列与现有层级不符。")).WithFields(fields...)
	}
	var guards []store.Op
	for at := byName[q.Spec.Parent]; at != nil; at = byName[at.Spec.Parent] {
		guards = append(guards, store.Unchanged(api.KeyOf(at), at.Meta.Revision))
	}
	return guards, nil
}

// checkGrants makes sure that the projects that a queue names, and did not name before, exist.
func (s *queues) checkGrants(ctx context.Context, q *api.Queue, had []string) error {
	for i, name := range q.Spec.Projects {
		if name == api.AllProjects || slices.Contains(had, name) {
			continue
		}
		if _, err := s.truth.refer(ctx, api.Key{Kind: api.KindProject, Name: name}, indexed("spec.projects", i)); err != nil {
			return err
		}
	}
	return nil
}
