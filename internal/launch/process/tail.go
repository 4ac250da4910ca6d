package process

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/internal/diagnose"
)

// tail keeps the last a rank printed.
type tail struct {
	mu    sync.Mutex
	buf   []byte
	total int64
}

func (t *tail) add(data []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total += int64(len(data))
	if n := len(data) - diagnose.MaxWords; n > 0 {
		data = data[n:]
	}
	if len(t.buf)+len(data) > 2*diagnose.MaxWords { // then there are more than are kept
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-(diagnose.MaxWords-len(data)):]...)
	}
	t.buf = append(t.buf, data...)
}

// Words are the last ones, at most diagnose.MaxWords; since: only what came after so many bytes.
func (t *tail) Words(since int64) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(int64(len(t.buf)), diagnose.MaxWords, max(t.total-since, 0))
	return string(t.buf[int64(len(t.buf))-n:])
}

// Printed is how many bytes came so far.
func (t *tail) Printed() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.total
}

// LastWords are what a rank printed last. Every state of a progress bar is a line of its own there.
func (p *Set) LastWords(local int) string {
	return strings.ReplaceAll(p.Tails[local].Words(0), "\r", "\n")
}

// Heard waits until everything a dead rank printed was read, or so long.
func (p *Set) Heard(local int, limit time.Duration) {
	end := time.NewTimer(limit)
	defer end.Stop()
	first := slices.MinFunc(p.pumps, func(a, b *pump) int { return a.rank - b.rank }).rank
	for _, pump := range p.pumps {
		if pump.rank != first+local {
			continue
		}
		select {
		case <-pump.ended:
		case <-end.C:
			return
		}
	}
}
