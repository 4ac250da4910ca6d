package placement

import (
	"sync"

	"github.com/fermi-cluster/fermi/internal/store"
)

// seat holds the model of a server that leads. Who plans and who asks take turns; nobody holds the lock around I/O.
type seat struct {
	mu    sync.Mutex
	m     *model // nil while this server does not lead
	epoch store.Epoch
}

// take begins a leadership.
func (s *seat) take(m *model, epoch store.Epoch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m, s.epoch = m, epoch
}

// leave ends it.
func (s *seat) leave() { s.take(nil, store.Epoch{}) }

// with shows f the model; false: this server does not lead.
func (s *seat) with(f func(m *model)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		return false
	}
	f(s.m)
	return true
}

// during shows f the model of one leadership: what was begun under another changes nothing.
func (s *seat) during(epoch store.Epoch, f func(m *model)) {
	s.with(func(m *model) {
		if s.epoch == epoch {
			f(m)
		}
	})
}
