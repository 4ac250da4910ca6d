package train

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
)

// Where a generation begins that finds nothing in memory: the newest checkpoint of any tier. Which there are
// is read once and then known, for only a leader commits. A launcher that can't restore the one it was
// told says so, and the next generation begins with the next older one.

var tiers = link.Tiers

// checkpoints is what a leader knows of a task's.
type checkpoints struct {
	list    []api.CheckpointOrigin // newest first
	refused map[string]bool        // by launchers of this attempt; task id and name
	attempt int
}

// keeps says that states of this task may outlive its memory. Roles that restart by themselves count their
// own ranks: then a step is no state of the task.
func (c *Controller) keeps(task *api.TrainingTask) bool {
	return c.cfg.Repo != nil && !slices.ContainsFunc(task.Spec.Roles, func(r api.Role) bool { return r.Alone() })
}

// origins are the checkpoints that the task could begin from, the best first. Unread: a store is away, and
// nobody can say.
func (c *Controller) origins(ctx context.Context, s *seen) (list []api.CheckpointOrigin, unread bool) {
	task := s.task
	if !c.keeps(task) || task.Status.Phase.Finished() || s.restorable() > 0 {
		return nil, false
	}
	known, err := c.checkpointsOf(ctx, task)
	if err != nil {
		return nil, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if known.attempt != task.Status.Attempt {
		known.attempt, known.refused = task.Status.Attempt, map[string]bool{}
	}
	for i := range s.members {
		if o := s.members[i].said.Refused; o != nil {
			known.refused[o.TaskID+"/"+o.Name] = true
		}
	}
	list = slices.Clone(known.list)
	if from := task.Status.From; from != nil {
		list = append(list, *from)
	}
	return slices.DeleteFunc(list, func(o api.CheckpointOrigin) bool {
		return known.refused[o.TaskID+"/"+o.Name] || o.TaskID == task.Meta.ID && task.Spec.Restore.Abandons(o.Name)
	}), false
}

// checkpointsOf reads what there is, once.
func (c *Controller) checkpointsOf(ctx context.Context, task *api.TrainingTask) (*checkpoints, error) {
	id := task.Meta.ID
	c.mu.Lock()
	known, away := c.durable[id], c.away[id]
	c.mu.Unlock()
	if known != nil {
		return known, nil
	}
	if c.cfg.Clock.Now().Before(away) {
		return nil, errAway
	}
	known, err := c.readCheckpoints(ctx, task)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.durable == nil: // we lead no more
	case err != nil:
		c.away[id] = c.cfg.Clock.Now().Add(unreadWait)
		c.cfg.Log.Warn("the checkpoints of a task can't be read", "task", id, "error", err)
	case c.durable[id] != nil:
		known = c.durable[id]
	default:
		c.durable[id] = known
	}
	return known, err
}

var errAway = errors.New("the store with the checkpoints was away a moment ago")

