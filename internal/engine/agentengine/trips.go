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

// trips is who measured when. It is one goroutine's.
type trips struct {
	looked time.Time
	asked  map[pair]time.Time
	turns  int // so that not always the same two measure
}

// time says that it is time to look.
func (t *trips) time(now time.Time) bool {
	if now.Sub(t.looked) < lookTrips {
		return false
	}
	t.looked = now
	return true
}

// station is a machine that can measure, and be measured.
type station struct{ name, zone, boot, address string }

// stations are those that are attached now, by zone.
func stations(hosts map[string]*host, joined map[string]api.Node) map[string][]station {
	out := map[string][]station{}
	for name, h := range hosts {
		if a := h.node.Status.Agent; h.now != nil && h.now.isWhole() && a != nil && a.Forward != "" {
			zone := joined[name].Spec.Zone
			out[zone] = append(out[zone], station{name, zone, h.node.Status.BootID, a.Forward})
		}
	}
	for _, list := range out {
		slices.SortFunc(list, func(x, y station) int { return cmp.Compare(x.name, y.name) })
	}
	return out
}

// due says who asks whom now, of pairs of zones whose time it is.
func (t *trips) due(now time.Time, zones map[string][]station) map[string]Reach {
	var due []pair
	for a := range zones {
		for b := range zones {
			if p := (pair{a, b}); a < b && now.Sub(t.asked[p]) >= tripsEvery {
				due = append(due, p)
			}
		}
	}
	slices.SortFunc(due, func(x, y pair) int {
		return cmp.Or(t.asked[x].Compare(t.asked[y]), cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b))
	})
	out := map[string]Reach{}
	for _, p := range due[:min(len(due), mostTrips)] {
		t.turns++
		from, to := zones[p.a][t.turns%len(zones[p.a])], zones[p.b][t.turns%len(zones[p.b])]
		if _, busy := out[from.name]; busy {
			continue // the next time
		}
		t.asked[p] = now
		if from.boot == "" || from.boot != to.boot { // one machine says nothing of the way between two
			out[from.name] = Reach{to.name, to.address}
		}
	}
	return out
}

// found is what an agent measured.
type found struct {
	from, to string // zones
	api.MeasuredLatency
}

// readTrips is what the agent of a node says it measured, without what can't be.
func readTrips(body []byte, joined map[string]api.Node, node string, now time.Time) (out []found) {
	var list []Trip
	if json.Unmarshal(body, &list) != nil {
		return nil
	}
	from, ok := joined[node]
	for _, t := range list[:min(len(list), mostTrips)] {
		to, known := joined[t.Node]
		if !ok || !known || from.Spec.Zone == to.Spec.Zone || t.Samples < leastTrips || t.P50Ms <= 0 || t.P99Ms < t.P50Ms || t.P99Ms > longest {
			continue
		}
		out = append(out, found{from.Spec.Zone, to.Spec.Zone, api.MeasuredLatency{
			P50Ms: t.P50Ms, P99Ms: t.P99Ms, Samples: t.Samples, At: now.Round(0).UTC(), FromNode: node, ToNode: t.Node,
		}})
	}
	return out
}
