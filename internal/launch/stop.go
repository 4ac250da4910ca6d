package launch

import (
	"log/slog"
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/internal/launch/bell"
)

// stopper collects wishes to stop: from SIGTERM, the link and the engine's record. The shortest grace counts.
type stopper struct {
	orders Stops         // the engine's record
	own    time.Duration // the replica's grace, for an order that can't be read
	log    *slog.Logger
	ch     chan struct{} // has one after each wish that changed something

	mu    sync.Mutex
	asked bool
	grace time.Duration
}

func newStopper(orders Stops, own time.Duration, log *slog.Logger) *stopper {
	return &stopper{orders: orders, own: own, log: log, ch: make(chan struct{}, 1)}
}

func (s *stopper) ask(grace time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	grace = max(grace, 0)
	if s.asked && grace >= s.grace {
		return
	}
	s.asked, s.grace = true, grace
	bell.Ring(s.ch)
}

// Asked has one after each wish that changed something.
func (s *stopper) Asked() <-chan struct{} { return s.ch }

// Wish is the shortest grace that was asked for, if any was.
func (s *stopper) Wish() (grace time.Duration, asked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grace, s.asked
}

// Look obeys the order of the leader of the current epoch, if there is one.
func (s *stopper) Look() bool {
	epoch, err := s.orders.Epoch()
	if err != nil {
		s.log.Warn("the current epoch can't be read; nobody's stop counts until it can", "error", err)
		return false
	}
	wish, ok, err := s.orders.Stop(epoch)
	if err != nil {
		s.log.Warn("the order to stop can't be read; taken as a stop", "error", err)
		wish.Grace = s.own
	} else if !ok {
		return false
	}
	s.ask(wish.Grace)
	return true
}
