package logbook

import (
	"slices"
	"sync"
	"time"
)

// memory is what is known and held of logs, under one lock.
type memory struct {
	mu    sync.Mutex
	tasks map[string]*task
	held  int64 // bytes of memory in blocks
}

func (m *memory) taskOf(id string) *task {
	t := m.tasks[id]
	if t == nil {
		t = &task{id: id, streams: map[string]*stream{}, readers: map[*reader]struct{}{}, tails: map[*tail]struct{}{}}
		m.tasks[id] = t
	}
	return t
}

func (m *memory) release(s *stream) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.users--
	m.drop(s)
}

// drop forgets a stream that has ended and nobody uses. Under mu.
func (m *memory) drop(s *stream) {
	t := s.task
	if s.finished && s.users == 0 && len(s.blocks) == 0 && len(t.readers) == 0 && t.streams[s.replica] == s {
		delete(t.streams, s.replica)
	}
	m.dropTask(t)
}

func (m *memory) dropTask(t *task) {
	if len(t.streams) == 0 && len(t.readers) == 0 && len(t.tails) == 0 && m.tasks[t.id] == t {
		delete(m.tasks, t.id)
	}
}

func (m *memory) durableOf(s *stream) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return s.durable
}

// holdLargest is nil when n more bytes fit into most, or when there is nothing to commit.
func (m *memory) holdLargest(n, most int64) *stream {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held+n <= most {
		return nil
	}
	var largest *stream
	for _, t := range m.tasks {
		for _, s := range t.streams {
			if len(s.blocks) > 0 && !s.foreign && (largest == nil || s.pending() > largest.pending()) {
				largest = s
			}
		}
	}
	if largest != nil {
		largest.users++
	}
	return largest
}

// segments are the news of the streams that changed, at most a round's worth: what is left wakes t again.
func (m *memory) segments(of *task, t *tail, sent map[*stream]told) (out []segment, deleted bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if of.deleted {
		return nil, true
	}
	room := 4 << 20
	for s := range t.dirty {
		if room <= 0 {
			t.poke()
			break
		}
		delete(t.dirty, s)
		if s.foreign {
			continue
		}
		was := sent[s]
		from := max(was.end, s.durable) // what is in the store they read there
		if s.durable > was.durable {
			out = append(out, segment{replica: s.replica, offset: s.durable, durable: s.durable})
		}
		for _, bl := range s.blocks {
			if bl.end() <= from {
				continue
			}
			data := bl.data[max(from-bl.start, 0):]
			for part := range slices.Chunk(data, maxPiece) {
				// Blocks only ever grow behind what is there, so the bytes need no copy.
				out = append(out, segment{replica: s.replica, offset: from, data: part[:len(part):len(part)], durable: s.durable})
				from += int64(len(part))
				room -= len(part)
			}
		}
		sent[s] = told{from, s.durable}
		if s.finished && len(s.blocks) == 0 {
			delete(sent, s)
		}
	}
	return out, false
}

// own says that a launcher sends to us.
func (m *memory) own(s *stream, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.setForeign(false, now)
}

// forget drops what is in memory of a foreign stream. Under mu.
func (m *memory) forget(s *stream) {
	for _, bl := range s.blocks {
		m.held -= int64(cap(bl.data))
	}
	s.blocks, s.sealed, s.end, s.foreign = nil, 0, s.durable, false
}

func (m *memory) behind(s *stream, offset int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return offset > s.end
}
