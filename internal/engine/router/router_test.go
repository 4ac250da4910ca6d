package router

import (
	"context"
	"sync"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/enginetest"
	"github.com/fermi-cluster/fermi/internal/engine/fakeengine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// site is two worlds behind a router; the suite's replicas are in zone z.
type site struct {
	mu     sync.Mutex
	held   map[engine.Name]bool
	ran    map[engine.Name]int
	worlds map[string]*fakeengine.World
}

func newSite() *site {
	s := &site{held: map[engine.Name]bool{}, ran: map[engine.Name]int{}, worlds: map[string]*fakeengine.World{}}
	for number, zone := range []string{"z", "y"} {
		w := fakeengine.NewWorld(fakeengine.Config{
			Now: time.Now,
			Hold: func(r engine.Replica) bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				return s.held[r.Name]
			},
			Started: func(name engine.Name) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.ran[name]++
			},
		})
		w.SetNode(api.Node{Meta: api.Meta{Name: "node-" + zone}, Spec: api.NodeSpec{Number: uint32(number + 1), Zone: zone}, Status: api.NodeStatus{Ready: true}})
		s.worlds["engine-"+zone] = w
	}
	return s
}

// router is one over engines of this epoch.
func (s *site) router(epoch int64) *Router {
	engines := map[string]engine.Adapter{}
	for name, w := range s.worlds {
		engines[name] = fakeengine.Open(w, epoch)
	}
	return New(Config{Engines: engines, EngineOf: func(_ context.Context, r engine.Replica) (string, error) { return "engine-" + r.Zone, nil }})
}

func (s *site) Open(t *testing.T, epoch int64) (engine.Adapter, func()) {
	r := s.router(epoch)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	<-r.Ready()
	close := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(close)
	return r, close
}

func (s *site) OpenLate(t *testing.T, epoch int64) error { return s.router(epoch).Run(t.Context()) }

func (s *site) Owner(t *testing.T, epoch int64) (enginetest.Orders, func()) { return s.Open(t, epoch) }

func (s *site) Shape(r *engine.Replica, held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[r.Name] = held
}

func (s *site) Begin(_ *testing.T, name engine.Name) { s.worlds["engine-z"].Begin(name) }
func (s *site) End(_ *testing.T, name engine.Name) {
	s.worlds["engine-z"].End(name, engine.Exit{Reason: engine.ReasonSucceeded})
}

func (s *site) Starts(name engine.Name) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ran[name]
}

func TestSuite(t *testing.T) {
	enginetest.Run(t, func(*testing.T) enginetest.Site { return newSite() })
}

// TestByZone: each zone has its engine, and all of them are one to who asks.
func TestByZone(t *testing.T) {
	s := newSite()
	e, close := s.Open(t, 1)
	defer close()
	feed := engine.NewFeed()
	defer feed.Close()
	e.Watch(feed)
	ctx := t.Context()
	here := engine.Replica{Name: engine.NameOf("task-1", "worker", 0, 1), TaskID: "task-1", Zone: "z", Node: "node-z"}
	there := engine.Replica{Name: engine.NameOf("task-1", "worker", 1, 1), TaskID: "task-1", Zone: "y", Node: "node-y"}
	for _, r := range []engine.Replica{there, here} {
		if err := e.Start(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	for zone, name := range map[string]engine.Name{"z": here.Name, "y": there.Name} {
		own := fakeengine.Open(s.worlds["engine-"+zone], 1)
		if list := own.Replicas(""); len(list) != 1 || list[0].Name != name {
			t.Errorf("zone %s has %+v", zone, list)
		}
	}
	if list := e.Replicas("task-1"); len(list) != 2 || list[0].Name != here.Name || list[1].Name != there.Name {
		t.Errorf("%+v", list)
	}
	if list, whole := e.Nodes(); !whole || len(list) != 2 || list[0].Meta.Name != "node-y" {
		t.Errorf("%+v %v", list, whole)
	}
	if changes := feed.Take(); len(changes) != 4 {
		t.Errorf("%+v", changes)
	}
	// A zone that names another engine keeps its replicas where they are.
	moved := there
	moved.Zone = "z"
	if err := e.Start(ctx, moved); err != nil || s.Starts(there.Name) != 1 {
		t.Error(err, s.Starts(there.Name))
	}
	if err := e.Stop(ctx, there.Name, 0); err != nil {
		t.Fatal(err)
	}
	if o, ok := e.Replica(there.Name); !ok || o.State != engine.StateDone {
		t.Errorf("%+v", o)
	}
	nowhere := engine.Replica{Name: engine.NameOf("task-1", "worker", 2, 1), TaskID: "task-1", Zone: "x"}
	if err := e.Start(ctx, nowhere); !fault.Is(err, fault.Unavailable) {
		t.Error("an engine that is not there:", err)
	}
}

// TestSpecBeforeReady: a launcher that asks while what runs is being found again is told to ask again, and not that there is nothing.
func TestSpecBeforeReady(t *testing.T) {
	r := newSite().router(1)
	if _, err := r.Spec(t.Context(), "task-1-worker-0-1"); !fault.Is(err, fault.Unavailable) {
		t.Error("before:", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	<-r.Ready()
	if _, err := r.Spec(t.Context(), "task-1-worker-0-1"); !fault.Is(err, fault.NotFound) {
		t.Error("after:", err)
	}
	cancel()
	<-ended
}
