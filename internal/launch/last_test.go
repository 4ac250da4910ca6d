package launch

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/launch/bell"
	"github.com/fermi-cluster/fermi/internal/link"
)

// lastLauncher is one whose ranks hold steps 8 and 9, and what it tells.
func lastLauncher(t *testing.T) (*launcher, chan link.Ranks) {
	told := make(chan link.Ranks, 100)
	l := &launcher{
		dir: t.TempDir(), clock: clock.Real, log: slog.New(slog.DiscardHandler), stop: newStopper(), ranks: persistRanks(), flush: make(chan chan struct{}),
		open: func(record.Tiers) (ckpt.Store, ckpt.Store, error) { return nil, nil, nil },
	}
	l.epochs = l.dir
	l.ranks.tell = func(r link.Ranks) { told <- r }
	return l, told
}

// TestWhatRanksHoldIsWaitedFor: the launcher says how they ended, and goes when the leader lets it.
func TestWhatRanksHoldIsWaitedFor(t *testing.T) {
	l, told := lastLauncher(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l.stores = func() map[string]ckpt.Store { return nil }
	bell.Ring(l.ranks.released) // for somebody before
	gone := make(chan struct{})
	go l.persist(ctx)
	go func() {
		defer close(gone)
		l.saveLast(ctx, engine.Exit{Reason: engine.ReasonSucceeded}, time.Now().Add(time.Hour))
	}()
	if r := <-told; r.Keeping.Ended != engine.ReasonSucceeded || len(r.Held) != 2 {
		t.Fatalf("%+v", r)
	}
	l.Watermark(link.Watermark{Generation: 4, Step: 9})
	select {
	case <-gone:
		t.Fatal("it went though nobody let it")
	default:
	}
	l.Watermark(link.Watermark{Generation: 4, Last: true})
	<-gone
}

// TestNobodyWaitsBeyondItsGrace: not at all where there is none or nothing is held; a stop makes it shorter.
func TestNobodyWaitsBeyondItsGrace(t *testing.T) {
	l, told := lastLauncher(t)
	l.saveLast(t.Context(), engine.Exit{}, time.Now().Add(-time.Second))
	c := &rankConn{}
	l.ranks.conns[c] = struct{}{}
	go l.ranks.part(c) // its words are heard first
	l.hearOut(t.Context(), time.Now().Add(time.Hour))
	if l.ranks.talking() {
		t.Error("a rank still speaks")
	}
	l.ranks.held = make([][]int64, 2)
	l.saveLast(t.Context(), engine.Exit{Reason: engine.ReasonSucceeded}, time.Now().Add(time.Hour))
	if len(told) > 0 {
		t.Fatal("it asked for nothing")
	}
	for i := range l.ranks.held {
		l.ranks.held[i] = []int64{9}
	}
	l.ranks.watermark(wishing(9, 9))
	l.stop.ask(time.Millisecond)
	l.saveLast(t.Context(), engine.Exit{Reason: engine.ReasonStopped}, time.Now().Add(time.Hour))
	for {
		if r := <-told; len(r.Persisted) > 0 {
			if r.Persisted[0].Error != errTooLate.Error() {
				t.Errorf("%+v", r.Persisted)
			}
			return
		}
	}
}
