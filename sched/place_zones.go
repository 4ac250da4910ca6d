package sched

import (
	"cmp"
	"slices"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/where"
	"github.com/fermi-cluster/fermi/sched/distance"
	"github.com/fermi-cluster/fermi/sched/room"
)

func latencyOf(a, b *zone) time.Duration { return distance.Trip(&a.Zone, &b.Zone) }

// nearEnough says whether a gang may stand in both zones.
func (w *Workload) nearEnough(a, b *zone) bool {
	if w.MaxLatency > 0 {
		return latencyOf(a, b) <= w.MaxLatency
	}
	return latencyOf(a, b) < distance.Far
}

// allowed are the zones the workload's rules leave, healthy ones first.
func allowed(c *Cluster, w *Workload) []*zone {
	if len(w.Allow) == 0 && len(w.Deny) == 0 {
		return c.order
	}
	var out []*zone
	for _, z := range c.order {
		if (len(w.Allow) == 0 || slices.Contains(w.Allow, z.Name)) && !slices.Contains(w.Deny, z.Name) {
			out = append(out, z)
		}
	}
	return out
}

// groups are the zones by preference: healthy before degraded, then the least time to move data, then
// what was booked, then the cheapest.
func (s *search) groups(zones []*zone) [][]*zone {
	var dear map[*zone]int64
	if s.w.hours == nil {
		dear = dearer(zones, s.c, s.w)
	}
	if len(s.w.Data) == 0 && s.w.hours == nil && dear == nil {
		return grouped(zones, func(a, b *zone) bool { return a.Degraded == b.Degraded })
	}
	zones = slices.Clone(zones)
	rank := map[*zone][4]int64{}
	for _, z := range zones {
		ill := int64(0)
		if z.Degraded {
			ill = 1
		}
		rank[z] = [4]int64{ill, int64(s.c.zones.moving(s.w, z.Name)), int64(s.w.hours.rank(z.Name)), dear[z]}
	}
	slices.SortStableFunc(zones, func(a, b *zone) int {
		x, y := rank[a], rank[b]
		return slices.Compare(x[:], y[:])
	})
	return grouped(zones, func(a, b *zone) bool { return rank[a] == rank[b] })
}

// grouped divides a list where neighbours are not the same.
func grouped(zones []*zone, same func(a, b *zone) bool) (out [][]*zone) {
	for i := 0; i < len(zones); {
		k := i + 1
		for k < len(zones) && same(zones[k], zones[i]) {
			k++
		}
		out = append(out, zones[i:k])
		i = k
	}
	return out
}

// across cuts the gang over zones: of one region if it can be, healthy ones before all.
func (s *search) across(zones []*zone) bool {
	zones = s.useful(zones)
	if len(zones) < 2 || s.w.Replicas() < 2 {
		return false
	}
	healthy := 0
	for healthy < len(zones) && !zones[healthy].Degraded {
		healthy++
	}
	for _, oneRegion := range []bool{true, false} {
		if s.w.OneRegion && !oneRegion {
			break
		}
		for _, end := range slices.Compact([]int{healthy, len(zones)}) {
			for _, set := range s.sets(zones[:end], oneRegion) {
				if s.w.Survive && s.apart(set) || !s.w.Survive && s.into(set) {
					return true
				}
			}
		}
	}
	return false
}

// useful are the zones with room for a replica. One without, closed or full, would only be far from others.
func (s *search) useful(zones []*zone) (out []*zone) {
	for _, z := range zones {
		if z.at >= 0 && slices.ContainsFunc(s.wants, func(w want) bool { return s.most(&w, z) > 0 }) {
			out = append(out, z)
		}
	}
	return out
}

// sets are the smallest sets of near zones around each zone that take each role, the nearest
// first. Not every such set: around n zones n are looked at.
func (s *search) sets(zones []*zone, oneRegion bool) [][]room.Place {
	type candidate struct {
		set     []room.Place
		premium int64 // by what the gang weighs; 0 where it says nothing: the nearest are best
		worst   time.Duration
	}
	var list []candidate
	dear := dearer(zones, s.c, s.w)
	for _, seed := range zones {
		if seed.at < 0 {
			continue
		}
		set, worst := s.around(seed, zones, oneRegion)
		if len(set) < 2 {
			continue
		}
		c := candidate{worst: worst}
		if s.w.Weigh != (where.Weights{}) {
			c.premium = s.w.premium(set, dear, worst)
		}
		for _, z := range set {
			c.set = append(c.set, room.Place{Level: zonal, ID: int32(z.at)})
		}
		slices.SortFunc(c.set, func(a, b room.Place) int { return cmp.Compare(a.ID, b.ID) })
		if !slices.ContainsFunc(list, func(o candidate) bool { return slices.Equal(o.set, c.set) }) {
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.premium, b.premium), cmp.Compare(a.worst, b.worst), cmp.Compare(len(a.set), len(b.set)))
	})
	out := make([][]room.Place, 0, min(len(list), tries))
	for _, c := range list[:min(len(list), tries)] {
		out = append(out, c.set)
	}
	return out
}

// around adds the nearest zones to a seed until they are enough; nil when they never are.
func (s *search) around(seed *zone, zones []*zone, oneRegion bool) (set []*zone, worst time.Duration) {
	others := make([]*zone, 0, len(zones))
	for _, z := range zones {
		if z != seed && z.at >= 0 && (!oneRegion || z.Region == seed.Region) && s.w.nearEnough(seed, z) {
			others = append(others, z)
		}
	}
	slices.SortStableFunc(others, func(a, b *zone) int { return cmp.Compare(latencyOf(seed, a), latencyOf(seed, b)) })
	set = append(set, seed)
	for _, z := range others {
		if slices.ContainsFunc(set, func(o *zone) bool { return !s.w.nearEnough(o, z) }) {
			continue
		}
		for _, o := range set {
			worst = max(worst, latencyOf(o, z))
		}
		set = append(set, z)
		if s.enough(set) {
			return set, worst
		}
	}
	return nil, 0
}
