package cost

import "time"

// Weigh is the weights of what a stay costs and of what it burns, each against the least there is. The zero
// value is the price alone.
type Weigh struct{ Price, Carbon int }

// Premiums are how many percent more a stay from one time to another costs or burns in each zone than where it is
// least, weighed; what can't be compared counts nothing. Less than one percent is none.
func Premiums(zones []*Zone, part Part, spot bool, weigh Weigh, from, to time.Time) []int64 {
	if weigh == (Weigh{}) {
		weigh.Price = 1
	}
	out := make([]int64, len(zones))
	for _, z := range zones {
		if z == nil {
			return out
		}
	}
	add := func(weight int, rate func(z *Zone) (Daily, bool)) {
		sums, least := make([]float64, len(zones)), 0.0
		for i, z := range zones {
			daily, ok := rate(z)
			if !ok || weight <= 0 {
				return
			}
			if sums[i] = float64(daily.Over(from, to).Nano()); i == 0 || sums[i] < least {
				least = sums[i]
			}
		}
		for i, sum := range sums {
			out[i] += int64(weight) * int64(100*(sum/max(least, 1)-1))
		}
	}
	add(weigh.Price, func(z *Zone) (Daily, bool) { return z.Daily(part, spot), z.Currency == zones[0].Currency })
	add(weigh.Carbon, func(z *Zone) (Daily, bool) { return z.Carbon(part) })
	return out
}
