package store

import (
	"github.com/prometheus/client_golang/prometheus"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

type metrics struct {
	commits *prometheus.CounterVec
	seconds prometheus.Histogram
}

func newMetrics(s *Store, reg prometheus.Registerer) *metrics {
	m := &metrics{
		commits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fermi_store_commits_total", Help: "Transactions by outcome: ok, or the reason of the fault.",
		}, []string{"outcome"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "fermi_store_commit_seconds", Help: "Time of a transaction, the disk included.",
			Buckets: prometheus.ExponentialBuckets(0.0002, 2.5, 11),
		}),
	}
	if reg == nil {
		return m
	}
	all := []prometheus.Collector{m.commits, m.seconds,
		gauge("fermi_store_cache_revision_lag", "Newest revision heard of, less the cache's.", nil, func() float64 {
			return float64(max(0, s.known.Load()-s.cache.at()))
		}),
		gauge("fermi_store_db_bytes", "Size of etcd's database.", nil, func() float64 { return float64(s.dbSize.Load()) }),
	}
	for _, row := range api.Kinds {
		all = append(all, gauge("fermi_store_cache_objects", "Objects in the cache.",
			prometheus.Labels{"kind": string(row.Kind)}, func() float64 { return float64(s.cache.count(row.Kind)) }))
	}
	for _, c := range all {
		if err := reg.Register(c); err != nil {
			s.log.Warn("a metric of the store is not registered", "error", err)
		}
	}
	return m
}

func gauge(name, help string, labels prometheus.Labels, value func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, value)
}

func (m *metrics) commit(seconds float64, err error) {
	outcome := "ok"
	if err != nil {
		outcome = fault.ReasonOf(err)
	}
	m.commits.WithLabelValues(outcome).Inc()
	m.seconds.Observe(seconds)
}
