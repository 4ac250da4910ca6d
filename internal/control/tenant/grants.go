package tenant

import (
	"context"
	"errors"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
)

// used is what the tasks of one project use.
type used struct {
	queues   []string // sorted, each once
	priority int
}

// Grant writes down, once for each project of a release that asked nobody, what the project uses: the
// queues of its tasks name it, and its maxPriority is the highest of its tasks'. A project says in its
// status that this was done, so that a rule which an operator takes back later stays taken back. Only
// the leader calls it; running it twice changes nothing.
func Grant(ctx context.Context, s store.ReadWriter, fence store.Epoch) error {
	// A write that changes nothing: it is fenced, and what is read after it holds all that was written before.
	revision, err := s.Commit(ctx, store.Txn{Ops: []store.Op{store.Delete(nobody, 0)}, Fence: fence})
	if err != nil {
		return err
	}
	projects, err := s.List(ctx, api.KindProject, "", revision)
	if err != nil {
		return err
	}
	var asked []string
	projects.Ascend("", func(o api.Object) bool {
		if o.(*api.Project).Status.Grants == 0 {
			asked = append(asked, o.GetMeta().Name)
		}
		return true
	})
	if len(asked) == 0 {
		return nil
	}
	uses, err := usesOf(ctx, s, revision)
	if err != nil {
		return err
	}
	var faults []error
	for _, name := range asked {
		faults = append(faults, grant(ctx, s, fence, name, uses[name], revision))
	}
	return errors.Join(faults...)
}

func usesOf(ctx context.Context, s store.Reader, revision int64) (map[string]*used, error) {
	tasks, err := s.List(ctx, api.KindTrainingTask, "", revision)
	if err != nil {
		return nil, err
	}
	uses := map[string]*used{}
	tasks.Ascend("", func(o api.Object) bool {
		t := o.(*api.TrainingTask)
		u := uses[t.Meta.Project]
		if u == nil {
			u = &used{}
			uses[t.Meta.Project] = u
		}
		if i, found := slices.BinarySearch(u.queues, t.Spec.Queue); !found && t.Spec.Queue != "" {
			u.queues = slices.Insert(u.queues, i, t.Spec.Queue)
		}
		if t.Spec.Priority != nil {
			u.priority = max(u.priority, *t.Spec.Priority)
		}
		return true
	})
	return uses, nil
}

// grant writes one project's in one commit, tried again when somebody changed one of its queues meanwhile.
func grant(ctx context.Context, s store.ReadWriter, fence store.Epoch, name string, u *used, revision int64) error {
	var stale error
	for range retries {
		o, err := s.Get(ctx, api.Key{Kind: api.KindProject, Name: name}, revision)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		p := store.Clone(o.(*api.Project))
		if p.Status.Grants != 0 {
			return nil
		}
		ops, err := granting(ctx, s, p, u, revision)
		if err != nil {
			return err
		}
		if _, stale = s.Commit(ctx, store.Txn{Ops: ops, Fence: fence}); fault.ReasonOf(stale) != "Stale" {
			return stale
		}
		if revision, err = s.Commit(ctx, store.Txn{Ops: []store.Op{store.Delete(nobody, 0)}, Fence: fence}); err != nil {
			return err
		}
	}
	return stale
}

// granting is what the commit of a project's grants writes.
func granting(ctx context.Context, s store.Reader, p *api.Project, u *used, revision int64) ([]store.Op, error) {
	var ops []store.Op
	if u != nil {
		if u.priority > p.TopPriority(api.KindTrainingTask) {
			p.Spec.MaxPriority = u.priority
		}
		for _, name := range u.queues {
			o, err := s.Get(ctx, api.Key{Kind: api.KindQueue, Name: name}, revision)
			if fault.Is(err, fault.NotFound) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if q := store.Clone(o.(*api.Queue)); !q.Admits(p) {
				q.Spec.Projects = append(q.Spec.Projects, p.Meta.Name)
				ops = append(ops, store.Update(q))
			}
		}
	}
	p.Status.Grants = api.GrantsVersion
	return append(ops, store.Update(p)), nil
}
