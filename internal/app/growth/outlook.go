package growth

import (
	"slices"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// Outlook is what is known of nodes that some work waits for.
type Outlook struct {
	Zone     string
	Replicas int
	Since    time.Time // when they were asked for
	Coming   int       // nodes that have come to the zone since, and are not ready yet
	Start    time.Time // when it is expected to start, by what such nodes took lately; zero: too few came so far
}

const (
	// fewest and most are of how many waits an estimate is made.
	fewest, most = 3, 15
)

// outlooks are of all that is asked for. Safe for concurrent use.
type outlooks struct {
	mu    sync.Mutex
	asked map[string]Outlook         // by the id of the work
	took  map[string][]time.Duration // from the question to the start, by zone, the newest last
}

// Expect is the outlook of some work; false: no nodes were asked for on its behalf.
func (g *Growth) Expect(id string) (Outlook, bool) {
	g.outlooks.mu.Lock()
	defer g.outlooks.mu.Unlock()
	o, ok := g.outlooks.asked[id]
	if ok {
		o.Start = g.outlooks.start(o)
	}
	return o, ok
}

// start is when nodes are there that were asked for, mu held.
func (b *outlooks) start(o Outlook) time.Time {
	list := b.took[o.Zone]
	if len(list) < fewest {
		return time.Time{}
	}
	list = slices.Clone(list)
	slices.Sort(list)
	return o.Since.Add(list[len(list)/2])
}

// settle takes what is asked for now: began says of work that is asked for no more whether it has a place, and since when. coming are the nodes of a zone that
// are not ready yet and came after a time.
func (b *outlooks) settle(list []asked, now time.Time, began func(id string) (time.Time, bool), coming func(zone string, since time.Time) int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := map[string]Outlook{}
	for _, a := range list {
		o, had := b.asked[a.work.Meta.ID]
		if !had || o.Zone != a.zone {
			o = Outlook{Zone: a.zone, Since: now}
		}
		o.Replicas, o.Coming = len(a.list), coming(a.zone, o.Since)
		next[a.work.Meta.ID] = o
	}
	for id, o := range b.asked {
		if _, still := next[id]; still {
			continue
		}
		if at, ok := began(id); ok && at.After(o.Since) {
			if b.took == nil {
				b.took = map[string][]time.Duration{}
			}
			took := append(b.took[o.Zone], at.Sub(o.Since))
			b.took[o.Zone] = took[max(0, len(took)-most):]
		}
	}
	b.asked = next
}

// isComing says of a node that it has come after a time, and is not ready yet.
func isComing(n *api.Node, zone string, since time.Time) bool {
	return n.Spec.Zone == zone && !n.Status.Ready && !n.Spec.Cordoned && !n.Spec.Lost && n.Meta.DeletedAt == nil && n.Meta.CreatedAt.After(since)
}
