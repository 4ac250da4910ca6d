package fakeengine

import (
	"context"
	"sync"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/enginetest"
)

func TestSuite(t *testing.T) { enginetest.Run(t, newSite) }

// site is a world for the suite.
type site struct {
	*World
	mu   sync.Mutex
	held map[engine.Name]bool
	ran  map[engine.Name]int
}

func newSite(*testing.T) enginetest.Site {
	s := &site{held: map[engine.Name]bool{}, ran: map[engine.Name]int{}}
	s.World = NewWorld(Config{
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
	s.SetNode(api.Node{Meta: api.Meta{Name: "n"}, Spec: api.NodeSpec{Number: 1, Zone: "z"}, Status: api.NodeStatus{Ready: true}})
	return s
}

func (s *site) Open(t *testing.T, epoch int64) (engine.Adapter, func()) {
	e := Open(s.World, epoch)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	close := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(close)
	return e, close
}

func (s *site) OpenLate(t *testing.T, epoch int64) error {
	return Open(s.World, epoch).Run(t.Context())
}

// Owner needs no process of its own: a call is one step here, it happens or not.
func (s *site) Owner(_ *testing.T, epoch int64) (enginetest.Orders, func()) {
	e := Open(s.World, epoch)
	return e, e.close
}

func (s *site) Shape(r *engine.Replica, held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[r.Name] = held
}

func (s *site) Begin(_ *testing.T, name engine.Name) { s.World.Begin(name) }

func (s *site) End(_ *testing.T, name engine.Name) {
	s.World.End(name, engine.Exit{Reason: engine.ReasonSucceeded})
}

func (s *site) Starts(name engine.Name) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ran[name]
}
