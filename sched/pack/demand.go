package pack

import (
	"maps"
	"math/bits"
	"slices"
)

// Demand is what typically comes, learned from what was seen, and what the nodes are made of. Not
// safe for concurrent use, Score included: a snapshot that is judged elsewhere takes a Clone.
type Demand struct {
	tuning  Tuning
	version uint64
	counts  map[kind]int64
	total   int64 // of counts
	flow    flow
	sizes   [65]served // by how many whole devices are asked for
	prices  prices
	arrived int64 // ever
	next    int64 // arrived at which the mix is judged again
	builds  []build
	built   int64    // devices of all builds, in thousandths
	moved   int64    // of them, come or gone since the last mix
	named   []uint16 // the types that asks named, sorted
	mixes   []mix    // one per named type, and one of all other types
	memo    *memo
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
	// Living is by how much, in hundredths, both prices grow where all that comes finds room and goes again.
	Living int64
	// Refused is by how many thousandths a size weighs more for each thousandth of it that more often finds no room than all
	// that comes: so room for it is kept until it finds some as often as the others.
	Refused int64
	// Waking is the price, in thousandths of a device, of each device of a node on which nothing stands when one comes to it,
	// where nearly all that comes finds room and goes again. Where k stand already it is one k-plus-first of that: see wake.
	Waking int64
}

// prices are those of what is left free, as of the last mix.
type prices struct{ devices, cores, waking int64 }

// Default is what NewDemand uses.
func Default() Tuning {
	return Tuning{Depth: 2300, Scarcest: 8, Fullness: 1250, CoreFullness: 500, Living: 1000, Refused: 1600, Waking: 60}
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
	// memory is how many arrivals are remembered: beyond it all counts are halved.
	memory = 1 << 15
	// maxKinds and maxBuilds bound what is kept.
	maxKinds  = 4096
	maxBuilds = 256
	maxNamed  = 256
)

// NewDemand knows nothing: until it has seen some asks, it packs by best fit.
func NewDemand() *Demand { return Tuned(Default()) }

// Tuned is NewDemand with other constants.
func Tuned(t Tuning) *Demand {
	d := &Demand{tuning: t, counts: map[kind]int64{}, next: 1, memo: new(memo)}
	d.publish()
	return d
}

// Version grows when scores should be thrown away: with every eighth of the first thousand arrivals,
// then with every half more, at last once per half of the memory; and when an eighth of the nodes
// came or went.
func (d *Demand) Version() uint64 { return d.version }

// Clone is an independent copy.
func (d *Demand) Clone() *Demand {
	c := *d
	c.counts = maps.Clone(d.counts)
	c.builds = slices.Clone(d.builds)
	c.memo = new(memo) // what publish made is never changed, and may be shared
	return &c
}

// See counts one arrival.
func (d *Demand) See(a Ask) {
	k := kind{cpu: a.CPU, memory: a.Memory}
	if a.Devices > 0 {
		if a.Devices > 64 || a.Share == 0 || a.Share > Whole || a.Types != nil && len(a.Types) == 0 {
			return // never fits
		}
		k.devices, k.share = a.Devices, a.Share
		b := make([]byte, 0, 2*len(a.Types))
		for _, t := range a.Types {
			b = append(b, byte(t>>8), byte(t))
		}
		k.types = string(b)
	}
	d.counts[k]++
	d.flow.asked += int64(k.devices) * int64(k.share)
	if k.share == Whole {
		d.sizes[k.devices].asked++
	}
	d.total++
	d.arrived++
	if d.total >= memory || len(d.counts) > maxKinds {
		d.forget()
	}
	if d.arrived >= d.next {
		d.publish()
		d.next = d.arrived + pause(d.arrived)
	}
}

// pause is how many more arrivals the mix is kept for. The first matter most: a cluster packed
// blindly for its first few hundred asks never recovers.
func pause(arrived int64) int64 {
	if arrived < 1000 {
		return 1 + arrived/8
	}
	return min(arrived, memory) / 2
}

// flow is what came, found room and went lately, in thousandths of devices.
type flow struct{ asked, taken, gone int64 }

// mostRefused bounds what is made of it: where nothing finds room, nothing is to be kept.
const mostRefused = 100

// served is how many asks of a size came, and found room.
type served struct{ asked, taken int64 }

// Take counts thousandths of devices that one ask was given.
func (d *Demand) Take(devices int64) {
	d.flow.taken += devices
	if n := devices / Whole; devices%Whole == 0 && n < int64(len(d.sizes)) {
		d.sizes[n].taken++
	}
}

// Leave counts those that came back.
func (d *Demand) Leave(devices int64) { d.flow.gone += devices }

// refused is how many thousandths more of the asks of a kind's size found no room than of all that was asked.
func (d *Demand) refused(k *kind) int64 {
	if k.share < Whole || d.flow.asked <= 0 || d.sizes[k.devices].asked <= 0 {
		return 0
	}
	s := &d.sizes[k.devices]
	return max(0, min(1000*d.flow.taken/d.flow.asked-1000*s.taken/s.asked, mostRefused))
}

// life is how much all that comes finds room and goes again, in thousandths. A cluster that only fills, or that has to
// refuse much, is best off with the worth of what is left. One in which all finds room and goes again is best off with
// the fuller node: the emptier one will be empty soon. What is refused counts for 2 to the power of sharp as much.
func (d *Demand) life(sharp int) int64 {
	f := &d.flow
	if f.asked <= 0 || f.taken <= 0 {
		return 0
	}
	served := min(1000*f.taken/f.asked, 1000)
	for range sharp {
		served = served * served / 1000
	}
	return served * min(1000*f.gone/f.taken, 1000) / 1000
}

// forget halves every count, until there is room again.
func (d *Demand) forget() {
	for d.total >= memory || len(d.counts) > maxKinds {
		for i := range d.sizes {
			d.sizes[i] = served{d.sizes[i].asked / 2, d.sizes[i].taken / 2}
		}
		d.total, d.flow = 0, flow{d.flow.asked / 2, d.flow.taken / 2, d.flow.gone / 2}
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
	living := d.tuning.Living * d.life(3) / 1000 // to refuse a tenth is much
	d.prices = prices{
		d.tuning.Fullness * (100 + living) / 100, d.tuning.CoreFullness * (100 + living) / 100,
		d.tuning.Waking * d.life(5) / 1000, // to refuse a fortieth is much
	}
	d.named = d.names()
	d.mixes = make([]mix, len(d.named)+1)
	for k, n := range d.counts {
		if k.devices == 0 {
			continue
		}
		weight := max(1, n*one/d.total)
		scarce := d.scarcity(&k, weight)
		scarce += scarce * d.tuning.Refused * d.refused(&k) / 1000
		for i := range d.mixes {
			if k.types == "" || i < len(d.named) && k.takes(d.named[i]) {
				d.mixes[i].add(&k, weight, scarce)
			}
		}
	}
	for i := range d.mixes {
		d.mixes[i].settle()
	}
}

// names are the types that asks named, sorted; of very many the lowest.
func (d *Demand) names() []uint16 {
	all := map[uint16]bool{}
	for k := range d.counts {
		for i := 0; i < len(k.types); i += 2 {
			all[uint16(k.types[i])<<8|uint16(k.types[i+1])] = true
		}
	}
	sorted := slices.Sorted(maps.Keys(all))
	return sorted[:min(len(sorted), maxNamed)]
}

// mix of a type.
func (d *Demand) mix(id uint16) *mix {
	for i, named := range d.named {
		if named == id {
			return &d.mixes[i]
		}
	}
	return &d.mixes[len(d.mixes)-1]
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
