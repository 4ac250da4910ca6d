package pack

import "math"

// fine is how many parts a thousandth of a device is counted in.
const fine = 16

// table is the worth of a free share of a device, in fine parts of a thousandth.
type table [Whole + 1]int64

// worth of each free share of a device of one type: what the next ask, by its weight, would use
// of it and what would still be used beside it; an ask that does not fit ends it.
func worth(mix []kind, id int) (v table) {
	var q [Whole + 1]int64
	for i := range mix {
		if mix[i].takes(uint16(id)) {
			q[mix[i].Share] += mix[i].weight
		}
	}
	for r := 1; r <= Whole; r++ {
		for s := 1; s <= r; s++ {
			if q[s] > 0 {
				v[r] += q[s] * (int64(s)*fine + v[r-s])
			}
		}
		v[r] /= one
	}
	return v
}

// level is a number of devices of one type that are equally free.
type level struct {
	free, id uint16
	devices  int64
}

// levels of a room after share is taken of each of devices; those with nothing free are left out.
func levels(r *Room, devices uint64, share uint16, into []level) []level {
next:
	for d, free := range r.Free {
		if devices>>d&1 == 1 {
			free -= share
		}
		if free == 0 {
			continue
		}
		for i := range into {
			if into[i].free == free && into[i].id == r.Types[d] {
				into[i].devices++
				continue next
			}
		}
		into = append(into, level{free, r.Types[d], 1})
	}
	return into
}

// depth is how often the CPU may fall short of the slots that devices offer before the node loses
// worth, in halves: a kind heavy on CPU is seldom alone on a node.
const depth = 5

// worth of a room with this CPU and these levels.
func (d *Demand) worthOf(cpu int64, free []level) int64 {
	var sum int64
	for i := range d.mix {
		k := &d.mix[i]
		if cpu < k.CPU {
			continue
		}
		share := int64(k.Share)
		var slots, used int64
		for _, l := range free {
			if l.free < k.Share || !k.takes(l.id) {
				continue
			}
			slots += l.devices * (int64(l.free) / share)
			used += l.devices * (share*fine + d.worth[min(int(l.id), len(d.worth)-1)][l.free-k.Share])
		}
		n := int64(k.Devices)
		if slots < n {
			continue
		}
		if n > 1 {
			used = used * (slots / n * n) / slots
			slots /= n
		}
		if k.CPU > 0 {
			if deep := cpu / k.CPU * depth; deep < 2*slots {
				used = used * deep / (2 * slots)
			}
		}
		sum += k.weight * used
	}
	return sum
}

// Score says how good it is to put a on r: larger is better; which devices it would take; ok is
// false when it does not fit. Equal scores are equally good, whichever is taken.
func (d *Demand) Score(r *Room, a *Ask) (score int64, devices uint64, ok bool) {
	var some [16]level
	before := int64(math.MinInt64)
	choices(r, a, func(try uint64) {
		if before == math.MinInt64 {
			before = d.worthOf(r.CPU, levels(r, 0, 0, some[:0]))
		}
		left := levels(r, try, a.Share, some[:0])
		s := d.worthOf(r.CPU-a.CPU, left) - before - fullness(r.CPU-a.CPU, left)
		if !ok || s > score {
			score, devices, ok = s, try, true
		}
	})
	return score, devices, ok
}

// fullness is the small price of what is left, so that equal worth goes to the fuller node: an
// eightieth of a thousandth of a device per core, and of a hundredth of a device.
func fullness(cpu int64, free []level) int64 {
	var sum int64
	for _, l := range free {
		sum += l.devices * int64(l.free)
	}
	return one * fine * (sum + cpu/16) / 800
}
