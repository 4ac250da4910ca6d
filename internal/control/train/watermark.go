package train

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	high  map[string]map[int]mark // task id → part → the newest step that was told in a generation

	saving  map[string]*saving  // by task; of the loop alone
	peers   map[string]*copying // likewise
	commits sync.WaitGroup
}

// mark is what was told last: a step of a generation, the step to persist and the checkpoints there are,
// and what stays for copies in peers' memory.
type mark struct {
	generation, step, persist, local, shared, safe, next int64
	last                                                 bool
	denied                                               string
	offers                                               int64 // of all launchers together: each only grows
}

func markOf(w link.Watermark) mark {
	m := mark{generation: w.Generation, step: w.Step, last: w.Last}
	if w.Persist != nil {
		m.persist = w.Persist.Step
	}
	if n := len(w.Keep); n > 0 {
		m.safe, m.next = w.Keep[0], w.Keep[n-1]
	}
	for _, d := range w.Denied {
		m.denied += fmt.Sprint(d.Tier, d.Step, " ")
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
	return &watermarks{wake: make(chan struct{}, 1), dirty: map[string]bool{}, ended: map[string][]outcome{}, told: map[string]map[int]mark{}, high: map[string]map[int]mark{}, saving: map[string]*saving{}, peers: map[string]*copying{}}
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
	delete(w.high, id)
	delete(w.peers, id)
	delete(w.saving, id)
	w.outcomes(id)
}

// rises is the step, or the newer one that was told before: whoever hears less of it may have given it up meanwhile, and
// would be let to.
func (w *watermarks) rises(id string, k int, generation, step int64) int64 {
	if w.high[id] == nil {
		w.high[id] = map[int]mark{}
	}
	if was := w.high[id][k]; was.generation == generation {
		step = max(step, was.step)
	}
	w.high[id][k] = mark{generation: generation, step: step}
	return step
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
	over := s.task.Status.Phase.Finished()
	c.releaseOthers(&s, over)
	if over {
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
	say, told := link.Watermark{Generation: generation}, w.told[s.task.Meta.ID]
	var offers int64
	saver := s // whose parts make a checkpoint
	if files := s.task.Spec.CheckpointFolder() != ""; files && s.lead() != nil {
		saver = s.filing()
		say.Step = saver.members[0].filed(generation)
	} else if !files && !slices.ContainsFunc(s.members, func(m member) bool { return m.said.Generation != generation }) { // all are there
		say.Step, offers = s.watermark()
		say.Step = w.rises(s.task.Meta.ID, k, generation, say.Step)
	}
	if say.Step > 0 && saver == s {
		say.Keep = s.keep(w.copying(s.task.Meta.ID), generation, say.Step, c.cfg.Clock.Now())
	}
	if say.Step > 0 && c.keeps(s) && s.task.Status.Rendezvous != nil {
		c.persist(ctx, w, saver, &say)
	} else {
		say.Last = saver.unkept(generation, c.keeps(s))
		if !c.keeps(s) {
			say.Denied = s.denyAll()
		}
	}
	if say.Step == 0 && !say.Last && len(say.Denied) == 0 && offers == 0 {
		return nil
	}
	now := markOf(say)
	if now.offers = offers; told[k] != now {
		told[k] = now
		for i := range s.members {
			if say.Seen = 0; offers > 0 {
				say.Seen = s.members[i].said.Offer
			}
			if say.Step == 0 && say.Seen == 0 && !say.Last && len(say.Denied) == 0 {
				continue
			}
			if err := c.cfg.Hub.Watermark(s.members[i].name, say); err != nil && !fault.Is(err, fault.Unavailable) {
				return err
			}
		}
	}
	return nil
}

// watermark is the newest step that all hold, and how many offers are known with it. One that anybody was told stays
// the least: who heard of it has overwritten what is older, and nobody was yet allowed to give it up. Nor is anybody
// as long as the last leader's word may still be on its way.
func (s *seen) watermark() (step, offers int64) {
	step = s.heldByAll()
	fresh := true
	for i := range s.members {
		said := &s.members[i].said
		step, offers, fresh = max(step, said.Mark), offers+said.Offer, fresh && said.Fresh
	}
	if !fresh {
		return step, 0
	}
	return step, offers
}

// holds says whether launchers shall wait for another generation after a failure.
func (c *Controller) holds(s seen, task *api.TrainingTask) bool {
	if s.elastic() {
		return true // its ranks may fail of a change that is meant
	}
	_, left := s.budget(&plan{status: task.Status}, c.cfg.Clock.Now().UTC())
	return left > 0
}
