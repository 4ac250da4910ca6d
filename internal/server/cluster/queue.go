package cluster

import (
	"context"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/objects"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/tracker"
	"github.com/fermi-cluster/fermi/internal/server/truth"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Queues serves queues: their hooks, and how they stand.
type Queues struct {
	truth  *truth.Truth
	judge  *access.Judge
	finder *objects.Finder
	tasks  *tracker.Tracker
	live   Live
}

func NewQueues(f *objects.Finder, tasks *tracker.Tracker, live Live) *Queues {
	return &Queues{truth: f.Truth, judge: f.Judge, finder: f, tasks: tasks, live: live}
}

// Hooks is the row of Queue.
func (s *Queues) Hooks() *objects.Hooks {
	return &objects.Hooks{
		Kind:   api.KindQueue,
		Access: access.Kind{Read: access.ReadAll, Write: access.WriteOperators},
		Read:   objects.Reading{Example: map[string]any{"metadata": map[string]any{"displayName": "夜间队列"}, "spec": map[string]any{"maxPending": 1000}}},
		Fresh: func(o api.Object, _ *access.Caller) error {
			o.(*api.Queue).Status = api.QueueStatus{}
			return nil
		},
		Admit: func(ctx context.Context, _ *rest.Call, b *objects.Birth, _ bool) (err error) {
			b.Ops, err = s.check(ctx, b.Object.(*api.Queue), nil)
			return err
		},
		Change: func(ctx context.Context, _ *rest.Call, a *objects.Alteration) func() error {
			next, had := a.Next.(*api.Queue), a.Current.(*api.Queue).Spec.Projects
			next.Spec = a.Given.(*api.Queue).Spec
			return func() (err error) {
				a.Guards, err = s.check(ctx, next, had)
				return err
			}
		},
		Present: objects.Presenting{Fill: func(context.Context) (func(api.Object) api.Object, error) {
			return func(o api.Object) api.Object {
				q := *o.(*api.Queue)
				q.Status = s.tasks.Counts(q.Meta.Name)
				return &q
			}, nil
		}},
		Remove: objects.Removing{Unused: s.unused},
	}
}

// unused refuses a queue that has queues below it, is the home of a project or has tasks.
func (s *Queues) unused(ctx context.Context, o api.Object, rev int64) ([]store.Op, error) {
	name := o.GetMeta().Name
	if err := s.truth.NoneOf(ctx, api.KindQueue, "", rev, func(x api.Object) bool { return x.(*api.Queue).Spec.Parent == name }); err != nil {
		return nil, err
	}
	if err := s.truth.NoneOf(ctx, api.KindProject, "", rev, func(x api.Object) bool { return x.(*api.Project).HomeQueue() == name }); err != nil {
		return nil, err
	}
	return nil, s.truth.NoWork(ctx, "", rev, func(w api.Workload) bool { return w.Queue == name })
}

// check refuses a queue that does not fit into the tree of the others. The queues above it must
// hold still until the commit: two that become each other's parent at once would make a circle.
// had are the projects that it named before.
func (s *Queues) check(ctx context.Context, q *api.Queue, had []string) ([]store.Op, error) {
	if err := s.checkGrants(ctx, q, had); err != nil {
		return nil, err
	}
	snap, err := s.truth.List(ctx, api.KindQueue, "", s.truth.Newest())
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
func (s *Queues) checkGrants(ctx context.Context, q *api.Queue, had []string) error {
	for i, name := range q.Spec.Projects {
		if name == api.AllProjects || slices.Contains(had, name) {
			continue
		}
		if _, err := s.truth.Refer(ctx, api.Key{Kind: api.KindProject, Name: name}, refuse.Indexed("spec.projects", i)); err != nil {
			return err
		}
	}
	return nil
}
