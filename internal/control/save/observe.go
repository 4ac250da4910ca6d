package save

import (
	"context"
	"errors"
	"maps"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// observe gathers what a turn judges by.
func (c *Controller) observe(ctx context.Context, key api.Key) (sight, error) {
	g, err := c.cfg.Gangs.Look(ctx, key)
	if err != nil {
		return sight{}, err
	}
	s := sight{Gang: g, keeps: c.cfg.Repo != nil, tiers: map[string]tier{}}
	id := g.Task.Meta.ID
	if s.keeps {
		for _, name := range tiers {
			repo, err := c.cfg.Repo(name, id)
			s.tiers[name] = tier{there: repo != nil || err != nil, open: repo != nil && err == nil} // one that can't be opened now is not one that is not there
		}
	}
	for _, o := range g.Others {
		if o.State == engine.StateDone || o.State == engine.StateExited {
			continue
		}
		if said, ok := c.cfg.Hub.Ranks(o.Name); ok && said.Keeping.Ended != "" {
			s.leftover = append(s.leftover, leftover{o.Name, said.Generation})
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.heard[id]
	delete(c.heard, id)
	s.anew, s.ended = h.anew, h.ended
	return s, nil
}

// Origins finds the checkpoints that a task could begin from, and those that would be better and can't be read. Safe for
// concurrent use.
func (c *Controller) Origins(ctx context.Context, g *gang.Gang) Origins {
	out, task := Origins{Durable: c.cfg.Repo != nil}, g.Task
	if main := g.Main(); !out.Durable || task.Status.Phase.Finished() || main.Restorable() > 0 {
		return out
	}
	known, err := c.checkpointsOf(ctx, task)
	if err != nil {
		out.Away = true
		return out
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known.heed(task.Status.Attempt, g.Members)
	out.List = known.usable(task)
	out.Passed = known.passed(task, out.Best())
	return out
}

// Took is how long the last checkpoint took until a tier had it, by tier. Safe for concurrent use.
func (c *Controller) Took(taskID string) map[string]time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.took[taskID])
}

// Newest is the newest checkpoint that this leader committed; nil: none. Safe for concurrent use.
func (c *Controller) Newest(taskID string) *api.SavedStep {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.saved[taskID]
}

var errAway = errors.New("the store with the checkpoints was away a moment ago")

// checkpointsOf reads what there is, once: only a leader commits.
func (c *Controller) checkpointsOf(ctx context.Context, task *api.TrainingTask) (*checkpoints, error) {
	id := task.Meta.ID
	c.mu.Lock()
	known, away := c.known[id], c.away[id]
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
	case err != nil:
		c.away[id] = c.cfg.Clock.Now().Add(AwayWait)
		c.cfg.Log.Warn("the checkpoints of a task can't be read", "task", id, "error", err)
	case c.known[id] != nil:
		known = c.known[id]
	default:
		c.known[id] = known
	}
	return known, err
}

// readTimeout is how long a store may take to tell what it has.
const readTimeout = 10 * time.Second

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
			known.unread = append(known.unread, Unreadable{one.Name, int64(one.Step), fault.From(one.Unread).Message, one.Newer()})
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

// heldOf says which checkpoints of a task others still begin from: until these end.
func (c *Controller) heldOf(taskID string) func(name string) bool {
	names := map[string]bool{}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.held {
		if o.TaskID == taskID {
			names[o.Name] = true
		}
	}
	return func(name string) bool { return names[name] }
}
