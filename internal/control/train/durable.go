package train

import (
	"context"
	"errors"
	"fmt"
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
	unread  []unreadable           // in no tier; newest first
	refused map[string]bool        // by launchers of this attempt; task id and name
	attempt int
}

// unreadable is a checkpoint whose record can't be read.
type unreadable struct {
	name  string
	step  int64
	why   fault.Text
	newer bool // a newer Fermi wrote it
}

// keeps says that states of this part may outlive its memory: a checkpoint is of the roles that restart with the task. One
// that restarts by itself counts its own ranks and steps, and keeps them in memory.
func (c *Controller) keeps(s *seen) bool { return c.cfg.Repo != nil && s.role == 0 }

// origins finds the checkpoints that the task could begin from, and those that would be better and can't be read.
func (c *Controller) origins(ctx context.Context, s *seen) {
	task := s.task
	if !c.keeps(s) || task.Status.Phase.Finished() || s.main().restorable() > 0 {
		return
	}
	known, err := c.checkpointsOf(ctx, task)
	if err != nil {
		s.unread = true
		return
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
	s.origins = slices.Clone(known.list)
	if from := task.Status.From; from != nil {
		s.origins = append(s.origins, *from)
	}
	s.origins = slices.DeleteFunc(s.origins, func(o api.CheckpointOrigin) bool {
		return known.refused[o.TaskID+"/"+o.Name] || o.TaskID == task.Meta.ID && task.Spec.Restore.Abandons(o.Name)
	})
	s.passed = known.passed(task, s.origin())
}

// passed are those that can't be read and are newer than where the task would begin.
func (k *checkpoints) passed(task *api.TrainingTask, best *api.CheckpointOrigin) []unreadable {
	return slices.DeleteFunc(slices.Clone(k.unread), func(u unreadable) bool {
		return task.Spec.Restore.Abandons(u.name) || best != nil && best.TaskID == task.Meta.ID && best.Name >= u.name
	})
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
		switch {
		case one.Unread != nil:
			known.unread = append(known.unread, unreadable{one.Name, int64(one.Step), fault.From(one.Unread).Message, one.Newer()})
		case !one.Verdict.Bad():
			known.add(task.Meta.ID, one.Name, int64(one.Step))
		}
	})
	if err != nil {
		return nil, err
	}
	known.sortUnread()
	return known, nil
}

// sortUnread leaves one of each name, and none that another tier has.
func (k *checkpoints) sortUnread() {
	slices.SortFunc(k.unread, func(a, b unreadable) int { return strings.Compare(b.name, a.name) })
	k.unread = slices.CompactFunc(k.unread, func(a, b unreadable) bool { return a.name == b.name })
	k.unread = slices.DeleteFunc(k.unread, func(u unreadable) bool {
		return slices.ContainsFunc(k.list, func(o api.CheckpointOrigin) bool { return o.Name == u.name })
	})
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

// blind says that it can't be told where to begin: a store with checkpoints is away, or what it would begin from was written
// by a newer Fermi.
func (s *seen) blind(p *plan) bool {
	all := s.all()
	switch newer := all.ahead(); {
	case s.role > 0 || s.restorable() > 0:
	case all.unread:
		p.wake = unreadWait
		p.note("CheckpointsAway", fault.T("The store with its checkpoints does not answer; waiting.", "保存检查点的存储没有响应，正在等待。"))
		return true
	case newer != nil:
		message := fault.Text{
			EN: fmt.Sprintf("The checkpoint of step %d can't be read. %s It waits for a newer Fermi; to go on from an older one: fermi train restore %s --step N --stop.", newer.step, newer.why.EN, s.task.Meta.Name),
			ZH: fmt.Sprintf("第 %d 步的检查点无法读取。%s任务等待更新版本的 Fermi；如需从更早的检查点继续：fermi train restore %s --step N --stop。", newer.step, newer.why.ZH, s.task.Meta.Name),
		}
		p.note("CheckpointNewer", message)
		p.tell(true, "CheckpointNewer", "newer-"+newer.name+"-"+itoa(p.status.Attempt), message)
		return true
	}
	return false
}

// passOver says which checkpoints are torn that the generation would have begun from.
func (s *seen) passOver(p *plan) {
	if s.role > 0 {
		return
	}
	for _, u := range s.all().passed {
		p.tell(true, "CheckpointUnreadable", "unread-"+u.name+"-"+itoa(p.status.Attempt), fault.Text{
			EN: fmt.Sprintf("The checkpoint of step %d can't be read; the next older one is tried. %s", u.step, u.why.EN),
			ZH: fmt.Sprintf("第 %d 步的检查点无法读取，改用更早的检查点。%s", u.step, u.why.ZH),
		})
	}
}

// ahead is the newest checkpoint of a newer Fermi among those that would be passed over; nil: none.
func (s *seen) ahead() *unreadable {
	for i := range s.passed {
		if s.passed[i].newer {
			return &s.passed[i]
		}
	}
	return nil
}

// origin is where the next generation begins that finds nothing in memory; nil: at nothing.
func (s *seen) origin() *api.CheckpointOrigin {
	if len(s.origins) == 0 || s.role > 0 {
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
	if s.anyEnded() || !s.allReady() || !s.all().meet() {
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
