package audit

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
)

// What anybody can do a thousand times a second must not fill the audit. A tally lets the first few of a kind
// through at once and counts those alike; when its span is over one more entry says how many there were. So
// the number of entries is bounded by time alone: a few for each of the keys that it remembers, and what finds
// no room shares an entry.
const (
	strangersEvery, strangersKept = 10 * time.Minute, 256
	oftenEvery, oftenKept         = time.Minute, 1024
	// FreeRefusals is how many alike that a known caller was refused have an entry each.
	FreeRefusals = 5
	talliesEvery = 5 * time.Second
	// MaxSamples is how many names one entry lists of what it stands for.
	MaxSamples = 16
)

type tally struct {
	every time.Duration
	max   int
	clock clock.Clock
	mu    sync.Mutex
	by    map[string]*counted
}

// counted is what came after the first few of a kind.
type counted struct {
	entry       history.AuditEntry
	free        int // so many more have an entry each
	n           int64
	began, last time.Time
	samples     []string
	more        bool
}

func newTally(c clock.Clock, every time.Duration, keys int) *tally {
	return &tally{every: every, max: keys, clock: c, by: map[string]*counted{}}
}

// count says whether the entry is to be written now, as the first free of its kind are. rest is the key of what
// it is counted with when there are too many kinds.
func (t *tally) count(key, rest string, free int, e history.AuditEntry, sample string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now().UTC()
	one := t.by[key]
	if one == nil && len(t.by) < t.max {
		t.by[key] = &counted{entry: e, began: now, last: now, free: free - 1}
		return true
	}
	if one != nil && one.free > 0 {
		one.free--
		return true
	}
	if one == nil {
		key = "\x00rest\x00" + rest
		if one = t.by[key]; one == nil {
			e.Project, e.Name, e.ID, e.Before, e.After, e.Detail, e.Outcome = "", "", "", "", "", "", "TooManyToList"
			if rest == "" {
				e.RemoteIP, e.Token, e.Session = "", "", ""
			}
			one = &counted{entry: e, began: now}
			t.by[key] = one
		}
	}
	one.n++
	one.last = now
	switch {
	case sample == "" || slices.Contains(one.samples, sample):
	case len(one.samples) < MaxSamples:
		one.samples = append(one.samples, refuse.Clip(sample, 256))
	default:
		one.more = true
	}
	return false
}

// due takes out what has been counted for long enough, or all of it, oldest first.
func (t *tally) due(whole bool) []history.AuditEntry {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	var ended []*counted
	for key, one := range t.by {
		if whole || now.Sub(one.began) >= t.every {
			delete(t.by, key)
			if one.n > 0 {
				ended = append(ended, one)
			}
		}
	}
	slices.SortFunc(ended, func(a, b *counted) int { return a.began.Compare(b.began) })
	out := make([]history.AuditEntry, len(ended))
	for i, one := range ended {
		e := one.entry
		e.Time, e.Since, e.Count, e.Request, e.Before, e.After, e.Detail = one.last, one.began, one.n, "", "", "", ""
		if len(one.samples) > 0 {
			e.Detail = rest.JSONText(map[string]any{"what": one.samples, "more": one.more})
		}
		out[i] = e
	}
	return out
}

// Run writes what was counted, until ctx ends.
func (a *Auditor) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.clock.After(talliesEvery):
		}
		a.Flush(ctx, false)
	}
}

// Flush writes what has been counted for long enough, or all of it.
func (a *Auditor) Flush(ctx context.Context, whole bool) {
	ctx, cancel := context.WithTimeout(ctx, historyPatience)
	defer cancel()
	rows := append(a.waiting.take(), append(a.strangers.due(whole), a.often.due(whole)...)...)
	for chunk := range slices.Chunk(rows, 100) {
		a.write(ctx, chunk...)
	}
}

// maxWaiting bounds the entries that wait for a history which has no room.
const maxWaiting = 10_000

// waiting are entries that could not be written.
type waiting struct {
	mu   sync.Mutex
	rows []history.AuditEntry
}

// add keeps them; false: there are too many already.
func (w *waiting) add(rows []history.AuditEntry) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.rows)+len(rows) > maxWaiting {
		return false
	}
	w.rows = append(w.rows, rows...)
	return true
}

func (w *waiting) take() []history.AuditEntry {
	w.mu.Lock()
	defer w.mu.Unlock()
	rows := w.rows
	w.rows = nil
	return rows
}
