// Package distance says how far zones are from each other, and how long it takes to bring data from one to another.
//
// Place: layer 2, under sched. Promise: what both ends say counts, the worse of it; what nobody says is assumed. Enemies: a table that only
// one end has, zones that are not known.
package distance

import (
	"math"
	"slices"
	"time"

	"github.com/fermi-cluster/fermi/sched/gang"
	"github.com/fermi-cluster/fermi/sched/site"
)

// Far is the round trip from which on synchronous training is not cut over zones unless the workload says so itself.
const Far = 5 * time.Millisecond

// assumed where a pair of zones is in no table: near in one region, far otherwise.
const (
	assumedNear = time.Millisecond
	assumedFar  = 20 * time.Millisecond
)

// DefaultBandwidth is what is assumed of a link between zones that nobody declared, in bytes a second: 1 Gbit/s.
const DefaultBandwidth = 125_000_000

// Trip is the round trip between two zones: the worse of what their tables say.
func Trip(a, b *site.Zone) time.Duration {
	if a == b {
		return 0
	}
	there, ok1 := a.Latency[b.Name]
	back, ok2 := b.Latency[a.Name]
	switch {
	case ok1 || ok2:
		return max(there, back)
	case a.Region == b.Region:
		return assumedNear
	}
	return assumedFar
}

// Zones finds a zone by name; nil: it is not known.
type Zones func(name string) *site.Zone

// bandwidth is what a link carries, in bytes a second: the lesser of what both ends say.
func (zones Zones) bandwidth(from, to string) int64 {
	there, back := int64(0), int64(0)
	if z := zones(from); z != nil {
		there = z.Bandwidth[to]
	}
	if z := zones(to); z != nil {
		back = z.Bandwidth[from]
	}
	switch {
	case there <= 0 && back <= 0:
		return DefaultBandwidth
	case there <= 0 || back > 0 && back < there:
		return back
	}
	return there
}

// Moving is how long it takes to bring what a gang reads to a zone: one thing after the other, each from where the link is widest.
func (zones Zones) Moving(data []gang.Datum, to string) time.Duration {
	seconds := 0.0
	for _, d := range data {
		if slices.Contains(d.Zones, to) || d.Bytes <= 0 {
			continue
		}
		widest := int64(0)
		for _, from := range d.Zones {
			widest = max(widest, zones.bandwidth(from, to))
		}
		if widest == 0 { // it lies nowhere that is known
			widest = DefaultBandwidth
		}
		seconds += float64(d.Bytes) / float64(widest)
	}
	if seconds > math.MaxInt64/2/float64(time.Second) {
		return math.MaxInt64 / 2
	}
	return time.Duration(seconds * float64(time.Second))
}

// Nearest is the round trip to the nearest of some zones; none where none of them is known.
func (zones Zones) Nearest(from *site.Zone, names []string) time.Duration {
	best := time.Duration(-1)
	for _, name := range names {
		if z := zones(name); z != nil && (best < 0 || Trip(from, z) < best) {
			best = Trip(from, z)
		}
	}
	return max(best, 0)
}
