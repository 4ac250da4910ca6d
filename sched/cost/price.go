package cost

import (
	"math"
	"math/big"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// Part is what a task takes of one node, of one device type.
type Part struct {
	Zone, Node, Rack string
	Replicas         int
	CPU              api.MilliCPU
	Memory           api.Bytes
	DeviceType       string
	Devices          int
	Thousandths      int64 // of devices, all together
}

// Rate is what something costs an hour, by what is paid for.
type Rate struct {
	Devices, CPU, Memory Nano
}

// Total is all of it.
func (r Rate) Total() Nano { return r.Devices.plus(r.CPU).plus(r.Memory) }

// micro is a unit price in millionths; the rules of a zone let no finer one in.
func micro(price float64) int64 {
	if !(price > 0) {
		return 0
	}
	return int64(math.Round(min(price, 1e12) * 1e6))
}

// Rate is what a part costs an hour at a time, spot if the task may be preempted.
func (z *Zone) Rate(p Part, at time.Time, spot bool) Rate {
	return z.rate(p, z.factor(at), spot)
}

// rate scales the unit prices first, to a millionth, so that a price seen is the price paid.
func (z *Zone) rate(p Part, factor float64, spot bool) Rate {
	if spot && z.price.SpotFactor > 0 {
		factor *= z.price.SpotFactor
	}
	return Rate{
		Devices: times(p.Thousandths, micro(z.price.Device(p.DeviceType)*factor)),
		CPU:     times(int64(p.CPU), micro(z.price.Core()*factor)),
		Memory:  gib(p.Memory, micro(z.price.MemoryGBHour*factor)),
	}
}

// gib prices memory: bytes × millionths a GiB, in billionths, rounded.
func gib(b api.Bytes, unit int64) Nano {
	n := new(big.Int).Mul(big.NewInt(int64(max(b, 0))), big.NewInt(unit))
	n.Mul(n, big.NewInt(1000)).Add(n, big.NewInt(1<<29)).Rsh(n, 30)
	if !n.IsInt64() {
		return math.MaxInt64
	}
	return Nano(n.Int64())
}

// factor is that of the window at a time.
func (z *Zone) factor(at time.Time) float64 {
	_, clock := Daily{offset: z.offset}.clock(at)
	return z.factorAt(clock)
}

func (z *Zone) factorAt(clock time.Duration) float64 {
	for _, w := range z.windows {
		inside := clock >= w.from && clock < w.to
		if w.from > w.to { // over midnight
			inside = clock >= w.from || clock < w.to
		}
		if inside {
			return w.factor
		}
	}
	return 1
}

// Daily is what a part costs an hour, over the day.
func (z *Zone) Daily(p Part, spot bool) Daily {
	edges := []time.Duration{0}
	for _, w := range z.windows {
		edges = append(edges, w.from, w.to%day)
	}
	slices.Sort(edges)
	out := Daily{offset: z.offset}
	for _, at := range slices.Compact(edges) {
		out.steps = append(out.steps, step{at, z.rate(p, z.factorAt(at), spot).Total()})
	}
	return out
}
