package placement

import (
	"context"
	"log/slog"
	"sync"

	"github.com/fermi-cluster/fermi/internal/store"
)

// seat holds the model of a server that leads. Who plans and who asks take turns; nobody holds the lock around I/O.
type seat struct {
	log   *slog.Logger
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
	ok, heard := s.locked(f)
	say(s.log, heard)
	return ok
}

// locked is with, and what the model noticed.
func (s *seat) locked(f func(m *model)) (ok bool, heard []remark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		return false, nil
	}
	f(s.m)
	return true, s.m.heard.take()
}

// during shows f the model of one leadership: what was begun under another changes nothing.
func (s *seat) during(epoch store.Epoch, f func(m *model)) {
	s.with(func(m *model) {
		if s.epoch == epoch {
			f(m)
		}
	})
}

// say writes remarks of a model down.
func say(log *slog.Logger, list []remark) {
	for _, one := range list {
		log.Log(context.Background(), slog.Level(one.weight), one.text, one.about...)
	}
}
