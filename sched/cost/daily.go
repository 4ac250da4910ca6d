package cost

import (
	"math"
	"math/big"
	"math/bits"
	"slices"
	"time"
)

// Nano is billionths: of the currency, of a kWh or of a gram, by context an hour.
type Nano int64

// plus adds and stops at the largest amount: no sum of amounts is ever negative.
func (n Nano) plus(m Nano) Nano {
	if n > math.MaxInt64-m {
		return math.MaxInt64
	}
	return n + m
}

// times multiplies amounts of 0 or more and stops at the largest.
func times(a, b int64) Nano {
	hi, lo := bits.Mul64(uint64(max(a, 0)), uint64(max(b, 0)))
	if hi != 0 || lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return Nano(lo)
}

// Float is the amount in whole units, exact to a millionth: what people are shown.
func (n Nano) Float() float64 { return math.Round(float64(n)/1e3) / 1e6 }

// Sum is an amount over time, exact: billionths an hour, times nanoseconds. The zero value is none.
type Sum struct{ n *big.Int }

// Plus adds two sums.
func (s Sum) Plus(t Sum) Sum { return Sum{new(big.Int).Add(s.int(), t.int())} }

// Cmp orders sums.
func (s Sum) Cmp(t Sum) int { return s.int().Cmp(t.int()) }

// Nano is the sum rounded to billionths, half up.
func (s Sum) Nano() Nano {
	hour := big.NewInt(int64(time.Hour))
	n := new(big.Int).Add(s.int(), big.NewInt(int64(time.Hour)/2))
	if n.Div(n, hour); !n.IsInt64() {
		return math.MaxInt64
	}
	return Nano(n.Int64())
}

func (s Sum) int() *big.Int {
	if s.n == nil {
		return new(big.Int)
	}
	return s.n
}

const day = 24 * time.Hour

// Daily is an hourly rate that changes with the time of day, the same every day.
type Daily struct {
	offset time.Duration // of the zone's clock, east of UTC
	steps  []step        // by from; the first is at 0
}

type step struct {
	from time.Duration
	rate Nano
}

// clock splits a time into the day and the time of that day on the zone's clock.
func (d Daily) clock(t time.Time) (days int64, at time.Duration) {
	local := t.UTC().Add(d.offset)
	secs := local.Unix()
	days = secs / 86400
	if secs%86400 < 0 {
		days--
	}
	return days, time.Duration(secs-days*86400)*time.Second + time.Duration(local.Nanosecond())
}

// At is the rate at a time.
func (d Daily) At(t time.Time) Nano {
	_, at := d.clock(t)
	rate := Nano(0)
	for _, s := range d.steps {
		if s.from <= at {
			rate = s.rate
		}
	}
	return rate
}

// Over is the sum from one time to another; none when they are the wrong way round.
func (d Daily) Over(from, to time.Time) Sum {
	if !from.Before(to) {
		return Sum{}
	}
	return Sum{new(big.Int).Sub(d.since(to), d.since(from))}
}

// since is the sum from the first day of the calendar that computers know, 1970: whole days, and
// the day begun.
func (d Daily) since(t time.Time) *big.Int {
	days, at := d.clock(t)
	out := new(big.Int).Mul(big.NewInt(days), d.until(day))
	return out.Add(out, d.until(at))
}

// until is the sum from midnight to a time of day.
func (d Daily) until(at time.Duration) *big.Int {
	out, one := new(big.Int), new(big.Int)
	for i, s := range d.steps {
		end := day
		if i+1 < len(d.steps) {
			end = d.steps[i+1].from
		}
		if end = min(end, at); end > s.from {
			out.Add(out, one.Mul(big.NewInt(int64(s.rate)), big.NewInt(int64(end-s.from))))
		}
	}
	return out
}

// Over is the sum over all rates from one time to another.
func Over(from, to time.Time, rates ...Daily) Sum {
	var sum Sum
	for _, d := range rates {
		sum = sum.Plus(d.Over(from, to))
	}
	return sum
}

// Best finds when to start something of a length, no earlier than from and no later than latest, so
// that the sum over all rates is least; the earliest of equals. The sum as a function of the start
// is straight between the times where the start or the end meets a step: only those, and the two
// ends, are looked at.
func Best(from, latest time.Time, length time.Duration, rates ...Daily) (time.Time, Sum, bool) {
	if latest.Before(from) || length <= 0 {
		return time.Time{}, Sum{}, false
	}
	starts := Starts(from, latest, length, rates...)
	var start time.Time
	var least Sum
	for i, at := range starts {
		if sum := Over(at, at.Add(length), rates...); i == 0 || sum.Cmp(least) < 0 {
			start, least = at, sum
		}
	}
	return start, least, true
}

// manyDays is for how long rates that repeat every day are looked at.
const manyDays = 7

// Starts are the times, in order, at which the sum may begin to be less or more: where the start or the
// end meets a step, and the two ends.
func Starts(from, latest time.Time, length time.Duration, rates ...Daily) []time.Time {
	starts := []time.Time{from, latest}
	for _, d := range rates {
		for _, s := range d.steps {
			for _, shift := range []time.Duration{0, length} {
				at := d.next(from.Add(shift), s.from).Add(-shift)
				for days := 0; !at.After(latest) && days < manyDays; days++ {
					starts = append(starts, at)
					at = at.Add(day)
				}
			}
		}
	}
	slices.SortFunc(starts, time.Time.Compare)
	return slices.Compact(starts)
}

// next is the first time from t on at a time of day.
func (d Daily) next(t time.Time, at time.Duration) time.Time {
	_, now := d.clock(t)
	if at < now {
		at += day
	}
	return t.Add(at - now)
}
