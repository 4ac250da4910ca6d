package probe

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
)

// every is the pause between two rounds of pings, patience how long an answer may take.
const (
	every       = 2 * time.Second
	patience    = 2 * time.Second
	forgetAfter = time.Minute
)

// Peers are the other servers.
type Peers interface {
	// Addresses are those of the other servers that live now.
	Addresses() []string
	// Ping makes one round trip over a connection that stands, and says which zone answered; "" is a
	// server that knows none. Safe for concurrent use.
	Ping(ctx context.Context, address string) (zone string, trip time.Duration, err error)
}

// Config makes a Prober; all must be given.
type Config struct {
	Zone  string // ours
	Peers Peers
	Store store.ReadWriter
	Clock clock.Clock
	Log   *slog.Logger
}

// Prober measures the way from its zone to the others.
type Prober struct {
	cfg     Config
	windows map[string]*window // by zone
	written time.Time          // when the last report was
}

// New makes a prober; it starts nothing.
func New(cfg Config) *Prober { return &Prober{cfg: cfg, windows: map[string]*window{}} }

// Run measures until ctx ends.
func (p *Prober) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		p.round(ctx)
		if now := p.cfg.Clock.Now(); now.Sub(p.written) >= reportEvery {
			if err := p.report(ctx, now.UTC()); err != nil && ctx.Err() == nil {
				p.written = now // and again in a while
				p.cfg.Log.Warn("measured latencies could not be written", "zone", p.cfg.Zone, "error", err)
			}
		}
		select {
		case <-ctx.Done():
		case <-p.cfg.Clock.After(every):
		}
	}
	return nil
}

// round pings everybody once, side by side. A zone of which nobody has answered for a while is
// forgotten.
func (p *Prober) round(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	type answer struct {
		zone string
		trip time.Duration
	}
	addresses := p.cfg.Peers.Addresses()
	answers := make([]answer, len(addresses))
	var wg sync.WaitGroup
	for i, address := range addresses {
		wg.Go(func() {
			zone, trip, err := p.cfg.Peers.Ping(ctx, address)
			if err != nil {
				p.cfg.Log.Debug("a server did not answer", "address", address, "error", err)
				return
			}
			answers[i] = answer{zone, trip}
		})
	}
	wg.Wait()
	now := p.cfg.Clock.Now()
	for _, a := range answers {
		if a.zone == "" || a.zone == p.cfg.Zone {
			continue
		}
		w := p.windows[a.zone]
		if w == nil {
			w = &window{}
			p.windows[a.zone] = w
		}
		w.add(a.trip)
		w.heard = now
	}
	maps.DeleteFunc(p.windows, func(_ string, w *window) bool { return now.Sub(w.heard) > forgetAfter })
}

// report writes what has changed, if anything has.
func (p *Prober) report(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		o, err := p.cfg.Store.Get(ctx, api.Key{Kind: api.KindZone, Name: p.cfg.Zone}, 0)
		if err != nil {
			return err
		}
		next := store.Clone(o.(*api.Zone))
		news := renewed(p.windows, next.Status.Measured, now)
		maps.DeleteFunc(news, func(to string, _ api.MeasuredLatency) bool { // a name that no zone has
			_, err := p.cfg.Store.Get(ctx, api.Key{Kind: api.KindZone, Name: to}, 0)
			return err != nil
		})
		if len(news) == 0 {
			return nil
		}
		measured := maps.Clone(next.Status.Measured)
		if measured == nil {
			measured = map[string]api.MeasuredLatency{}
		}
		maps.Copy(measured, news)
		next.Status.Measured = measured
		next.Meta.UpdatedAt = now
		_, err = p.cfg.Store.Commit(ctx, store.Txn{Ops: []store.Op{store.Update(next)}})
		if err == nil {
			p.written = now
		}
		if !fault.Is(err, fault.Conflict) {
			return err
		}
		select { // somebody was faster; the cache hears of it in a moment
		case <-ctx.Done():
			return ctx.Err()
		case <-p.cfg.Clock.After(50 * time.Millisecond):
		}
	}
}
