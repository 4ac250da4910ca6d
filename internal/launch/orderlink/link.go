package orderlink

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/launch/retry"
	"github.com/fermi-cluster/fermi/internal/link"
)

// fileSpec is record.Spec as a server gave it.
const fileSpec = "spec.json"

// Config is what a launcher knows before it has asked anybody.
type Config struct {
	Dir       string // its own folder
	Replica   engine.Name
	Token     string
	Endpoints string // path of the file with the servers' targets
	Cache     string // as of record.Link
	Address   string // where others reach the machine, or the pod, that it is in; "": a server says so, or by the loopback
	Log       *slog.Logger
	Clock     clock.Clock // nil: the wall clock
}

// Link is the orders of a launcher that come over the link.
type Link struct {
	cfg   Config
	fetch func(ctx context.Context) ([]byte, error)

	mu    sync.Mutex
	epoch int64                   // the highest that was heard of
	stops map[int64]time.Duration // by epoch
}

// Open asks nobody yet. An error: the name is no replica's.
func Open(cfg Config) (*Link, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.Real
	}
	client, err := link.NewClient(link.ClientConfig{Name: cfg.Replica, Token: cfg.Token, Endpoints: cfg.Endpoints, Log: cfg.Log, Clock: cfg.Clock})
	if err != nil {
		return nil, err
	}
	return &Link{cfg: cfg, fetch: client.FetchSpec, stops: map[int64]time.Duration{}}, nil
}

// Spec is what a server says is to run. Without one that answers it waits.
func (l *Link) Spec() (engine.Replica, record.Link, error) {
	var s record.Spec
	kept, err := record.Read(l.cfg.Dir, fileSpec, &s)
	if err != nil || !kept {
		if s, err = l.Ask(); err != nil {
			return s.Replica, s.Link, err
		}
		if err := record.Write(l.cfg.Dir, fileSpec, s); err != nil {
			return s.Replica, s.Link, err
		}
	}
	s.Link.Endpoints, s.Link.Address, s.Link.Cache = l.cfg.Endpoints, cmp.Or(s.Link.Address, l.cfg.Address), l.cfg.Cache
	return s.Replica, s.Link, nil
}

// Ask is Spec as a server says it now.
func (l *Link) Ask() (s record.Spec, err error) {
	for pause := retry.First; ; pause = min(2*pause, retry.Most) {
		raw, err := l.fetch(context.Background())
		if err == nil {
			err = record.Decode(raw, &s)
		}
		if err == nil && s.Replica.Name != l.cfg.Replica {
			return s, fmt.Errorf("a server says that this is %q, not %q", s.Replica.Name, l.cfg.Replica)
		}
		if err == nil || link.Permanent(err) {
			return s, err
		}
		l.cfg.Log.Info("what is to run is not known yet; asking again", "error", err)
		<-l.cfg.Clock.After(pause)
	}
}

// Said is the newest go that was kept.
func (l *Link) Said() (said record.Go, ok bool, err error) {
	ok, err = record.Read(l.cfg.Dir, record.FileGo, &said)
	return said, ok, err
}

// Keep writes a go down, durably.
func (l *Link) Keep(said record.Go) error {
	l.lead(said.Epoch)
	return record.Write(l.cfg.Dir, record.FileGo, said)
}

// Epoch is the highest that was heard of.
func (l *Link) Epoch() (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epoch, nil
}

// Stop is the order of the leader of an epoch.
func (l *Link) Stop(epoch int64) (record.Stop, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	grace, ok := l.stops[epoch]
	return record.Stop{Grace: grace}, ok, nil
}

// AnyStop says that some leader, of whatever epoch, gave one.
func (l *Link) AnyStop() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.stops) > 0
}

func (l *Link) lead(epoch int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch = max(l.epoch, epoch)
}

func (l *Link) stop(epoch int64, grace time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stops[epoch] = grace
}

// Through notes what servers say on its way to the launcher. What a leader says whose epoch is over does not get past the link's client.
func (l *Link) Through(next link.Orders) link.Orders { return &listener{next, l} }

type listener struct {
	link.Orders
	l *Link
}

func (s *listener) Go(epoch int64, g link.Generation) {
	s.l.lead(epoch)
	s.Orders.Go(epoch, g)
}

func (s *listener) Stop(grace time.Duration) {
	epoch, _ := s.l.Epoch()
	s.l.stop(epoch, grace)
	s.Orders.Stop(grace)
}
