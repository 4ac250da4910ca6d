package pack

import (
	"math/bits"
	"slices"
)

// Demand is what typically comes, learned from what was seen, and what the nodes are made of. Not
// safe for concurrent use, Score included.
type Demand struct {
	tuning  Tuning
	version uint64
	counts  map[kind]int64
	total   int64 // of counts
	arrived int64 // ever
	next    int64 // arrived at which the mix is judged again
	builds  []build
	built   int64 // devices of all builds, in thousandths
	moved   int64 // of them, come or gone since the last mix
	mixes   []mix // per type; the last is of every type nobody named
	memo    memo
}

// Tuning are the constants of the judgement. One set serves all; it is a type so that a benchmark
// can show how little each matters.
type Tuning struct {
	// Depth is how many times over the CPU of a kind that has a node for itself may fall short
	// before the node loses worth, in thousandths: heavy asks are seldom alone on a node.
	Depth int64
	// Scarcest bounds the factor by which a kind weighs more because it fits few nodes.
	Scarcest int64
	// Fullness is the price, in thousandths of a thousandth, of each device left free: what
	// decides between places of nearly equal worth.
	Fullness int64
	// CoreFullness is the same of 16 cores.
	CoreFullness int64
}

// Default is what NewDemand uses.
func Default() Tuning {
	return Tuning{Depth: 2000, Scarcest: 64, Fullness: 1250, CoreFullness: 300}
}

// kind is an ask, comparable.
type kind struct {
	cpu, memory int64
	devices     int
	share       uint16
	types       string // two bytes a type; empty is any
}

func (k *kind) takes(id uint16) bool {
	for i := 0; i < len(k.types); i += 2 {
		if uint16(k.types[i])<<8|uint16(k.types[i+1]) == id {
			return true
		}
	}
	return k.types == ""
}

// build is a number of nodes that are alike when empty.
type build struct {
	room  Room
	nodes int64
}

const (
	// firstMix arrivals are needed before anything counts as typical.
	firstMix = 16
	// memory is how many arrivals are remembered: beyond it all counts are halved.
	memory = 1 << 15
	// maxKinds and maxBuilds bound what is kept.
	maxKinds  = 4096
	maxBuilds = 256
)

// NewDemand knows nothing: until it has seen some asks, it packs by best fit.
func NewDemand() *Demand { return Tuned(Default()) }

// Tuned is NewDemand with other constants.
func Tuned(t Tuning) *Demand {
	d := &Demand{tuning: t, counts: map[kind]int64{}, next: firstMix}
	d.publish()
	return d
}

// Version grows when scores should be thrown away: once per doubling of arrivals, later
// once per memory, and when an eighth of the nodes came or went.
func (d *Demand) Version() uint64 { return d.version }

// See counts one arrival.
func (d *Demand) See(a Ask) {
	k := kind{a.CPU, a.Memory, a.Devices, a.Share, ""}
	if a.Devices > 0 && a.Types != nil {
		b := make([]byte, 0, 2*len(a.Types))
		for _, t := range a.Types {
			b = append(b, byte(t>>8), byte(t))
		}
		k.types = string(b)
	}
	d.counts[k]++
	d.total++
	d.arrived++
	if d.total >= memory || len(d.counts) > maxKinds {
		d.forget()
	}
	if d.arrived >= d.next {
		d.publish()
		d.next = d.arrived + min(d.arrived, memory)
	}
}

// forget halves every count, until there is room again.
func (d *Demand) forget() {
	for d.total >= memory || len(d.counts) > maxKinds {
		d.total = 0
		for k, n := range d.counts {
			if n /= 2; n == 0 {
				delete(d.counts, k)
				continue
			}
			d.counts[k] = n
			d.total += n
		}
	}
}

// Have adds n nodes, or with a negative n takes them away, that are like empty when nothing runs
// on them. It is what makes scarcity known; without it every kind is taken to fit everywhere.
func (d *Demand) Have(empty Room, n int) {
	devices := Whole * int64(len(empty.Types)) * int64(n)
	i := slices.IndexFunc(d.builds, func(m build) bool {
		return m.room.CPU == empty.CPU && m.room.Memory == empty.Memory && slices.Equal(m.room.Types, empty.Types)
	})
	switch {
	case i >= 0:
		d.builds[i].nodes += int64(n)
	case len(d.builds) < maxBuilds:
		d.builds = append(d.builds, build{empty, int64(n)})
	default:
		return // scarcity is an estimate: the first builds are enough of a sample
	}
	d.built += devices
	d.moved += max(devices, -devices)
	if 8*d.moved >= d.built {
		d.publish()
	}
}

// publish makes what was seen so far the mix that Score judges by.
func (d *Demand) publish() {
	d.version++
	d.moved = 0
	d.memo = memo{}
	named := 0
	for k := range d.counts {
		for i := 0; i < len(k.types); i += 2 {
			named = max(named, 1+int(k.types[i])<<8|int(k.types[i+1]))
		}
	}
	d.mixes = make([]mix, named+1)
	for k, n := range d.counts {
		if k.devices == 0 {
			continue
		}
		weight := max(1, n*one/d.total)
		scarce := d.scarcity(&k, weight)
		for id := range d.mixes {
			if k.takes(uint16(id)) {
				d.mixes[id].add(&k, weight, scarce)
			}
		}
	}
	for id := range d.mixes {
		d.mixes[id].settle()
	}
}

// scarcity is the weight of a kind, times all devices by those of nodes that fit it when empty.
func (d *Demand) scarcity(k *kind, weight int64) int64 {
	if d.built <= 0 {
		return weight
	}
	var open int64
	for i := range d.builds {
		m := &d.builds[i]
		usable := int64(0)
		for _, t := range m.room.Types {
			if k.takes(t) {
				usable++
			}
		}
		if m.room.CPU >= k.cpu && m.room.Memory >= k.memory && usable >= int64(k.devices) {
			open += usable * Whole * m.nodes
		}
	}
	if open <= 0 || d.built/open >= d.tuning.Scarcest {
		return weight * d.tuning.Scarcest
	}
	hi, lo := bits.Mul64(uint64(weight), uint64(d.built))
	q, _ := bits.Div64(hi, lo, uint64(open))
	return int64(q)
}
