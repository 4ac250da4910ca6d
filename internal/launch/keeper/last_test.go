package keeper

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/launch/bell"
	"github.com/fermi-cluster/fermi/internal/launch/rankset"
	"github.com/fermi-cluster/fermi/internal/link"
)

// oneStop is where wishes to stop come from: one at most.
type oneStop struct {
	ch    chan struct{}
	grace time.Duration
}

func (s *oneStop) Asked() <-chan struct{}      { return s.ch }
func (s *oneStop) Wish() (time.Duration, bool) { return s.grace, s.grace > 0 }
func (s *oneStop) Look() bool                  { return false }

// lastKeeper is one of two ranks of four, with what it tells.
func lastKeeper(stop stopping) (*Keeper, chan link.Ranks) {
	told := make(chan link.Ranks, 100)
	r := rankset.New(rankset.Config{Ranks: 2, Tell: func(r link.Ranks) { told <- r }})
	r.Begin(link.Generation{Number: 4, Membership: link.Membership{World: 4}})
	return New(Config{
		Ranks: r, Stops: stop, Clock: clock.Real, Log: slog.New(slog.DiscardHandler),
		Stores: func(record.Tiers, func(context.Context, *http.Request) error) (ckpt.Store, ckpt.Store, error) {
			return nil, nil, nil
		},
	}), told
}

// hold lets both ranks say that they saved steps, and waits until that is told; the returned hangs up.
func hold(t *testing.T, k *Keeper, told chan link.Ranks, steps ...int64) (hangUp func()) {
	t.Helper()
	var conns []net.Conn
	for rank := range 2 {
		ours, theirs := net.Pipe()
		go func() { _ = k.ranks.Converse(t.Context(), ours) }()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		fmt.Fprintf(theirs, `{"hello":{"pid":1,"rank":%d,"generation":4,"version":"x"}}`+"\n", rank)
		for _, step := range steps {
			fmt.Fprintf(theirs, `{"saved":{"step":%d,"bytes":1,"seconds":0}}`+"\n", step)
		}
		conns = append(conns, theirs)
	}
	for r := range told {
		if slices.Equal(r.Held, steps) {
			break
		}
	}
	return func() {
		for _, c := range conns {
			c.Close()
		}
	}
}

// TestWhatRanksHoldIsWaitedFor: the launcher says how they ended, and goes when the leader lets it.
func TestWhatRanksHoldIsWaitedFor(t *testing.T) {
	k, told := lastKeeper(&oneStop{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hold(t, k, told, 8, 9)()
	bell.Ring(k.ranks.Released) // for somebody before
	gone := make(chan struct{})
	go k.Run(ctx)
	go func() {
		defer close(gone)
		k.SaveLast(ctx, engine.ReasonSucceeded, time.Now().Add(time.Hour))
	}()
	for r := range told {
		if r.Keeping.Ended != "" {
			if r.Keeping.Ended != engine.ReasonSucceeded || len(r.Held) != 2 {
				t.Fatalf("%+v", r)
			}
			break
		}
	}
	k.Watermark(link.Watermark{Generation: 4, Step: 9})
	select {
	case <-gone:
		t.Fatal("it went though nobody let it")
	default:
	}
	k.Watermark(link.Watermark{Generation: 4, Last: true})
	<-gone
}

// TestNobodyWaitsBeyondItsGrace: not at all where there is none or nothing is held; a stop makes it shorter.
func TestNobodyWaitsBeyondItsGrace(t *testing.T) {
	stop := &oneStop{ch: make(chan struct{}, 1)}
	k, told := lastKeeper(stop)
	k.SaveLast(t.Context(), "", time.Now().Add(-time.Second))
	k.SaveLast(t.Context(), engine.ReasonSucceeded, time.Now().Add(time.Hour))
	if len(told) > 0 {
		t.Fatal("it asked for nothing")
	}
	hangUp := hold(t, k, told, 9)
	if !k.ranks.Conns.Talking() {
		t.Fatal("nobody speaks")
	}
	go hangUp() // what they say is heard first
	k.hearOut(t.Context(), time.Now().Add(time.Hour))
	if k.ranks.Conns.Talking() {
		t.Error("a rank still speaks")
	}
	k.ranks.Watermark(link.Watermark{Generation: 4, Step: 9, Persist: &link.Persist{Step: 9, Tiers: []string{link.TierLocal}}})
	stop.grace = time.Millisecond
	bell.Ring(stop.ch)
	k.SaveLast(t.Context(), engine.ReasonStopped, time.Now().Add(time.Hour))
	for r := range told {
		if len(r.Persisted) > 0 {
			if r.Persisted[0].Error != "the time that the task had to end was over" {
				t.Errorf("%+v", r.Persisted)
			}
			return
		}
	}
}
