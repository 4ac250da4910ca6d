package openb

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/fermi-cluster/fermi/sched/pack"
)

// fixed is a policy that learns nothing.
type fixed struct{}

func (fixed) See(pack.Ask)    {}
func (fixed) Version() uint64 { return 0 }

// fits says whether a room has CPU, memory, the type and enough devices, and takes the first
// devices that do (for a share: the fullest one that does).
func fits(r *pack.Room, a *pack.Ask) (devices uint64, ok bool) {
	if r.CPU < a.CPU || r.Memory < a.Memory {
		return 0, false
	}
	if a.Devices == 0 {
		return 0, true
	}
	if len(r.Types) == 0 || a.Types != nil && !slices.Contains(a.Types, r.Types[0]) {
		return 0, false
	}
	tightest := -1
	for d, free := range r.Free {
		switch {
		case free < a.Share:
		case a.Share < 1000:
			if tightest < 0 || free < r.Free[tightest] {
				tightest = d
			}
		case bits.OnesCount64(devices) < a.Devices:
			devices |= 1 << d
		}
	}
	if tightest >= 0 {
		devices = 1 << tightest
	}
	return devices, bits.OnesCount64(devices) == a.Devices
}

// BestFit as published: least CPU and devices left, in whole points of a hundred.
type BestFit struct{ fixed }

func (BestFit) Score(r *pack.Room, a *pack.Ask) (int64, uint64, bool) {
	devices, ok := fits(r, a)
	if !ok {
		return 0, 0, false
	}
	var free int64
	for _, f := range r.Free {
		free += int64(f)
	}
	cpu := float64(r.CPU-a.CPU) / 128000
	gpu := float64(free-int64(a.Devices)*int64(a.Share)) / 8000
	return int64(100 * (1 - cpu/2 - gpu/2)), devices, true
}

// FGD as published (Weng et al., ATC'23): the placement that adds the least fragmentation as seen
// by the typical pods of the whole trace, in whole points of a hundred.
type FGD struct {
	fixed
	typical []typical
}

type typical struct {
	ask   pack.Ask
	share float64
}

// NewFGD takes as typical the most frequent asks that make up 95 % of the pods; memory is ignored.
func NewFGD(t *Trace) *FGD {
	count := map[string]*typical{}
	for _, p := range t.Pods {
		p.Ask.Memory = 0
		key := fmt.Sprint(p.Ask)
		if count[key] == nil {
			count[key] = &typical{ask: p.Ask}
		}
		count[key].share++
	}
	keys := make([]string, 0, len(count))
	for k := range count {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b].share, count[a].share), cmp.Compare(a, b))
	})
	f := &FGD{}
	sum := 0.0
	for _, k := range keys {
		if sum >= .95*float64(len(t.Pods)) {
			break
		}
		f.typical = append(f.typical, *count[k])
		sum += count[k].share
	}
	for i := range f.typical {
		f.typical[i].share /= sum
	}
	return f
}

func (f *FGD) Score(r *pack.Room, a *pack.Ask) (int64, uint64, bool) {
	devices, ok := fits(r, a)
	if !ok {
		return 0, 0, false
	}
	before := f.fragment(r, 0, 0, 0)
	point := func(devices uint64) int64 {
		d := before - f.fragment(r, a.CPU, devices, a.Share)
		return int64(100 / (1 + math.Exp(-d/1000)))
	}
	if a.Devices != 1 || a.Share == 1000 {
		return point(devices), devices, true
	}
	best := int64(-1)
	for d, free := range r.Free {
		if free >= a.Share {
			if s := point(1 << d); s > best {
				best, devices = s, 1<<d
			}
		}
	}
	return best, devices, true
}

// fragment is the expected amount of free devices that a typical pod could not use, after cpu and
// share of each of devices are taken.
func (f *FGD) fragment(r *pack.Room, cpu int64, devices uint64, share uint16) float64 {
	var left [64]uint16
	total := 0
	for d, free := range r.Free {
		left[d] = free
		if devices>>d&1 == 1 {
			left[d] -= share
		}
		total += int(left[d])
	}
	var sum float64
	for i := range f.typical {
		t := &f.typical[i]
		usable, n := 0, 0
		if t.ask.Devices > 0 && r.CPU-cpu >= t.ask.CPU && (t.ask.Types == nil || slices.Contains(t.ask.Types, r.Types[0])) {
			for _, l := range left[:len(r.Free)] {
				if l >= t.ask.Share {
					usable += int(l)
					n++
				}
			}
			if n < t.ask.Devices {
				usable = 0
			}
		}
		sum += t.share * float64(total-usable)
	}
	return sum
}
