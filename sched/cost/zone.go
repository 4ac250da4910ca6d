package cost

import (
	"reflect"
	"slices"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// Zone is what is known of an availability zone's prices, power and distance.
type Zone struct {
	Name, Display, Region string
	Degraded              bool
	Currency              string
	price                 api.Price
	windows               []window
	offset                time.Duration
	energy                energy
	spec                  *api.ZoneSpec
	measured              map[string]api.MeasuredLatency
}

type window struct {
	from, to time.Duration // of the day; from > to is over midnight
	factor   float64
}

// ZoneOf reads a zone. What its rules would refuse is taken as absent: a wrong zone has the default
// prices, never none.
func ZoneOf(z *api.Zone) *Zone {
	minutes, _ := api.ParseUTCOffset(z.Spec.UTCOffset)
	out := &Zone{
		Name: z.Meta.Name, Display: z.Meta.DisplayName, Region: z.Spec.Region, Degraded: z.Status.Health == api.ZoneDegraded,
		Currency: z.Spec.Price.Currency, price: z.Spec.Price, offset: time.Duration(minutes) * time.Minute,
		energy: energyOf(&z.Spec), spec: &z.Spec, measured: z.Status.Measured,
	}
	if out.Currency == "" {
		out.Currency = api.DefaultCurrency
	}
	for _, w := range z.Spec.Price.Windows {
		from, okFrom := api.ParseClock(w.From)
		to, okTo := api.ParseClock(w.To)
		if okFrom && okTo && w.Factor >= 0 {
			out.windows = append(out.windows, window{time.Duration(from) * time.Minute, time.Duration(to) * time.Minute, w.Factor})
		}
	}
	return out
}

// SameRates says that two zones ask the same prices and burn the same at every hour; nil is unknown.
func (z *Zone) SameRates(other *Zone) bool {
	if z == nil || other == nil {
		return z == other
	}
	return z.Currency == other.Currency && z.offset == other.offset && reflect.DeepEqual(z.price, other.price) && reflect.DeepEqual(z.energy, other.energy)
}

// Zones are all zones of the cluster at a time.
type Zones struct {
	byName map[string]*Zone
	now    time.Time
}

// ZonesOf reads them. A zone that is asked for and not among them has the default prices, no known
// distance and no carbon.
func ZonesOf(zones []*api.Zone, now time.Time) *Zones {
	out := &Zones{byName: make(map[string]*Zone, len(zones)), now: now}
	for _, z := range zones {
		out.byName[z.Meta.Name] = ZoneOf(z)
	}
	return out
}

// Get finds a zone, or makes up one of which nothing is known.
func (z *Zones) Get(name string) *Zone {
	if found, ok := z.byName[name]; ok {
		return found
	}
	return ZoneOf(&api.Zone{Meta: api.Meta{Name: name}})
}

// All lists them by name.
func (z *Zones) All() []*Zone {
	out := make([]*Zone, 0, len(z.byName))
	for _, zone := range z.byName {
		out = append(out, zone)
	}
	slices.SortFunc(out, func(a, b *Zone) int { return strings.Compare(a.Name, b.Name) })
	return out
}
