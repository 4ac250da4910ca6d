package tenant

import (
	"context"
	"errors"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
)

// retries is how often a write is tried again when somebody changed its objects meanwhile.
const retries = 8

// nobody is a key that no object can have: names are lower case.
var nobody = api.Key{Kind: api.KindProject, Name: "NOBODY"}

// newest is the revision of a write that changes nothing: it is fenced, and what is read at it holds all that was written before.
func newest(ctx context.Context, s store.ReadWriter, fence store.Epoch) (revision int64, err error) {
	return s.Commit(ctx, store.Txn{Ops: []store.Op{store.Delete(nobody, 0)}, Fence: fence})
}

// Grant writes down, once for each project of a release that asked nobody, what the project uses: the
// queues of its tasks name it, and its maxPriority is the highest of its tasks'. A project says in its
// status that this was done, so that a rule which an operator takes back later stays taken back. Only
// the leader calls it; running it twice changes nothing.
func Grant(ctx context.Context, s store.ReadWriter, fence store.Epoch) error {
	revision, err := newest(ctx, s, fence)
	if err != nil {
		return err
	}
	projects, err := projectsOf(ctx, s, revision)
	if err != nil {
		return err
	}
	asked := ungranted(projects)
	if len(asked) == 0 {
		return nil
	}
	tasks, err := listOf[*api.TrainingTask](ctx, s, api.KindTrainingTask, revision)
	if err != nil {
		return err
	}
	uses := usesOf(tasks)
	var faults []error
	for _, name := range asked {
		faults = append(faults, writeGrant(ctx, s, fence, name, uses[name], revision))
	}
	return errors.Join(faults...)
}

// writeGrant writes one project's in one commit, tried again when somebody changed one of its queues meanwhile.
func writeGrant(ctx context.Context, s store.ReadWriter, fence store.Epoch, name string, u *used, revision int64) error {
	var stale error
	for range retries {
		p, err := projectOf(ctx, s, name, revision)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil || p.Status.Grants != 0 {
			return err
		}
		var queues []*api.Queue
		if u != nil {
			if queues, err = queuesOf(ctx, s, u.queues, revision); err != nil {
				return err
			}
		}
		var ops []store.Op
		for _, q := range grant(p, u, queues) {
			ops = append(ops, store.Update(q))
		}
		if _, stale = s.Commit(ctx, store.Txn{Ops: append(ops, store.Update(p)), Fence: fence}); fault.ReasonOf(stale) != "Stale" {
			return stale
		}
		if revision, err = newest(ctx, s, fence); err != nil {
			return err
		}
	}
	return stale
}

// give writes a number into a project that has none, and returns the one it has.
func (r *Register) give(ctx context.Context, project string, fence store.Epoch) (int, error) {
	revision, err := newest(ctx, r.cfg.Store, fence)
	if err != nil {
		return 0, err
	}
	p, err := projectOf(ctx, r.cfg.Store, project, revision)
	if err != nil {
		return 0, err
	}
	if p.Status.UID != 0 {
		return p.Status.UID, nil
	}
	used, err := Used(ctx, r.cfg.Store, revision)
	if err != nil {
		return 0, err
	}
	if p.Status.UID, err = r.next(used); err != nil {
		return 0, err
	}
	_, err = r.cfg.Store.Commit(ctx, store.Txn{Ops: []store.Op{store.Update(p)}, Fence: fence})
	return p.Status.UID, err
}

// next is a number that is written down as given.
func (r *Register) next(used []int) (int, error) {
	if r.cfg.Take != nil {
		return r.cfg.Take(used)
	}
	uid, err := r.cfg.Burn(beyond(used, r.cfg.First, r.cfg.Last))
	if err != nil {
		return 0, err
	}
	if uid > r.cfg.Last {
		return 0, fault.New(fault.Full, "UIDsUsedUp", fault.T(
			"All uids from %d to %d were given to projects.", "从 %d 到 %d 的 uid 已全部分配给项目。", r.cfg.First, r.cfg.Last)).
			WithHint(fault.T("Widen tenants.uids.", "请扩大 tenants.uids 的范围。"))
	}
	return uid, nil
}
