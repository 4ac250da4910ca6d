package gateway

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/serving"
)

// zoneFull is how busy a zone is that begins to give requests away, where zones are balanced.
const zoneFull = 0.7

// relieve is the zone that takes a request in the place of one that is nearly full: the fuller that is, the more of its requests go to the least busy
// other primary zone. mu held.
func (s *service) relieve(zone string, now time.Time) string {
	spec := s.settings()
	if zone == "" || spec.Gateway == nil || spec.Gateway.Zones != serving.ZonesBalanced {
		return zone
	}
	full := s.fullness(zone, now)
	if rand.Float64() >= (full-zoneFull)/(1-zoneFull) {
		return zone
	}
	least := full
	for i := range spec.Road.Zones {
		if z := &spec.Road.Zones[i]; z.Role != serving.ZoneBackup {
			if other := s.fullness(z.Zone, now); other < least {
				zone, least = z.Zone, other
			}
		}
	}
	return zone
}

// fullness is which part of what a zone can work on it works on, by its engines' own word too; 1 where nobody there can be asked. mu held.
func (s *service) fullness(zone string, now time.Time) float64 {
	busy, places := 0.0, 0
	for _, r := range s.replicas {
		if r.zone == zone && !now.Before(r.away) {
			busy += float64(r.busy) + r.said.cost(now)
			places += max(s.settings().MaxConcurrency, 1)
		}
	}
	if places == 0 {
		return 1
	}
	return busy / float64(places)
}

// zones is how the zones of a service are, as its requests see them. Its service's mu guards it.
type zones struct {
	by map[string]*zoneState
}

// zoneState is one zone: whether any replica there can be asked and, where it came back, since when.
type zoneState struct {
	known, well bool
	back        time.Time
}

// A zone that comes back gets a tenth of its share at first, and all of it after this time.
const (
	zoneReturns = time.Minute
	zoneFirst   = 0.1
)

// look takes in how each zone is. Two calls at one moment see the same.
func (z *zones) look(s *service, list []serving.ServiceZone, now time.Time) {
	if z.by == nil {
		z.by = map[string]*zoneState{}
	}
	for i := range list {
		st := z.by[list[i].Zone]
		if st == nil {
			st = &zoneState{}
			z.by[list[i].Zone] = st
		}
		well := slices.ContainsFunc(s.replicas, func(r *replica) bool { return r.zone == list[i].Zone && !now.Before(r.away) })
		if well && !st.well && st.known {
			st.back = now
		}
		st.well, st.known = well, st.known || well
	}
}

// share is the weight of a zone now.
func (st *zoneState) share(weight int, now time.Time) float64 {
	if st.back.IsZero() {
		return float64(weight)
	}
	returned := float64(now.Sub(st.back)) / float64(zoneReturns)
	return float64(weight) * min(1, zoneFirst+(1-zoneFirst)*returned)
}

// pick is the zone that a request goes to: one that serves its region, otherwise by the weights of the primary ones, and a
// backup only where no primary one can be asked. "": zones do not matter, or none can be asked.
func (z *zones) pick(s *service, region string, now time.Time) string {
	list := s.settings().Road.Zones
	if len(list) == 0 {
		return ""
	}
	z.look(s, list, now)
	among := func(fits func(*serving.ServiceZone) bool) string {
		sum := 0.0
		for i := range list {
			if st := z.by[list[i].Zone]; st.well && fits(&list[i]) {
				sum += st.share(list[i].Weight, now)
			}
		}
		if sum == 0 {
			return ""
		}
		at, last := rand.Float64()*sum, ""
		for i := range list {
			if st := z.by[list[i].Zone]; st.well && fits(&list[i]) {
				last = list[i].Zone
				if at -= st.share(list[i].Weight, now); at < 0 {
					break
				}
			}
		}
		return last
	}
	if region != "" {
		if in := among(func(c *serving.ServiceZone) bool { return slices.Contains(c.Serves, region) }); in != "" {
			return in
		}
	}
	if in := among(func(c *serving.ServiceZone) bool { return c.Role != serving.ZoneBackup }); in != "" {
		return in
	}
	return among(func(*serving.ServiceZone) bool { return true })
}
