package gateway

import (
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// meters count what is carried, by service.
type meters struct {
	requests *prometheus.CounterVec // service, code
	first    *prometheus.HistogramVec
	open     *prometheus.GaugeVec
	retries  *prometheus.CounterVec
	cut      *prometheus.CounterVec
	tokens   *prometheus.CounterVec

	mu sync.Mutex
	by map[string]*serviceMeters
}

// serviceMeters are those of one service.
type serviceMeters struct {
	requests     *prometheus.CounterVec
	service      string
	open         prometheus.Gauge
	good         prometheus.Counter // of requests: 200
	first        prometheus.Observer
	retries, cut prometheus.Counter
	tokens       prometheus.Counter
}

func newMeters(reg prometheus.Registerer) *meters {
	one := []string{"service"}
	m := &meters{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "fermi_gateway_requests_total", Help: "Requests to services, by status; 499: the client left."}, []string{"service", "code"}),
		first:    prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "fermi_gateway_first_byte_seconds", Help: "Time until the first byte of an answer.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 18)}, one),
		open:     prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "fermi_gateway_open_requests", Help: "Requests that wait or are being answered."}, one),
		retries:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "fermi_gateway_retries_total", Help: "Questions that were asked again of another replica."}, one),
		cut:      prometheus.NewCounterVec(prometheus.CounterOpts{Name: "fermi_gateway_cut_total", Help: "Answers that a service broke off."}, one),
		tokens:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "fermi_gateway_tokens_total", Help: "Tokens that answers say they took; of streams that say nothing, their events."}, one),
		by:       map[string]*serviceMeters{},
	}
	if reg != nil {
		for _, c := range []prometheus.Collector{m.requests, m.first, m.open, m.retries, m.cut, m.tokens} {
			_ = reg.Register(c) // twice is the same process's second gateway, in tests
		}
	}
	return m
}

func (m *meters) of(s *service) *serviceMeters {
	if known := s.meters.Load(); known != nil {
		return known
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	one := m.by[s.name]
	if one == nil {
		one = &serviceMeters{
			requests: m.requests, service: s.name, good: m.requests.WithLabelValues(s.name, "200"), open: m.open.WithLabelValues(s.name), first: m.first.WithLabelValues(s.name),
			retries: m.retries.WithLabelValues(s.name), cut: m.cut.WithLabelValues(s.name), tokens: m.tokens.WithLabelValues(s.name),
		}
		m.by[s.name] = one
	}
	s.meters.Store(one)
	return one
}

// forget drops what is counted of a service that is gone.
func (m *meters) forget(service string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.by, service)
	m.requests.DeletePartialMatch(prometheus.Labels{"service": service})
	m.first.DeleteLabelValues(service)
	m.open.DeleteLabelValues(service)
	m.retries.DeleteLabelValues(service)
	m.cut.DeleteLabelValues(service)
	m.tokens.DeleteLabelValues(service)
}

func (s *serviceMeters) count(code int) {
	if code == 200 { // most are
		s.good.Inc()
		return
	}
	s.requests.WithLabelValues(s.service, strconv.Itoa(code)).Inc()
}
