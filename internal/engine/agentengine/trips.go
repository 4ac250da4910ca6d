package agentengine

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// How far zones are apart is measured by their agents, also where no task runs over them: one agent of the one zone asks one of the other for a connection,
// some times, now and then. The leader says who asks whom, so that a hundred machines measure no more than two.

const (
	tripsEvery = 5 * time.Minute // of a pair of zones
	lookTrips  = 10 * time.Second
	mostTrips  = 8 // asked for in one look
	leastTrips = 5 // connections that say something
	longest    = 60_000
)

// Reach is a machine of another zone.
type Reach struct {
	Node    string `json:"node"`
	Address string `json:"address"` // host:port, where its agent listens
}

// Trip is how long connections to it took.
type Trip struct {
	Node    string  `json:"node"`
	P50Ms   float64 `json:"p50Ms"`
	P99Ms   float64 `json:"p99Ms"`
	Samples int     `json:"samples"`
}

// pair is two zones, the first by name first.
type pair struct{ a, b string }

// trips is who measured when. Its turns are the engine's Run's.
type trips struct {
	e      *Engine
	looked time.Time
	asked  map[pair]time.Time
	turns  int // so that not always the same two measure
}

// ask has agents measure pairs of zones whose time it is.
func (t *trips) ask(now time.Time) {
	e := t.e
	if e.cfg.Measured == nil || now.Sub(t.looked) < lookTrips {
		return
	}
	t.looked = now
	e.mu.Lock()
	defer e.mu.Unlock()
	zones := map[string][]*host{}
	for name, h := range e.hosts {
		if a := h.node.Status.Agent; h.now != nil && h.now.isWhole() && a != nil && a.Forward != "" {
			zone := e.joined[name].Spec.Zone
			zones[zone] = append(zones[zone], h)
		}
	}
	var due []pair
	for a := range zones {
		slices.SortFunc(zones[a], func(x, y *host) int { return cmp.Compare(x.name, y.name) })
		for b := range zones {
			if p := (pair{a, b}); a < b && now.Sub(t.asked[p]) >= tripsEvery {
				due = append(due, p)
			}
		}
	}
	slices.SortFunc(due, func(x, y pair) int {
		return cmp.Or(t.asked[x].Compare(t.asked[y]), cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b))
	})
	for _, p := range due[:min(len(due), mostTrips)] {
		t.asked[p] = now
		t.turns++
		from, to := zones[p.a][t.turns%len(zones[p.a])], zones[p.b][t.turns%len(zones[p.b])]
		if from.node.Status.BootID != "" && from.node.Status.BootID == to.node.Status.BootID {
			continue // one machine says nothing of the way between two
		}
		from.now.out.put(frame(0, kindProbe, []Reach{{to.name, to.node.Status.Agent.Forward}}))
	}
}

// took takes what an agent measured.
func (t *trips) took(h *host, body []byte) {
	e := t.e
	var list []Trip
	if json.Unmarshal(body, &list) != nil || e.cfg.Measured == nil {
		return
	}
	for _, m := range list[:min(len(list), mostTrips)] {
		e.mu.Lock()
		from, to := e.joined[h.name], e.joined[m.Node]
		e.mu.Unlock()
		if m.Samples < leastTrips || m.P50Ms <= 0 || m.P99Ms < m.P50Ms || m.P99Ms > longest || to.Meta.Name == "" || from.Meta.Name == "" || from.Spec.Zone == to.Spec.Zone {
			continue
		}
		e.cfg.Measured(from.Spec.Zone, to.Spec.Zone, api.MeasuredLatency{
			P50Ms: m.P50Ms, P99Ms: m.P99Ms, Samples: m.Samples, At: e.cfg.Clock.Now().Round(0).UTC(), FromNode: h.name, ToNode: m.Node,
		})
	}
}
