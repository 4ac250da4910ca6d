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

	mu sync.Mutex
	by map[string]*serviceMeters
}

// serviceMeters are those of one service.
type serviceMeters struct {
	requests     *prometheus.CounterVec
	service      string
	open         prometheus.Gauge
	first        prometheus.Observer
	retries, cut prometheus.Counter
}

func newMeters(reg prometheus.Registerer) *meters {
	one := []string{"service"}
	m := &meters{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "fermi_gateway_requests_total", Help: "Requests to services, by status; 499: the client left."}, []string{"service", "code"}),
		first:    prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "fermi_gateway_first_byte_seconds", Help: "Time until the first byte of an answer.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 18)}, one),
		open:     prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "fermi_gateway_open_requests", Help: "Requests that wait or are being answered."}, one),
		retries:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "fermi_gateway_retries_total", Help: "Questions that were asked again of another replica."}, one),
		cut:      prometheus.NewCounterVec(prometheus.CounterOpts{Name: "fermi_gateway_cut_total", Help: "Answers that a service broke off."}, one),
		by:       map[string]*serviceMeters{},
	}
	if reg != nil {
		for _, c := range []prometheus.Collector{m.requests, m.first, m.open, m.retries, m.cut} {
			_ = reg.Register(c) // twice is the same process's second gateway, in tests
		}
	}
	return m
}

func (m *meters) of(service string) *serviceMeters {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.by[service]
	if s == nil {
		s = &serviceMeters{
			requests: m.requests, service: service, open: m.open.WithLabelValues(service), first: m.first.WithLabelValues(service),
			retries: m.retries.WithLabelValues(service), cut: m.cut.WithLabelValues(service),
		}
		m.by[service] = s
	}
	return s
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
}

func (s *serviceMeters) count(code int) {
	s.requests.WithLabelValues(s.service, strconv.Itoa(code)).Inc()
}

// pool lends the buffers that answers pass through.
type pool struct{ sync.Pool }

var buffers = pool{sync.Pool{New: func() any { b := make([]byte, 16<<10); return &b }}}

func (p *pool) Get() []byte  { return *p.Pool.Get().(*[]byte) }
func (p *pool) Put(b []byte) { p.Pool.Put(&b) }
