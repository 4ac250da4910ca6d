package train

import (
	"context"
	"errors"
	"sync"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/store"
)

// watermarks tells the ranks of a task which step all of them hold, so that they may overwrite what
// is older. It is beside the turns: steps come often, and nothing of them is written down.
type watermarks struct {
	wake chan struct{}

	mu    sync.Mutex
	dirty map[string]bool         // task ids; true: tell it again in any case
	told  map[string]map[int]mark // by part of the task; of the loop alone
	peers map[string]*copying     // likewise, by task
}

// mark is what was told last; the last two are what stays besides.
type mark struct{ generation, step, first, second int64 }

func newWatermarks() *watermarks {
	return &watermarks{wake: make(chan struct{}, 1), dirty: map[string]bool{}, told: map[string]map[int]mark{}, peers: map[string]*copying{}}
}

// Saved says that ranks of a task may hold another step, or, anew, that one of its launchers may have
// missed what was told. It never blocks.
func (c *Controller) Saved(taskID string, anew bool) {
	c.mu.Lock()
	w := c.marks
	c.mu.Unlock()
	if w == nil {
		return
	}
	w.mu.Lock()
	w.dirty[taskID] = w.dirty[taskID] || anew
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *watermarks) forget(id string) {
	delete(w.told, id)
	delete(w.peers, id)
}

func (w *watermarks) take() map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.dirty
	w.dirty = map[string]bool{}
	return out
}

// watch tells watermarks until ctx ends.
func (c *Controller) watch(ctx context.Context, w *watermarks) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		}
		for id, anew := range w.take() {
			if anew {
				delete(w.told, id)
			}
			if err := c.tellWatermark(ctx, w, id); err != nil && ctx.Err() == nil {
				c.cfg.Log.Warn("watermark not told", "task", id, "error", err)
			}
		}
	}
}

// tellWatermark is one look at one task. A launcher that is away is told when it is back.
func (c *Controller) tellWatermark(ctx context.Context, w *watermarks, id string) error {
	c.mu.Lock()
	key, ok := c.keys[id]
	c.mu.Unlock()
	if !ok {
		w.forget(id)
		return nil
	}
	s, err := c.observe(ctx, key)
	if fault.Is(err, fault.NotFound) {
		w.forget(id)
		return nil
	}
	if err != nil {
		return err
	}
	if s.task.Status.Phase.Finished() {
		w.forget(id)
		return nil
	}
	if w.told[id] == nil {
		w.told[id] = map[int]mark{}
	}
	p := plan{status: store.Clone(s.task).Status}
	var errs []error
	for k, part := range s.parts() {
		part.as(&p, func() { errs = append(errs, c.tellPart(part, int64(p.status.Generation), w, k)) })
	}
	return errors.Join(errs...)
}

// tellPart tells the members of one part of a task what they all hold.
func (c *Controller) tellPart(s *seen, generation int64, w *watermarks, k int) error {
	for i := range s.members {
		if s.members[i].said.Generation != generation {
			return nil // not all are there yet
		}
	}
	id, step := s.task.Meta.ID, s.heldByAll()
	if w.peers[id] == nil {
		w.peers[id] = &copying{}
	}
	keep := s.keep(w.peers[id], generation, step, c.cfg.Clock.Now())
	now := mark{generation: generation, step: step}
	if len(keep) > 0 {
		now.first, now.second = keep[0], keep[len(keep)-1]
	}
	if step > 0 && w.told[id][k] != now {
		w.told[id][k] = now
		for i := range s.members {
			if err := c.cfg.Hub.Watermark(s.members[i].name, link.Watermark{Generation: generation, Step: step, Keep: keep}); err != nil && !fault.Is(err, fault.Unavailable) {
				return err
			}
		}
	}
	return nil
}

// holds says whether launchers shall wait for another generation after a failure.
func (c *Controller) holds(s seen, task *api.TrainingTask) bool {
	if s.elastic() {
		return true // its ranks may fail of a change that is meant
	}
	_, left := s.budget(&plan{status: task.Status}, c.cfg.Clock.Now().UTC())
	return left > 0
}
