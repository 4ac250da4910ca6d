package sched

import (
	"time"

	"github.com/fermi-cluster/fermi/sched/cost"
)

// unknownStay is for how long a stay is priced whose length nobody said.
const unknownStay = time.Hour

// dearer is how much dearer a stay is in each zone than where it is least; nil where all are alike, or the
// gang wants several.
func dearer(zones []*zone, c *Cluster, w *Workload) map[*zone]int64 {
	if !c.market.differ || len(zones) < 2 || w.Topology.Spread || len(w.Split) > 0 {
		return nil
	}
	costs := make([]*cost.Zone, len(zones))
	for i, z := range zones {
		costs[i] = z.Cost
	}
	sums := cost.Premiums(costs, zones[0].part(w, 1), w.Preemptible, w.Weigh, c.market.now, c.market.now.Add(max(w.Expected, unknownStay)))
	out := map[*zone]int64{}
	for i, z := range zones {
		out[z] = sums[i]
	}
	return out
}

// differ says that some zones ask other prices than others, or burn more.
func differ(zones []*zone) bool {
	for _, z := range zones {
		if !zones[0].Cost.SameRates(z.Cost) {
			return true
		}
	}
	return false
}
