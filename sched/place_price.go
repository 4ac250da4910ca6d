package sched

import (
	"slices"
	"time"

	"github.com/fermi-cluster/fermi/sched/cost"
	"github.com/fermi-cluster/fermi/sched/distance"
)

// unknownStay is for how long a stay is priced whose length nobody said.
const unknownStay = time.Hour

// dearer is how much worse a stay is in each zone than where it is best, by what the gang weighs; nil where all
// are alike, or the gang wants several.
func dearer(zones []*zone, c *Cluster, w *Workload) map[*zone]int64 {
	far := w.Weigh.Latency > 0 && len(w.Data) > 0
	if !c.market.differ && !far || len(zones) < 2 || w.Topology.Spread || len(w.Split) > 0 {
		return nil
	}
	stays := make([]cost.Stay, len(zones))
	for i, z := range zones {
		stays[i].Zone = z.Cost
		for _, d := range w.Data {
			stays[i].Far = max(stays[i].Far, distance.Zones(c.zones.known).Nearest(&z.Zone, d.Zones))
		}
	}
	sums := cost.Premiums(stays, zones[0].part(w, 1), w.Preemptible, w.Weigh, c.market.now, c.market.now.Add(max(w.Expected, unknownStay)))
	out := map[*zone]int64{}
	for i, z := range zones {
		out[z] = sums[i]
	}
	return out
}

// differ says that some zones ask other prices than others, or burn more.
func differ(zones []*zone) bool {
	return slices.ContainsFunc(zones, func(z *zone) bool { return !zones[0].Cost.SameRates(z.Cost) })
}

// premium is how much worse several zones are together than the best one: on average, and by their distance.
func (w *Workload) premium(set []*zone, dear map[*zone]int64, worst time.Duration) int64 {
	sum := int64(0)
	for _, z := range set {
		sum += dear[z]
	}
	return sum/int64(len(set)) + int64(float64(w.Weigh.Latency)*100*(cost.Slowed(worst)-1))
}
