package launch

import (
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/internal/launch/bell"
	"github.com/fermi-cluster/fermi/internal/launch/inspect"
	"github.com/fermi-cluster/fermi/internal/launch/keeper"
	"github.com/fermi-cluster/fermi/internal/launch/rankset"
	"github.com/fermi-cluster/fermi/internal/link"
)

// order is a generation, by the word of an epoch.
type order struct {
	epoch int64
	g     link.Generation
}

// inbox keeps the newest order to start. What comes late, by a lower generation, is no order; a
// lower epoch did not get past the link.
type inbox struct {
	wake chan struct{} // has one after each newer order

	mu     sync.Mutex
	newest *order
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

func (o *inbox) give(n order) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.newest == nil || n.g.Number > o.newest.g.Number {
		o.newest = &n
		bell.Ring(o.wake)
	}
}

// after is the newest order if its generation is above this one.
func (o *inbox) after(generation int64) *order {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.newest == nil || o.newest.g.Number <= generation {
		return nil
	}
	return o.newest
}

// commands are the leader's words, from the link, for the loop that runs generations.
type commands struct {
	inbox     *inbox
	stop      *stopper
	probes    chan link.Probe // one at a time
	rehearsal inspect.Rehearsal
	ranks     *rankset.Set
	saves     *keeper.Keeper
}

// newCommands gets its ranks and saves before the link runs.
func newCommands(stop *stopper) *commands {
	return &commands{inbox: newInbox(), stop: stop, probes: make(chan link.Probe, 1)}
}

// Go is the leader's word, from the link.
func (c *commands) Go(epoch int64, g link.Generation) {
	if g.Preflight != nil {
		c.rehearsal.Begin(*g.Preflight)
		return
	}
	c.saves.Meet(g)
	c.inbox.give(order{epoch, g})
	c.ranks.Order(g)
}

// Watermark is the leader's word, from the link.
func (c *commands) Watermark(w link.Watermark) { c.saves.Watermark(w) }

// Stop is the leader's order, from the link.
func (c *commands) Stop(grace time.Duration) { c.stop.ask(grace) }

// Probe is the leader's word, from the link. The warden answers it.
func (c *commands) Probe(p link.Probe) {
	select {
	case c.probes <- p:
	default: // one at a time is enough: who asks too often hears nothing
	}
}

// wants says that a generation is still to be begun: no stop, and no newer one.
func (c *commands) wants(generation int64) bool {
	_, asked := c.stop.Wish()
	return !asked && !c.stop.Look() && c.inbox.after(generation) == nil
}
