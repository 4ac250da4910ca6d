package pack

// MostFits bounds what is counted on one node: no gang is larger.
const MostFits = 1 << 14

// Fits counts how many such replicas the room takes, one after the other.
func (r *Room) Fits(a *Ask) int32 {
	n := int64(MostFits)
	if a.CPU > 0 {
		n = min(n, r.CPU/a.CPU)
	}
	if a.Memory > 0 {
		n = min(n, r.Memory/a.Memory)
	}
	if r.CPU < 0 || r.Memory < 0 || n <= 0 {
		return 0
	}
	if a.Devices > 0 {
		n = min(n, int64(r.devices(a)))
	}
	return int32(n)
}

// devices counts replicas by devices alone.
func (r *Room) devices(a *Ask) int {
	if a.Share < Whole {
		if r.WholeOnly {
			return 0
		}
		n := 0
		for i, free := range r.Free {
			if a.takes(r.Types[i]) {
				n += int(free / a.Share)
			}
		}
		return n
	}
	n, seen := 0, uint64(0)
	for i, t := range r.Types {
		if seen>>i&1 != 0 || !a.takes(t) {
			continue
		}
		whole := 0
		for k := i; k < len(r.Types); k++ {
			if r.Types[k] == t {
				seen |= 1 << k
				if r.Free[k] == Whole {
					whole++
				}
			}
		}
		n += whole / a.Devices
	}
	return n
}
