package cost

import (
	"time"

	"github.com/fermi-cluster/fermi/api/v1/where"
)

// Stay is what is compared of one zone: what is known of it, and how far it is.
type Stay struct {
	Zone *Zone // nil: nothing is known
	Far  time.Duration
}

// Premiums are how many percent more a stay from one time to another costs, burns or loses in each zone than where
// that is least, weighed; what can't be compared counts nothing. Less than one percent is none. No weights are the
// price alone.
func Premiums(stays []Stay, part Part, spot bool, weigh where.Weights, from, to time.Time) []int64 {
	if weigh == (where.Weights{}) {
		weigh.Price = 1
	}
	out := make([]int64, len(stays))
	add := func(weight int, amount func(s Stay) (float64, bool)) {
		sums, least := make([]float64, len(stays)), 0.0
		for i, s := range stays {
			sum, ok := amount(s)
			if !ok || weight <= 0 {
				return
			}
			if sums[i] = sum; i == 0 || sum < least {
				least = sum
			}
		}
		for i, sum := range sums {
			out[i] += int64(weight) * int64(100*(sum/max(least, 1)-1))
		}
	}
	over := func(daily Daily, ok bool) (float64, bool) { return float64(daily.Over(from, to).Nano()), ok }
	add(weigh.Price, func(s Stay) (float64, bool) {
		if s.Zone == nil {
			return 0, false
		}
		return over(s.Zone.Daily(part, spot), s.Zone.Currency == stays[0].Zone.Currency)
	})
	add(weigh.Carbon, func(s Stay) (float64, bool) {
		if s.Zone == nil {
			return 0, false
		}
		return over(s.Zone.Carbon(part))
	})
	add(weigh.Latency, func(s Stay) (float64, bool) { return 1e6 * Slowed(s.Far), true })
	return out
}

// Slowed is by how much longer work takes whose parts are so far from each other: 1 is not at all.
func Slowed(far time.Duration) float64 {
	return 1 + max(float64(far)/float64(time.Millisecond)-freeMs, 0)/halfMs
}
