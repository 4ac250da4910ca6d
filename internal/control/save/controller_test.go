package save

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/storetest"
)

// fleet is two launchers: what they said, and what they were told.
type fleet struct {
	mu    sync.Mutex
	said  map[engine.Name]link.Ranks
	told  chan message
	fails int // how many more orders come to nothing
}

func (f *fleet) Attached(engine.Name) bool { return true }

func (f *fleet) Silence(engine.Name) (time.Duration, bool) { return 0, true }

func (f *fleet) Ranks(name engine.Name) (link.Ranks, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	said, ok := f.said[name]
	return said, ok
}

func (f *fleet) Watermark(name engine.Name, w link.Watermark) error {
	f.mu.Lock()
	if f.fails > 0 {
		f.fails--
		f.mu.Unlock()
		return errors.New("the line is cut")
	}
	f.mu.Unlock()
	f.told <- message{name, w}
	return nil
}

func (f *fleet) Replicas(string) []engine.Observation {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []engine.Observation
	for name := range f.said {
		out = append(out, engine.Observation{Name: name, TaskID: "task-1", State: engine.StateRunning})
	}
	return out
}

func (f *fleet) AddEvents(context.Context, ...history.Event) error { return nil }

// next is the first thing that a launcher is told that is so.
func (f *fleet) next(t *testing.T, so func(w link.Watermark) bool) link.Watermark {
	t.Helper()
	for {
		select {
		case m := <-f.told:
			if so(m.mark) {
				return m.mark
			}
		case <-clock.Real.After(time.Minute):
			t.Fatal("nobody was told")
		}
	}
}

// TestTheLoopSaves against a real store: what all hold is told, also after an order that came to nothing; what they want kept
// is ordered, committed once all have written it, and told; and it is where the task could begin from.
func TestTheLoopSaves(t *testing.T) {
	st := storetest.Open(t)
	g := training(9)
	g.Task.Status.Phase, g.Task.Status.Attempt = api.PhaseRunning, 2
	g.Placement.Meta.Name = api.PlaceKey("p", g.Task.Meta.ID).Name
	g.Placement.Spec.Roles = []api.RoleAssignment{{Role: "worker", Slots: api.Slots{{Node: 1}, {Node: 2}}}}
	for _, o := range []api.Object{g.Task, g.Placement} {
		if _, err := st.Commit(t.Context(), store.Txn{Ops: []store.Op{store.Create(o)}}); err != nil {
			t.Fatal(err)
		}
	}
	f := &fleet{said: map[engine.Name]link.Ranks{}, told: make(chan message, 100), fails: 1}
	for i := range g.Members {
		said := g.Members[i].Said
		said.Keeping.Wants = []link.Want{{Tier: link.TierLocal, Step: 9}}
		f.said[g.Members[i].Name] = said
	}
	blobs, err := folder.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer blobs.Close()
	c := New(Config{
		Store: st, Hub: f, Events: f, Gangs: gang.NewObserver(st, f, f, nil), Clock: clock.Real, Log: slog.New(slog.DiscardHandler),
		Repo: func(tier, taskID string) (*ckpt.Repo, error) {
			return ckpt.New(ckpt.Config{Store: blobs, Prefix: tier + "/" + taskID})
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx, store.Epoch{}) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	for deadline := clock.Real.Now().Add(time.Minute); len(f.told) == 0; { // until it leads nobody hears it
		if clock.Real.Now().After(deadline) {
			t.Fatal("nobody was told")
		}
		c.Saved("task-1", false)
		c.Saved("gone", true)
		time.Sleep(time.Millisecond)
	}
	order := f.next(t, func(w link.Watermark) bool { return w.Persist != nil })
	if order.Step != 9 || order.Persist.Step != 9 || order.Persist.Tiers[0] != link.TierLocal {
		t.Fatalf("%+v", order)
	}
	written(g, link.TierLocal, 9)
	f.mu.Lock()
	for i := range g.Members {
		said := f.said[g.Members[i].Name]
		said.Persisted = g.Members[i].Said.Persisted
		f.said[g.Members[i].Name] = said
	}
	f.mu.Unlock()
	c.Saved("task-1", false)
	if w := f.next(t, func(w link.Watermark) bool { return len(w.Committed) > 0 }); w.Committed[0].Step != 9 || w.Persist != nil {
		t.Errorf("%+v", w)
	}
	for i := range g.Members {
		g.Members[i].Said.Held = nil // memory is lost
	}
	if from := c.Origins(t.Context(), g); from.Best() == nil || from.Best().Step != 9 || from.Away {
		t.Errorf("%+v", from)
	}
	if took := c.Took("task-1"); took[link.TierLocal] <= 0 {
		t.Errorf("%v", took)
	}
}
