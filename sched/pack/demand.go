package pack

import (
	"cmp"
	"math/bits"
	"slices"
)

// Demand is what typically comes, learned from what was seen, and what the nodes are made of. Not
// safe for concurrent use; Score alone changes nothing.
type Demand struct {
	version uint64
	counts  map[key]int64
	total   int64 // of counts
	arrived int64 // ever
	next    int64 // arrived at which the mix is judged again
	makes   []variant
	built   int64 // devices of all makes, in thousandths
	moved   int64 // of them, come or gone since the last mix
	mix     []kind
	worth   []table // of a free share, per type; the last is of types nobody named
}

// key is an ask without its memory, comparable.
type key struct {
	cpu     int64
	devices int
	share   uint16
	types   string // two bytes a type
}

// variant is a number of nodes that are alike when empty.
type variant struct {
	room  Room
	nodes int64
}

// kind is one typical ask.
type kind struct {
	Ask
	weight int64
}

const (
	// firstMix arrivals are needed before anything counts as typical.
	firstMix = 16
	// memory is how many arrivals are remembered: beyond it all counts are halved.
	memory = 1 << 15
	// maxKinds are counted, and typical of them are looked at when judging a room.
	maxKinds   = 4096
	maxTypical = 128
	maxMakes   = 256
	// coverage is the part of all arrivals, in thousandths, that the typical kinds make up.
	coverage = 980
	// one is the weight of all arrivals together; scarcest bounds what scarcity multiplies.
	one      = 1 << 16
	scarcest = 64
)

// NewDemand knows nothing: until it has seen some asks, it packs by best fit.
func NewDemand() *Demand {
	d := &Demand{counts: map[key]int64{}, next: firstMix}
	d.publish()
	return d
}

// Version grows when scores should be thrown away: about twice per doubling of arrivals, later
// once per half of the memory, and when an eighth of the nodes came or went.
func (d *Demand) Version() uint64 { return d.version }

// See counts one arrival.
func (d *Demand) See(a Ask) {
	k := key{a.CPU, a.Devices, a.Share, ""}
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
		d.next = d.arrived + min(d.arrived, memory)/2
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
	i := slices.IndexFunc(d.makes, func(m variant) bool {
		return m.room.CPU == empty.CPU && m.room.Memory == empty.Memory && slices.Equal(m.room.Types, empty.Types)
	})
	switch {
	case i >= 0:
		d.makes[i].nodes += int64(n)
	case len(d.makes) < maxMakes:
		d.makes = append(d.makes, variant{empty, int64(n)})
	default:
		return // scarcity is an estimate; the first 256 makes are enough of a sample
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
	d.mix = d.mix[:0:0]
	keys := make([]key, 0, len(d.counts))
	for k := range d.counts {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b key) int {
		return cmp.Or(cmp.Compare(d.counts[b], d.counts[a]), cmp.Compare(a.cpu, b.cpu), cmp.Compare(a.devices, b.devices),
			cmp.Compare(a.share, b.share), cmp.Compare(a.types, b.types))
	})
	covered := int64(0)
	types := 0
	for _, k := range keys {
		if covered*1000 >= d.total*coverage || len(d.mix) == maxTypical {
			break
		}
		covered += d.counts[k]
		if k.devices == 0 {
			continue
		}
		t := kind{Ask: Ask{CPU: k.cpu, Devices: k.devices, Share: k.share}, weight: d.counts[k]}
		for i := 0; i < len(k.types); i += 2 {
			id := uint16(k.types[i])<<8 | uint16(k.types[i+1])
			t.Types = append(t.Types, id)
			types = max(types, int(id)+1)
		}
		d.mix = append(d.mix, t)
	}
	for i := range d.mix {
		d.mix[i].weight = d.mix[i].weight * one / covered
	}
	d.worth = make([]table, types+1)
	for id := range d.worth {
		d.worth[id] = worth(d.mix, id)
	}
	for i := range d.mix {
		d.mix[i].weight = d.scarcity(&d.mix[i])
	}
}

// scarcity is the weight of a kind, times all devices by those of nodes that fit it when empty.
func (d *Demand) scarcity(k *kind) int64 {
	var open int64
	for i := range d.makes {
		m := &d.makes[i]
		fits, usable := 0, int64(0)
		for _, t := range m.room.Types {
			if k.takes(t) {
				fits++
				usable += Whole
			}
		}
		if m.room.CPU >= k.CPU && fits >= k.Devices {
			open += usable * m.nodes
		}
	}
	if open <= 0 || d.built/open >= scarcest {
		return k.weight * min(scarcest, max(1, d.built))
	}
	hi, lo := bits.Mul64(uint64(k.weight), uint64(d.built))
	q, _ := bits.Div64(hi, lo, uint64(open))
	return int64(q)
}
