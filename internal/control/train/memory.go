package train

import (
	"cmp"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/hold"
	"github.com/fermi-cluster/fermi/internal/control/train/figure"
	"github.com/fermi-cluster/fermi/internal/store"
)

// memory is what one leadership remembers of tasks between their turns. Losing it costs a second look, never a wrong one.
type memory struct {
	mu    sync.Mutex
	keys  map[string]api.Key     // task id → key
	lent  map[string]api.Key     // task id → who is inside it
	stays map[string]int         // task id → generation whose failure no other place was found for
	rates map[api.Key]rate       // of large tasks
	bases map[string]figure.Base // by work
}

func newMemory() *memory {
	m := &memory{}
	m.reset()
	return m
}

// reset forgets what another leadership knew.
func (m *memory) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keys, m.lent, m.stays = map[string]api.Key{}, map[string]api.Key{}, map[string]int{}
	m.rates, m.bases = map[api.Key]rate{}, map[string]figure.Base{}
}

// note files a task as it is now.
func (m *memory) note(key api.Key, t *api.TrainingTask) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keys[t.Meta.ID] = key
	m.noteBase(t)
}

// forget is for a task that is gone.
func (m *memory) forget(key api.Key, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.keys, id)
	delete(m.stays, id)
	delete(m.rates, key)
}

// keyOf is the key of a task that is there.
func (m *memory) keyOf(id string) (api.Key, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key, ok := m.keys[id]
	return key, ok
}

// rate is how often a task has a turn. A turn looks at every member. In a small task each change has its turn at once; in a
// large one a change right after a turn waits for others, so that a thousand that start don't cost a thousand
// turns, and the first that fails has its turn at once.
type rate struct {
	last  time.Time
	every time.Duration
}

const membersPerMilli = 50

// left is how long the next turn for a change of replicas waits.
func (r rate) left(now time.Time) time.Duration { return max(r.every-now.Sub(r.last), 0) }

// hadTurn notes a turn of a task.
func (m *memory) hadTurn(key api.Key, members int, now time.Time) {
	every := time.Duration(members/membersPerMilli) * time.Millisecond
	m.mu.Lock()
	defer m.mu.Unlock()
	if every == 0 {
		delete(m.rates, key)
		return
	}
	m.rates[key] = rate{now, every}
}

// pause is how long a task's next turn waits.
func (m *memory) pause(key api.Key, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rates[key].left(now)
}

// stay notes that no other place was found for a failure of this generation.
func (m *memory) stay(task *api.TrainingTask) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stays[task.Meta.ID] = task.Status.Generation
}

// hasToStay says that none was.
func (m *memory) hasToStay(task *api.TrainingTask) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	g, ok := m.stays[task.Meta.ID]
	return ok && g == task.Status.Generation
}

// maxBases bounds what a leader remembers of finished tasks.
const maxBases = 10_000

// noteBase remembers the pace of a task if its world is the smallest; mu held.
func (m *memory) noteBase(t *api.TrainingTask) {
	if t.Status.Use == nil || t.Status.Pace == nil {
		return
	}
	now := figure.Base{Ranks: t.Status.Use.Ranks, Each: figure.PerRank(t.Status.Pace, t.Status.Use.Ranks), Task: t.Meta.Name}
	if now.Each <= 0 {
		return
	}
	work := figure.WorkOf(t)
	old, known := m.bases[work]
	if known && old.Ranks < now.Ranks {
		return
	}
	if !known && len(m.bases) >= maxBases {
		for any := range m.bases {
			delete(m.bases, any)
			break
		}
	}
	m.bases[work] = now
}

// baseOf is what is known of the task's work; nil: nothing.
func (m *memory) baseOf(t *api.TrainingTask) *figure.Base {
	if t.Status.Pace == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if b, ok := m.bases[figure.WorkOf(t)]; ok {
		return &b
	}
	return nil
}

// lend files who is inside whom as a placement says, and gives the tasks that this is news for.
func (m *memory) lend(ch store.Change, guest api.Key) (news []api.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was, _ := ch.Old.(*api.Placement)
	is, _ := ch.New.(*api.Placement)
	each := func(p *api.Placement, note func(id string)) {
		if p == nil {
			return
		}
		for _, l := range p.Spec.Inside {
			note(l.TaskID)
			if host := l.Key(ch.Key.Project); host.Kind == api.KindTrainingTask { // others have a controller of their own
				news = append(news, host)
			}
		}
	}
	each(was, func(id string) {
		if m.lent[id] == guest {
			delete(m.lent, id)
		}
	})
	each(is, func(id string) { m.lent[id] = guest })
	if p := cmp.Or(is, was); p != nil { // of an environment: it may have been asked to leave
		if inside, ok := m.lent[p.Spec.TaskID]; ok {
			news = append(news, inside)
		}
	}
	return news
}

// guestOf is who is inside a task.
func (m *memory) guestOf(id string) (api.Key, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	guest, ok := m.lent[id]
	return guest, ok
}

// heldOtherwise are the tasks of which a replica was given up on a node, or is so no more: then it can be removed.
func (m *memory) heldOtherwise(old, now *api.Node) (out []api.Key) {
	var before hold.List
	if old != nil {
		before = old.Status.Holds
	}
	differ := func(these, those hold.List) {
		for i := range these {
			if key, ok := m.keyOf(these[i].Owner); ok && those.Of(these[i].Replica) == nil {
				out = append(out, key)
			}
		}
	}
	differ(now.Status.Holds, before)
	differ(before, now.Status.Holds)
	return out
}
