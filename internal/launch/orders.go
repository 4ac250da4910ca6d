package launch

import (
	"sync"

	"github.com/fermi-cluster/fermi/internal/launch/bell"
	"github.com/fermi-cluster/fermi/internal/link"
)

// order is a generation, by the word of an epoch.
type order struct {
	epoch int64
	g     link.Generation
}

// orders keeps the newest order to start. What comes late, by a lower generation, is no order; a
// lower epoch did not get past the link.
type orders struct {
	wake chan struct{} // has one after each newer order

	mu     sync.Mutex
	newest *order
}

func newOrders() *orders { return &orders{wake: make(chan struct{}, 1)} }

func (o *orders) give(n order) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.newest == nil || n.g.Number > o.newest.g.Number {
		o.newest = &n
		bell.Ring(o.wake)
	}
}

// after is the newest order if its generation is above this one.
func (o *orders) after(generation int64) *order {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.newest == nil || o.newest.g.Number <= generation {
		return nil
	}
	return o.newest
}
