package room

import (
	"github.com/fermi-cluster/fermi/api/v1/spot"
	"github.com/fermi-cluster/fermi/sched/pack"
)

// Key is one replica's wish with its type settled: what indexes are kept by.
type Key struct {
	CPU     int64 // milli-cores
	Memory  int64 // bytes, as Disk
	Disk    int64
	Devices int16
	Share   uint16
	Kind    int32 // type id; -1 is any
	Strict  bool  // nodes that failed recently are left out
	Spot    spot.Rule
}

// Ask is what a replica takes, but for the disk.
func (k *Key) Ask() pack.Ask {
	a := pack.Ask{CPU: k.CPU, Memory: k.Memory, Devices: int(k.Devices), Share: k.Share}
	if k.Kind >= 0 {
		a.Types = []uint16{uint16(k.Kind)}
	}
	return a
}

// Bounds say from above what could be placed: sums over all nodes, closed ones included. What is
// more than these is refused without looking at any node, which is what a long backlog asks for.
type Bounds struct {
	CPU, Memory int64
	Whole       []int64 // untouched devices, by type
	Parts       []int64 // thousandths left, by type
}

// Add counts (+1) what is left on a node, or no longer (-1).
func (b *Bounds) Add(r *pack.Room, sign int64) {
	b.AddSizes(r, sign)
	for i, t := range r.Types {
		b.AddDevice(t, r.Free[i], sign)
	}
}

// AddSizes counts CPU and memory; a node that is over-full has none, not less than none.
func (b *Bounds) AddSizes(r *pack.Room, sign int64) {
	b.CPU += sign * max(r.CPU, 0)
	b.Memory += sign * max(r.Memory, 0)
}

// AddDevice counts what is left of a device.
func (b *Bounds) AddDevice(t, free uint16, sign int64) {
	for len(b.Whole) <= int(t) {
		b.Whole, b.Parts = append(b.Whole, 0), append(b.Parts, 0)
	}
	b.Parts[t] += sign * int64(free)
	if free == pack.Whole {
		b.Whole[t] += sign
	}
}

// Covers says that so many replicas of a wish are not beyond the sums.
func (b *Bounds) Covers(k *Key, count int64) bool {
	if count*k.CPU > b.CPU || count*k.Memory > b.Memory {
		return false
	}
	if k.Devices == 0 {
		return true
	}
	have, need := b.Parts, count*int64(k.Share)
	if k.Share == pack.Whole {
		have, need = b.Whole, count*int64(k.Devices)
	}
	if k.Kind >= 0 {
		return int(k.Kind) < len(have) && have[k.Kind] >= need
	}
	sum := int64(0)
	for _, n := range have {
		sum += n
	}
	return sum >= need
}
