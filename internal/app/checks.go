package app

import (
	"context"
	"slices"
	"sync"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
)

// checks are the checkpoints in the shared store that people want read back, one after the other: that may take
// long, and training uses the store too. They are forgotten with the process; who waits asks again.
type checks struct {
	mu   sync.Mutex
	list []check
	wake chan struct{}
}

type check struct{ taskID, name string }

// maxChecks bounds what waits.
const maxChecks = 10_000

func newChecks() *checks { return &checks{wake: make(chan struct{}, 1)} }

// add puts them behind what waits; those that wait already stay where they are.
func (c *checks) add(list []check) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	list = slices.DeleteFunc(slices.Clone(list), func(one check) bool { return slices.Contains(c.list, one) })
	if len(c.list)+len(list) > maxChecks {
		return fault.New(fault.Unavailable, "TooManyChecks", fault.T("%d [checkpoint waits|checkpoints wait] to be verified.", "已有 %d 个检查点等待校验。", len(c.list))).
			WithHint(fault.T("Try again when some are done.", "请稍后再试。"))
	}
	c.list = append(c.list, list...)
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return nil
}

func (c *checks) has(one check) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.list, one)
}

// first is the next; it stays until it is done.
func (c *checks) first() (check, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.list) == 0 {
		return check{}, false
	}
	return c.list[0], true
}

func (c *checks) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = slices.Delete(c.list, 0, 1)
}

// runChecks reads back what is asked for, until ctx ends.
func (v *vault) runChecks(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-v.checks.wake:
		}
		for one, ok := v.checks.first(); ok && ctx.Err() == nil; one, ok = v.checks.first() {
			v.runCheck(ctx, one)
			v.checks.done()
		}
	}
}

func (v *vault) runCheck(ctx context.Context, one check) {
	log := v.log.With("task", one.taskID, "checkpoint", one.name)
	repo, err := v.repo(link.TierShared, one.taskID)
	if err != nil || repo == nil {
		log.Warn("the shared store can't be opened", "error", err)
		return
	}
	switch said, err := repo.Check(ctx, one.name); {
	case err != nil && ctx.Err() == nil && !fault.Is(err, fault.NotFound):
		log.Warn("a checkpoint was not verified", "error", err)
	case err == nil && said.Bad():
		log.Error("a checkpoint is damaged", "damage", said.Damage.EN)
	}
}

// Verify has checkpoints in the shared store read back.
func (v *vault) Verify(_ context.Context, taskID string, names []string) error {
	var list []check
	for _, name := range names {
		list = append(list, check{taskID, name})
	}
	return v.checks.add(list)
}
