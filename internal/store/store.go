package store

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/run"
)

const (
	defaultPrefix = "/fermi/v1/"
	// callTimeout bounds every call to etcd whose caller set no earlier deadline. It is longer
	// than etcd's own 5 s and a bit, so that etcd's answer, which knows more, comes first.
	callTimeout = 8 * time.Second
	// freshTimeout is how long a read waits for the cache before it asks etcd itself.
	freshTimeout = time.Second
	sampleEvery  = 15 * time.Second
)

// Config is what a Store needs.
type Config struct {
	Client *clientv3.Client // to embedded or external etcd
	Prefix string           // "/fermi/v1/" when empty
	Log    *slog.Logger
	Clock  clock.Clock // of the maintenance schedule; waits for etcd use real time
	// QuotaBytes is etcd's limit, for the alarm at 70 %. 0: as etcd says, or unknown.
	QuotaBytes int64
	// DiskFree is asked before each write, which is refused while etcd can still live; nil: not
	// checked.
	DiskFree func() (uint64, error)
	Metrics  prometheus.Registerer // nil: not registered
	// LeaseSeconds is how long a leader that went silent stays the leader; 5 when 0. etcd's own least is
	// one and a half election timeouts, rounded up: 2 by default.
	LeaseSeconds int
}

// Store implements Reader and Writer. Reads and commits work before and without Run, but only
// Run fills the cache.
type Store struct {
	keyspace
	upkeep
	mirror
	election
	metrics *metrics
	// contacted is when the newest question was asked that the quorum answered and the cache caught up with.
	contacted atomic.Pointer[time.Time]
}

var (
	_ Reader = (*Store)(nil)
	_ Writer = (*Store)(nil)
)

// New makes a Store and starts nothing.
func New(cfg Config) *Store {
	w := keyspace{client: cfg.Client, prefix: cfg.Prefix, log: cfg.Log}
	if w.prefix == "" {
		w.prefix = defaultPrefix
	}
	if !strings.HasSuffix(w.prefix, "/") {
		w.prefix += "/"
	}
	if w.log == nil {
		w.log = slog.New(slog.DiscardHandler)
	}
	if cfg.LeaseSeconds == 0 {
		cfg.LeaseSeconds = leaseSeconds
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.Real
	}
	s := &Store{
		keyspace: w,
		upkeep:   upkeep{keyspace: w, clock: cfg.Clock, quota: cfg.QuotaBytes, diskFree: cfg.DiskFree, maintenance: defaultSchedule},
		mirror:   mirror{keyspace: w, cache: newCache(), ready: make(chan struct{}), ask: make(chan struct{}, 1), freshFor: freshTimeout},
		election: election{keyspace: w, lease: cfg.LeaseSeconds},
	}
	s.caughtUp = s.catchUp
	s.metrics = newMetrics(s, cfg.Metrics)
	return s
}

// Run feeds the cache until ctx ends. Losing etcd is no reason to return: it comes back.
func (s *Store) Run(ctx context.Context) error {
	var g run.Group
	g.Add("cache", s.feed)
	g.Add("sample", s.sample)
	g.Add("contact", s.contact)
	return g.Run(ctx)
}

// Ready is closed when the cache is filled for the first time.
func (s *Store) Ready() <-chan struct{} { return s.ready }

// sample keeps the gauge of the database's size fresh.
func (s *Store) sample(ctx context.Context) error {
	for {
		if _, _, err := s.Size(ctx); err != nil && ctx.Err() == nil {
			s.log.Debug("size of the store is unknown", "error", err)
		}
		if !wait(ctx, sampleEvery) {
			return nil
		}
	}
}

// wait is false when ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func raise(v *atomic.Int64, to int64) {
	for {
		was := v.Load()
		if to <= was || v.CompareAndSwap(was, to) {
			return
		}
	}
}
