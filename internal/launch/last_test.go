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

// lastKeeper is one whose ranks hold steps 8 and 9, with its stops, and what it tells.
func lastKeeper(t *testing.T) (*keeper, *stopper, chan link.Ranks) {
	told := make(chan link.Ranks, 100)
	log := slog.New(slog.DiscardHandler)
	dir := t.TempDir()
	stop := newStopper(dir, dir, 0, log)
	k := newKeeper(keepConfig{
		Ranks: persistRanks(), Stops: stop, Clock: clock.Real, Log: log,
		Stores: func(record.Tiers) (ckpt.Store, ckpt.Store, error) { return nil, nil, nil },
	})
	k.ranks.tell = func(r link.Ranks) { told <- r }
	return k, stop, told
}

// TestWhatRanksHoldIsWaitedFor: the launcher says how they ended, and goes when the leader lets it.
func TestWhatRanksHoldIsWaitedFor(t *testing.T) {
	k, _, told := lastKeeper(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	bell.Ring(k.ranks.released) // for somebody before
	gone := make(chan struct{})
	go k.run(ctx)
	go func() {
		defer close(gone)
		k.saveLast(ctx, engine.ReasonSucceeded, time.Now().Add(time.Hour))
	}()
	if r := <-told; r.Keeping.Ended != engine.ReasonSucceeded || len(r.Held) != 2 {
		t.Fatalf("%+v", r)
	}
	k.watermark(link.Watermark{Generation: 4, Step: 9})
	select {
	case <-gone:
		t.Fatal("it went though nobody let it")
	default:
	}
	k.watermark(link.Watermark{Generation: 4, Last: true})
	<-gone
}

// TestNobodyWaitsBeyondItsGrace: not at all where there is none or nothing is held; a stop makes it shorter.
func TestNobodyWaitsBeyondItsGrace(t *testing.T) {
	k, stop, told := lastKeeper(t)
	k.saveLast(t.Context(), "", time.Now().Add(-time.Second))
	c := &rankConn{}
	k.ranks.conns[c] = struct{}{}
	go k.ranks.part(c) // its words are heard first
	k.hearOut(t.Context(), time.Now().Add(time.Hour))
	if k.ranks.talking() {
		t.Error("a rank still speaks")
	}
	k.ranks.held = make([][]int64, 2)
	k.saveLast(t.Context(), engine.ReasonSucceeded, time.Now().Add(time.Hour))
	if len(told) > 0 {
		t.Fatal("it asked for nothing")
	}
	for i := range k.ranks.held {
		k.ranks.held[i] = []int64{9}
	}
	k.ranks.watermark(wishing(9, 9))
	stop.ask(time.Millisecond)
	k.saveLast(t.Context(), engine.ReasonStopped, time.Now().Add(time.Hour))
	for {
		if r := <-told; len(r.Persisted) > 0 {
			if r.Persisted[0].Error != errTooLate.Error() {
				t.Errorf("%+v", r.Persisted)
			}
			return
		}
	}
}
