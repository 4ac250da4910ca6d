package cost

import (
	"slices"
)

// Sample is what a finished task of the same recipe showed: how much of its devices' power reached
// the work, in thousandths.
type Sample struct {
	Nodes       int
	Class       string // of latency between its zones
	Thousandths int
}

// scaling is the estimate for nodes of one region with no history; beyond the last row 2 points are
// lost with every doubling.
var scaling = []struct{ nodes, thousandths int }{{1, 1000}, {2, 900}, {4, 870}, {8, 850}}

const lostPerDoubling = 20

// Past these a crossing costs: half the work at 20 ms more than the bound of a near class, and less
// than a full link's worth of bandwidth.
const (
	freeMs      = 2.0
	halfMs      = 20.0
	fullGbps    = 100.0
	gbpsPenalty = 0.05
)

// Efficiency is the share of the devices' power that reaches the work, in thousandths, and on how many
// runs that was measured. With samples of the same number of nodes and class it is their median; with
// none it is the estimate, falling with latency and with bandwidth below a full link.
func Efficiency(nodes int, worst Latency, samples []Sample) (thousandths, runs int) {
	var seen []int
	class := ClassOf(worst.P50).Name
	for _, s := range samples {
		if s.Nodes == nodes && s.Class == class && s.Thousandths >= 0 && s.Thousandths <= 1000 {
			seen = append(seen, s.Thousandths)
		}
	}
	if len(seen) > 0 {
		slices.Sort(seen)
		return seen[(len(seen)-1)/2], len(seen)
	}
	e := float64(onNodes(nodes))
	if worst.P50 > freeMs {
		e *= halfMs / (halfMs + worst.P50 - freeMs)
	}
	if worst.Gbps > 0 && worst.Gbps < fullGbps {
		e /= 1 + float64((fullGbps/worst.Gbps-1)*gbpsPenalty) // the conversion keeps machines from fusing it
	}
	return int(e + 0.5), 0
}

// onNodes is the estimate within one region: straight between the rows of the table.
func onNodes(nodes int) int {
	for i, row := range scaling {
		if nodes <= row.nodes {
			if i == 0 {
				return row.thousandths
			}
			last := scaling[i-1]
			return last.thousandths - (last.thousandths-row.thousandths)*(nodes-last.nodes)/(row.nodes-last.nodes)
		}
	}
	last := scaling[len(scaling)-1]
	e, n := last.thousandths, last.nodes
	for ; n*2 <= nodes; n *= 2 {
		e -= lostPerDoubling
	}
	e -= lostPerDoubling * (nodes - n) / n
	return max(e, 100)
}
