package save

import (
	"context"
	"errors"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/store"
)

// apply carries a plan out. What takes long, commits and vouchers, goes on beside the loop, and asks for another turn when it
// has ended.
func (c *Controller) apply(ctx context.Context, s sight, p plan) error {
	for _, m := range p.release {
		_ = c.cfg.Hub.Watermark(m.name, m.mark) // one that is away asks again
	}
	for _, w := range p.wrote {
		c.noteTook(s.Task.Meta.ID, w)
	}
	if p.vouch != nil {
		c.vouchLater(ctx, *p.vouch)
	}
	for _, one := range p.commits {
		c.commitLater(ctx, s.Task, one)
	}
	if p.event != nil {
		if err := c.tell(ctx, s.Task, p.event); err != nil {
			c.cfg.Log.Warn("an event was not written", "task", s.Task.Meta.ID, "error", err)
		}
	}
	for _, m := range p.tell {
		if err := c.cfg.Hub.Watermark(m.name, m.mark); err != nil && !fault.Is(err, fault.Unavailable) {
			c.hear(s.Task.Meta.ID, heard{anew: true})
			return err
		}
	}
	return nil
}

// noteTook remembers how long it took until a tier had a step.
func (c *Controller) noteTook(taskID string, w wrote) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.keys[taskID]; !ok { // it is gone
		return
	}
	if c.took[taskID] == nil {
		c.took[taskID] = map[string]time.Duration{}
	}
	c.took[taskID][w.tier] = w.took
}

// noteSaved keeps when a checkpoint became whole.
func (c *Controller) noteSaved(taskID string, step int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.keys[taskID]; !ok { // it is gone
		return
	}
	if old := c.saved[taskID]; old == nil || old.Step != step { // another tier has it too
		c.saved[taskID] = &api.SavedStep{Step: step, At: c.cfg.Clock.Now().UTC()}
	}
}

func (c *Controller) tell(ctx context.Context, task *api.TrainingTask, e *event) error {
	typ := "Normal"
	if e.warning {
		typ = "Warning"
	}
	return c.cfg.Events.AddEvents(ctx, history.Event{
		Time: c.cfg.Clock.Now().UTC(), Kind: api.KindTrainingTask, Project: task.Meta.Project, Name: task.Meta.Name,
		ID: task.Meta.ID, Type: typ, Reason: e.reason, Message: e.message, Actor: "train", Dedup: task.Meta.ID + "/" + e.once,
	})
}

// vouchLater keeps with a checkpoint that all of it was read.
func (c *Controller) vouchLater(ctx context.Context, v voucher) {
	c.commits.Go(func() {
		repo, err := c.cfg.Repo(v.tier, v.from.TaskID)
		if err == nil && repo != nil {
			err = repo.Vouch(ctx, v.from.Name, v.world, v.at)
		}
		if err != nil && ctx.Err() == nil && !fault.Is(err, fault.NotFound) { // it may have gone meanwhile
			c.cfg.Log.Warn("that a checkpoint was read whole is not noted", "task", v.from.TaskID, "checkpoint", v.from.Name, "error", err)
		}
	})
}

// commitRetry is when a store that did not answer is tried again.
const commitRetry = 2 * time.Second

// commitLater commits beside the loop, which then looks at the task again.
func (c *Controller) commitLater(ctx context.Context, task *api.TrainingTask, one commit) {
	c.commits.Go(func() {
		err := c.commit(ctx, task, one)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			c.cfg.Log.Warn("a checkpoint was not committed", "task", task.Meta.ID, "tier", one.tier, "step", one.Step, "error", err)
		}
		if err != nil && mayYet(err) {
			select {
			case <-ctx.Done():
				return
			case <-c.cfg.Clock.After(commitRetry):
			}
		}
		if err == nil {
			c.noteSaved(task.Meta.ID, int64(one.Step))
		}
		done := outcome{link.Committed{Tier: one.tier, Generation: int64(one.Generation), Step: int64(one.Step)}, err}
		c.hear(task.Meta.ID, heard{ended: []outcome{done}})
	})
}

// commit makes a checkpoint of what all launchers wrote: only while the generation is the newest and we lead.
func (c *Controller) commit(ctx context.Context, task *api.TrainingTask, one commit) error {
	p := one.Proposal
	repo, err := c.cfg.Repo(one.tier, task.Meta.ID)
	if err != nil || repo == nil {
		return errors.Join(errors.New("there is no such tier"), err)
	}
	revision, err := store.StillLeading(ctx, c.cfg.Store, c.epoch)
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
	if one.tier == link.TierLocal {
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
	if known := c.known[task.Meta.ID]; known != nil {
		known.add(task.Meta.ID, m.Name(), int64(m.Step))
	}
	c.mu.Unlock()
	retain := ckpt.Keeping(*keep)
	retain.Abandoned, retain.Held = task.Spec.Restore.Abandons, c.heldOf(task.Meta.ID)
	if _, err = repo.Collect(ctx, retain); err != nil {
		c.cfg.Log.Warn("old checkpoints were not deleted", "task", task.Meta.ID, "tier", one.tier, "error", err)
	}
	return nil
}
