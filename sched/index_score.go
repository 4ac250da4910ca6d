package sched

import "math/bits"

type room struct {
	CPU, Memory int64
	Types       []uint16
	Free        []uint16
}

type ask struct {
	CPU, Memory int64
	Devices     int
	Share       uint16
	Types       []uint16
}

type demand struct{}

func (d *demand) Version() uint64 { return 0 }
func (d *demand) See(ask)         {}

// Score prefers the node with the least left.
func (d *demand) Score(r *room, a *ask) (score int64, devices uint64, ok bool) {
	if r.fits(a) == 0 {
		return 0, 0, false
	}
	left := int64(0)
	for _, f := range r.Free {
		left += int64(f)
	}
	score = -left*1_000_000 - r.CPU
	if a.Devices == 0 {
		return score, 0, true
	}
	best, bestLeft := -1, uint16(WholeDevice+1)
	for i, t := range r.Types {
		if !allows(a.Types, t) || r.Free[i] < a.Share || r.Free[i] >= bestLeft {
			continue
		}
		if a.Share == WholeDevice {
			var same uint64
			for k := range r.Types {
				if r.Types[k] == t && r.Free[k] == WholeDevice {
					same |= 1 << k
				}
			}
			if bits.OnesCount64(same) < a.Devices {
				continue
			}
			return score, lowest(same, a.Devices), true
		}
		best, bestLeft = i, r.Free[i]
	}
	return score, 1 << best, true
}
