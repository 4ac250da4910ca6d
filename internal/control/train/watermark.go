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
	ended map[string][]outcome    // by task: commits that have
	told  map[string]map[int]mark // by part of the task; of the loop alone

	saving  map[string]*saving  // by task; of the loop alone
	peers   map[string]*copying // likewise
	commits sync.WaitGroup
}

// mark is what was told last: a step of a generation, the step to persist and the checkpoints there are,
// and what stays for copies in peers' memory.
type mark struct{ generation, step, persist, local, shared, safe, next int64 }

func markOf(w link.Watermark) mark {
	m := mark{generation: w.Generation, step: w.Step}
	if w.Persist != nil {
		m.persist = w.Persist.Step
	}
	if n := len(w.Keep); n > 0 {
		m.safe, m.next = w.Keep[0], w.Keep[n-1]
	}
	for _, c := range w.Committed {
		if c.Tier == link.TierLocal {
			m.local = c.Step
		} else {
			m.shared = c.Step
		}
	}
	return m
}

func newWatermarks() *watermarks {
	return &watermarks{wake: make(chan struct{}, 1), dirty: map[string]bool{}, ended: map[string][]outcome{}, told: map[string]map[int]mark{}, saving: map[string]*saving{}, peers: map[string]*copying{}}
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

func (w *watermarks) copying(id string) *copying {
	if w.peers[id] == nil {
		w.peers[id] = &copying{}
	}
	return w.peers[id]
}

func (w *watermarks) forget(id string) {
	delete(w.told, id)
	delete(w.peers, id)
	delete(w.saving, id)
	w.outcomes(id)
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
	defer w.commits.Wait()
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
		part.as(&p, func() { errs = append(errs, c.tellPart(ctx, w, part, int64(p.status.Generation), k)) })
	}
	return errors.Join(errs...)
}

// tellPart tells the members of one part of a task what they all hold.
func (c *Controller) tellPart(ctx context.Context, w *watermarks, s *seen, generation int64, k int) error {
	for i := range s.members {
		if s.members[i].said.Generation != generation {
			return nil // not all are there yet
		}
	}
	say, told := link.Watermark{Generation: generation, Step: s.heldByAll()}, w.told[s.task.Meta.ID]
	if say.Step == 0 {
		return nil
	}
	say.Keep = s.keep(w.copying(s.task.Meta.ID), generation, say.Step, c.cfg.Clock.Now())
	if c.keeps(s.task) && s.task.Status.Rendezvous != nil {
		c.persist(ctx, w, s, &say)
	}
	if now := markOf(say); told[k] != now {
		told[k] = now
		for i := range s.members {
			if err := c.cfg.Hub.Watermark(s.members[i].name, say); err != nil && !fault.Is(err, fault.Unavailable) {
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
