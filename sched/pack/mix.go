package pack

import (
	"cmp"
	"slices"
)

const (
	// fine is how many parts a thousandth of a device is counted in.
	fine = 16
	// one is the weight of all arrivals together.
	one = 1 << 16
)

// mix is what is asked of one type of device.
type mix struct {
	groups []group // by share, then devices
	// worth of a free share of one device, in fine parts of a thousandth: what the next ask, by
	// its weight, would use of it, and what would then still be used beside it.
	worth  [Whole + 1]int64
	shares [Whole + 1]int64 // weight of each share, scarcity left out
}

// group is the kinds that differ only in CPU, memory and the other types they would take.
type group struct {
	share   uint16
	devices int64
	kinds   []need // by CPU
}

// need is what one kind needs beside its devices, at least 1 of each.
type need struct{ cpu, memory, weight int64 }

func (m *mix) add(k *kind, weight, scarce int64) {
	m.shares[k.share] += weight
	i := slices.IndexFunc(m.groups, func(g group) bool { return g.share == k.share && g.devices == int64(k.devices) })
	if i < 0 {
		i = len(m.groups)
		m.groups = append(m.groups, group{share: k.share, devices: int64(k.devices)})
	}
	g := &m.groups[i]
	g.kinds = append(g.kinds, need{max(1, k.cpu), max(1, k.memory), scarce})
}

// settle orders what was added and sums it up. The order of adding leaves no trace.
func (m *mix) settle() {
	slices.SortFunc(m.groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(a.share, b.share), cmp.Compare(a.devices, b.devices))
	})
	for i := range m.groups {
		g := &m.groups[i]
		slices.SortFunc(g.kinds, func(a, b need) int {
			return cmp.Or(cmp.Compare(a.cpu, b.cpu), cmp.Compare(a.memory, b.memory), cmp.Compare(a.weight, b.weight))
		})
	}
	var asked []int
	for s, weight := range m.shares {
		if weight > 0 {
			asked = append(asked, s)
		}
	}
	for r := 1; r <= Whole; r++ {
		for _, s := range asked {
			if s > r {
				break
			}
			m.worth[r] += m.shares[s] * (int64(s)*fine + m.worth[r-s])
		}
		m.worth[r] = min(m.worth[r]/one, int64(r)*fine) // rounding up rare kinds may make weights more than one
	}
}

// level is a number of devices of one type that are equally free.
type level struct {
	free, id uint16
	devices  int32
}

// levels of a room after share is taken of each of devices; those with nothing free are left out.
func levels(r *Room, devices uint64, share uint16, into []level) []level {
next:
	for d, free := range r.Free {
		if devices>>d&1 == 1 {
			free -= share
		}
		free = min(free, Whole)
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

// memo remembers the worth of rooms: many nodes are alike, and each is looked at for many asks.
// An entry holds all of its key, so that it changes how long an answer takes, never the answer.
type memo [1 << 13]struct {
	cpu, memory, worth int64
	version            uint64
	levels             int
	free               [6]level
}

// worth of a room with this CPU, this memory and these levels.
func (d *Demand) worth(cpu, memory int64, free []level) int64 {
	if len(free) == 0 {
		return 0
	}
	if len(free) > len(d.memo[0].free) {
		return d.judge(cpu, memory, free)
	}
	h := uint64(cpu) ^ uint64(memory)*0x9e3779b97f4a7c15
	for _, l := range free {
		h = (h ^ uint64(l.free)<<40 ^ uint64(l.id)<<20 ^ uint64(l.devices)) * 0x9e3779b97f4a7c15
	}
	e := &d.memo[h>>(64-13)]
	if e.version != d.version || e.levels != len(free) || e.cpu != cpu || e.memory != memory || !slices.Equal(e.free[:len(free)], free) {
		e.version, e.cpu, e.memory, e.levels, e.worth = d.version, cpu, memory, len(free), d.judge(cpu, memory, free)
		copy(e.free[:], free)
	}
	return e.worth
}

// judge is worth, type by type.
func (d *Demand) judge(cpu, memory int64, free []level) int64 {
	var sum int64
	for i, l := range free {
		if !slices.ContainsFunc(free[:i], func(o level) bool { return o.id == l.id }) {
			sum += d.mix(l.id).of(cpu, memory, free[i:], l.id, d.tuning.Depth)
		}
	}
	return sum
}

// of is the worth of the levels of one type: for each group what of them it could use, times the
// weight of those of it whose CPU and memory are there.
func (m *mix) of(cpu, memory int64, free []level, id uint16, depth int64) int64 {
	var sum int64
	most := uint16(0)
	for _, l := range free {
		if l.id == id {
			most = max(most, l.free)
		}
	}
	for i := range m.groups {
		g := &m.groups[i]
		if g.share > most {
			break
		}
		var slots, used int64
		for _, l := range free {
			if l.free >= g.share && l.id == id {
				slots += int64(l.devices) * int64(l.free/g.share)
				used += int64(l.devices) * (int64(g.share)*fine + m.worth[l.free-g.share])
			}
		}
		if slots < g.devices {
			continue
		}
		if g.devices > 1 {
			used = used * (slots / g.devices * g.devices) / slots
			slots /= g.devices
		}
		sum += used * g.deep(cpu, memory, slots, depth) / 1000
	}
	return sum
}

// deep is the weight of a group, in thousandths of it: of each kind the part of the slots that CPU
// and memory last for, times depth, at most all.
func (g *group) deep(cpu, memory, slots, depth int64) int64 {
	var sum int64
	for i := range g.kinds {
		k := &g.kinds[i]
		if k.cpu > cpu {
			break
		}
		if k.memory > memory {
			continue
		}
		n := min(cpu/k.cpu, memory/k.memory, slots) * depth
		sum += k.weight * min(1000, n/slots)
	}
	return sum
}

// Score says how good it is to put a on r: larger is better; which devices it would take; ok is
// false when it does not fit. Equal scores are equally good, whichever is taken.
func (d *Demand) Score(r *Room, a *Ask) (score int64, devices uint64, ok bool) {
	var some [16]level
	var before int64
	choices(r, a, func(try uint64) {
		if !ok {
			before = d.worth(r.CPU, r.Memory, levels(r, 0, 0, some[:0]))
		}
		left := levels(r, try, a.Share, some[:0])
		s := d.worth(r.CPU-a.CPU, r.Memory-a.Memory, left) - before - d.fullness(r.CPU-a.CPU, left) - d.wake(r)
		if !ok || s > score {
			score, devices, ok = s, try, true
		}
	})
	return score, devices, ok
}

// fullness is the small price of what is left, so that nearly equal worth goes to the fuller node.
func (d *Demand) fullness(cpu int64, free []level) int64 {
	var sum int64
	for _, l := range free {
		sum += int64(l.devices) * int64(l.free)
	}
	return one * fine * ((sum*d.prices.devices + min(cpu, 1<<30)/16*d.prices.cores) / 1000) / 1000
}

// wake is what one more costs that comes to a node beside those that stand there: the node is empty later. Of k that end at random
// times the last ends after 1 + 1/2 + ... + 1/k of their usual time, so the first that comes costs most, and the next one half of it.
func (d *Demand) wake(r *Room) int64 {
	return one * fine * d.prices.waking * int64(len(r.Types)) / (max(r.Standing, 0) + 1)
}
