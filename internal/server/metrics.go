package server

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fermi-cluster/fermi/internal/server/rest"
)

// meters are the server's own metrics; without a registerer they are counted and not shown.
type meters struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	streams  prometheus.Gauge
}

func newMeters(reg prometheus.Registerer) *meters {
	m := &meters{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fermi_http_requests_total", Help: "Requests by route and status.",
		}, []string{"method", "route", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "fermi_http_seconds", Help: "Time to the end of the answer, streams left out.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"method", "route"}),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{Name: "fermi_http_streams", Help: "Streams open now."}),
	}
	if reg != nil {
		for _, c := range []prometheus.Collector{m.requests, m.seconds, m.streams} {
			_ = reg.Register(c) // a second server on one registry shares nothing, and that is fine
		}
	}
	return m
}

func (m *meters) count(rt *rest.Route, status int, took time.Duration) {
	m.requests.WithLabelValues(rt.Method, rt.Path, strconv.Itoa(status)).Inc()
	if rt.Media == "" {
		m.seconds.WithLabelValues(rt.Method, rt.Path).Observe(took.Seconds())
	}
}
