package orphan_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/control/orphan"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/storetest"
)

// hands are replicas that end when they are told to.
type hands struct {
	mu     sync.Mutex
	all    map[engine.Name]engine.Observation
	notify func(owner string)
}

func (h *hands) start(owner string) engine.Name {
	name := engine.NameOf(owner, "r", 0, 1)
	h.all[name] = engine.Observation{Name: name, TaskID: owner, State: engine.StateRunning}
	return name
}

func (h *hands) Stop(_ context.Context, name engine.Name, _ time.Duration) error {
	h.mu.Lock()
	o := h.all[name]
	o.State = engine.StateDone
	h.all[name] = o
	h.mu.Unlock()
	h.notify(o.TaskID)
	return nil
}

func (h *hands) Remove(_ context.Context, name engine.Name) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, name)
	return nil
}

func (h *hands) Replicas(owner string) (out []engine.Observation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.all {
		if owner == "" || o.TaskID == owner {
			out = append(out, o)
		}
	}
	return out
}

// TestSweep: replicas and placements whose owner is gone are ended, at the start and later; what has an owner, and what
// is of a kind that this version does not know, is left alone.
func TestSweep(t *testing.T) {
	s := storetest.Open(t)
	commit := func(ops ...store.Op) {
		t.Helper()
		if _, err := s.Commit(t.Context(), store.Txn{Ops: ops}); err != nil {
			t.Fatal(err)
		}
	}
	task := func(name string) (*api.TrainingTask, *api.Placement) {
		o := &api.TrainingTask{Meta: api.Meta{ID: id.Default.New("task"), Name: name, Project: "p"}}
		return o, &api.Placement{Meta: api.Meta{ID: id.Default.New("plc"), Name: o.Meta.ID, Project: "p"}, Spec: api.PlacementSpec{TaskID: o.Meta.ID}}
	}
	h := &hands{all: map[engine.Name]engine.Observation{}}
	lives, livesAt := task("lives")
	goes, goesAt := task("goes")
	gone, goneAt := task("gone")
	commit(store.Create(lives), store.Create(livesAt), store.Create(goes), store.Create(goesAt), store.Create(goneAt))
	kept := []engine.Name{h.start(lives.Meta.ID), h.start("env-0123456789abcdefghjk")}
	h.start(goes.Meta.ID)
	h.start(gone.Meta.ID)

	c := orphan.New(orphan.Config{Store: s, Engine: h, Clock: clock.Real, Log: slog.New(slog.DiscardHandler)})
	h.notify = c.Notify
	leading, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Campaign(leading, "me", c.Run) }()
	defer func() { stop(); <-ended }()

	left := func(want int, gone ...*api.Placement) func() bool {
		return func() bool {
			for _, p := range gone {
				if _, err := s.Get(t.Context(), api.KeyOf(p), 0); err == nil {
					return false
				}
			}
			return len(h.Replicas("")) == want
		}
	}
	eventually(t, "what had no owner at the start is ended", left(3, goneAt))
	commit(store.Delete(api.KeyOf(goes), 0))
	eventually(t, "what lost its owner is ended", left(2, goneAt, goesAt))
	for _, name := range kept {
		if o := h.all[name]; o.State != engine.StateRunning {
			t.Errorf("%s is %q", name, o.State)
		}
	}
	if _, err := s.Get(t.Context(), api.KeyOf(livesAt), 0); err != nil {
		t.Error(err)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
		<-clock.Real.After(2 * time.Millisecond)
	}
}