func (c *Controller) readCheckpoints(ctx context.Context, task *api.TrainingTask) (*checkpoints, error) {
	known := &checkpoints{attempt: -1}
	if task.Status.Generation == 0 {
		return known, nil // it had none yet
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	open := func(tier string) (*ckpt.Repo, error) { return c.cfg.Repo(tier, task.Meta.ID) }
	err := ckpt.EachIn(ctx, tiers, open, func(_ string, one ckpt.Checkpoint) {
		if !one.Verdict.Bad() {
			known.add(task.Meta.ID, one.Name, int64(one.Step))
		}
	})
	if err != nil {
		return nil, err
	}
	return known, nil
}

// maxOrigins bounds what is remembered of a task; nobody goes back further.
const maxOrigins = 100

func (k *checkpoints) add(taskID, name string, step int64) {
	if slices.ContainsFunc(k.list, func(o api.CheckpointOrigin) bool { return o.Name == name }) {
		return
	}
	k.list = append(k.list, api.CheckpointOrigin{TaskID: taskID, Name: name, Step: step})
	slices.SortFunc(k.list, func(a, b api.CheckpointOrigin) int { return strings.Compare(b.Name, a.Name) })
	k.list = k.list[:min(len(k.list), maxOrigins)]
}

// commit makes a checkpoint of what all launchers wrote: only while the generation is the newest and we lead.
func (c *Controller) commitCheckpoint(ctx context.Context, task *api.TrainingTask, tier string, p ckpt.Proposal) error {
	repo, err := c.cfg.Repo(tier, task.Meta.ID)
	if err != nil || repo == nil {
		return errors.Join(errors.New("there is no such tier"), err)
	}
	revision, err := c.stillLeading(ctx)
	if err != nil {
		return err
	}
	now, err := c.cfg.Store.Get(ctx, api.KeyOf(task), revision)
	if err != nil {
		return err
	}
	if t := now.(*api.TrainingTask); t.Meta.ID != task.Meta.ID || uint64(t.Status.Generation) != p.Generation || t.Spec.Restore.Due(t.Status.Attempt) {
		return fault.New(fault.Conflict, "StaleGeneration", fault.T("Another generation has begun.", "已开始新的一代。"))
	}
	keep := task.Spec.SharedTier().Keep
	if tier == link.TierLocal {
		p.Here = []uint32{} // the parts are on the nodes
		keep = task.Spec.LocalTier().Keep
	}
	if err := repo.Fence(ctx, p.Generation); err != nil {
		return err
	}
	m, err := repo.Commit(ctx, p)
	if err != nil {
		return err
	}
	c.mu.Lock()
	if known := c.durable[task.Meta.ID]; known != nil {
		known.add(task.Meta.ID, m.Name(), int64(m.Step))
	}
	c.mu.Unlock()
	retain := ckpt.Keeping(*keep)
	retain.Abandoned, retain.Held = task.Spec.Restore.Abandons, c.heldOf(task.Meta.ID)
	if _, err = repo.Collect(ctx, retain); err != nil {
		c.cfg.Log.Warn("old checkpoints were not deleted", "task", task.Meta.ID, "tier", tier, "error", err)
	}
	return nil
}

const (
	// unreadWait is when a store that was away is asked again.
	unreadWait = 5 * time.Second
	// readTimeout is how long one may take.
	readTimeout = 10 * time.Second
)

// blind says that it can't be told where to begin, for a store with checkpoints is away.
func (s *seen) blind(p *plan) bool {
	if !s.all().unread || s.restorable() > 0 {
		return false
	}
	p.wake = unreadWait
	p.note("CheckpointsAway", fault.T("The store with its checkpoints does not answer; waiting.", "保存检查点的存储没有响应，正在等待。"))
	return true
}

// origin is where the next generation begins that finds nothing in memory; nil: at nothing.
func (s *seen) origin() *api.CheckpointOrigin {
	if len(s.origins) == 0 {
		return nil
	}
	o := s.origins[0]
	return &o
}

// reopen begins another generation where a launcher can't restore the checkpoint of this one. That is no
// failure of the ranks, and costs no restart.
func (s *seen) reopen(p *plan) bool {
	r := p.status.Rendezvous
	if r == nil || r.Origin == nil || !slices.ContainsFunc(s.members, func(m member) bool {
		return m.said.Refused != nil && m.said.Refused.Name == r.Origin.Name && m.said.Refused.TaskID == r.Origin.TaskID && m.said.Generation < int64(p.status.Generation)
	}) {
		return false
	}
	if s.anyEnded() || !s.allReady() || !s.meet() {
		return false // they come back, or are found lost
	}
	if s.blind(p) {
		return true
	}
	step := r.Restore
	s.open(p, s.world)
	p.note("RestoreRefused", fault.T("The checkpoint of step %d can't be restored; the next older one is tried.", "第 %d 步的检查点无法恢复，改用更早的检查点。", step))
	p.tell(true, "RestoreRefused", "refused-"+itoa(p.status.Generation), p.status.Message)
	return true
}
