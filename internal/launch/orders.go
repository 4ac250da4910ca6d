package launch

import (
	"sync"

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
		poke(o.wake)
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

func poke(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// reserve takes a port for the next generation.
func (l *launcher) reserve() (err error) {
	l.next, err = reservePort()
	return err
}

// reserveFirst takes the ports a launcher begins with: one that stays, one for the first generation.
func (l *launcher) reserveFirst() (err error) {
	if l.serve, err = reservePort(); err != nil {
		return err
	}
	return l.reserve()
}

// takePort makes the reserved port the generation's and reserves another for the next. Of a generation
// that is begun a second time it stays.
func (l *launcher) takePort(generation int64) error {
	if l.ported == generation {
		return nil
	}
	l.last.free()
	l.last, l.ported = l.next, generation
	return l.place.space.Do(l.reserve)
}

// reserveOwn takes the ports that the processes of a recipe are known by. They stay the same in every
// generation: who dies leaves them, and who comes next binds them again.
func (l *launcher) reserveOwn() error {
	if l.replica.Recipe == nil {
		return nil
	}
	for range l.replica.Recipe.Ports {
		r, err := reservePort()
		if err != nil {
			return err
		}
		l.own = append(l.own, r)
	}
	return nil
}

func (l *launcher) freePorts() {
	l.last.free()
	l.next.free()
	l.serve.free()
	for _, r := range l.own {
		r.free()
	}
}
