package gateway

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/gateway/gauge"
	"github.com/fermi-cluster/fermi/internal/gateway/wire"
)

const (
	// gaugeEvery is how often engines are asked how busy they are, gaugeFor how long one may take, gaugeFresh how long its word counts.
	gaugeEvery = time.Second
	gaugeFor   = time.Second
	gaugeFresh = 5 * time.Second
	// gaugesAtOnce bounds how many are asked side by side.
	gaugesAtOnce = 32
	// fullFrom is from where on a cache counts as full: what was read is dropped then, and answers are put off for others.
	fullFrom = 0.8
)

// said is an engine's own word.
type said struct {
	gauge.Load
	at time.Time
}

// cost is what an engine's own word adds to the requests that we know of: those that wait in it, also other gateways', and a cache so full that
// what it has seen is hardly worth more than nothing.
func (l *said) cost(now time.Time) float64 {
	if now.Sub(l.at) > gaugeFresh {
		return 0
	}
	return l.Waiting + missCosts*max(l.Held-fullFrom, 0)/(1-fullFrom)
}

// engines asks how busy they say they are.
type engines struct{ g *Gateway }

// run asks the engines of services by whose word replicas are chosen again and again, until ctx ends.
func (e engines) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.g.cfg.Clock.After(gaugeEvery):
		}
		e.look(ctx)
	}
}

// look asks each of them once.
func (e engines) look(ctx context.Context) {
	e.g.mu.RLock()
	var list []*service
	for _, s := range e.g.services {
		if s.settings().Engine != "" {
			list = append(list, s)
		}
	}
	e.g.mu.RUnlock()
	var wg sync.WaitGroup
	gate := make(chan struct{}, gaugesAtOnce)
	for _, s := range list {
		of := serving.GaugesOf(s.settings().Engine)
		if of == nil {
			continue // of a newer version than ours
		}
		s.mu.Lock()
		replicas := s.replicas // a new list is made when they change
		s.mu.Unlock()
		for _, r := range replicas {
			gate <- struct{}{}
			wg.Go(func() {
				defer func() { <-gate }()
				if l, ok := e.ask(ctx, r, of); ok {
					s.mu.Lock()
					r.said = said{l, s.clock.Now()}
					s.mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
}

// ask asks one replica.
func (e engines) ask(ctx context.Context, r *replica, of *serving.Gauges) (l gauge.Load, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, gaugeFor)
	defer cancel()
	if r.via != nil {
		ctx = context.WithValue(ctx, farReplica{}, r)
	}
	a, err := e.g.lines.Ask(ctx, r.way, &wire.Question{Method: http.MethodGet, Target: of.Path, Host: "localhost", Header: http.Header{}, Until: time.Now().Add(gaugeFor)})
	if err != nil {
		return l, false
	}
	defer a.Close()
	if a.Response.StatusCode != http.StatusOK {
		return l, false
	}
	return gauge.Read(a, of.Waiting, of.Held)
}
