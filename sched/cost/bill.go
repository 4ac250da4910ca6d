package cost

import (
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// Book is what a zone charged and burned from a time on, until the next one.
type Book struct {
	Since time.Time
	Spec  api.ZoneSpec // of which Terms are looked at
}

// Terms are the fields of a zone that say what a stay costs and burns: what a book keeps of them.
func Terms(s api.ZoneSpec) api.ZoneSpec {
	return api.ZoneSpec{UTCOffset: s.UTCOffset, Price: s.Price, PUE: s.PUE, Carbon: s.Carbon, DeviceWatts: s.DeviceWatts}
}

// PricedSince is when a zone's present terms came into force.
func PricedSince(z *api.Zone) time.Time {
	if z.Status.PricedSince.IsZero() {
		return z.Meta.CreatedAt
	}
	return z.Status.PricedSince
}

// Books are a zone's terms over time. Not safe for concurrent use: it remembers rates.
type Books struct {
	zones []*Zone
	since []time.Time
	rates map[rateKey][]rates // one for each of zones
}

type rateKey struct {
	cpu         api.MilliCPU
	memory      api.Bytes
	deviceType  string
	thousandths int64
	spot        bool
}

type rates struct {
	money, power, carbon Daily
	known                bool // carbon is
}

// BooksOf puts books in order of time. The first counts for what was before it, too; of two of one
// time the first given counts.
func BooksOf(books []Book) *Books {
	books = slices.Clone(books)
	slices.SortStableFunc(books, func(a, b Book) int { return a.Since.Compare(b.Since) })
	books = slices.CompactFunc(books, func(a, b Book) bool { return a.Since.Equal(b.Since) })
	out := &Books{rates: map[rateKey][]rates{}}
	for _, b := range books {
		out.zones = append(out.zones, ZoneOf(&api.Zone{Spec: b.Spec}))
		out.since = append(out.since, b.Since)
	}
	if len(out.zones) == 0 {
		out.zones, out.since = []*Zone{ZoneOf(&api.Zone{})}, []time.Time{{}}
	}
	return out
}

// Add puts a stay, or the part of it from one time to another, on a bill.
func (b *Books) Add(to *Bill, p Part, spot bool, from, end time.Time) {
	if !from.Before(end) {
		return
	}
	all := b.of(p, spot)
	for i, zone := range b.zones {
		start, stop := from, end
		if i > 0 && b.since[i].After(start) {
			start = b.since[i]
		}
		if i+1 < len(b.since) && b.since[i+1].Before(stop) {
			stop = b.since[i+1]
		}
		if !start.Before(stop) {
			continue
		}
		r := &all[i]
		if to.Money == nil {
			to.Money = map[string]Sum{}
		}
		to.Money[zone.Currency] = to.Money[zone.Currency].Plus(r.money.Over(start, stop))
		to.KWh = to.KWh.Plus(r.power.Over(start, stop))
		to.Grams = to.Grams.Plus(r.carbon.Over(start, stop))
		to.Dark = to.Dark || !r.known
	}
	took := end.Sub(from)
	to.Devices = to.Devices.Plus(sumOf(times(p.Thousandths, 1e6), took))
	to.Cores = to.Cores.Plus(sumOf(times(int64(p.CPU), 1e6), took))
	to.Memory = to.Memory.Plus(sumOf(gib(p.Memory, 1e6), took))
}

// maxRates bounds what is remembered.
const maxRates = 1024

func (b *Books) of(p Part, spot bool) []rates {
	key := rateKey{p.CPU, p.Memory, p.DeviceType, p.Thousandths, spot}
	if known, ok := b.rates[key]; ok {
		return known
	}
	out := make([]rates, len(b.zones))
	for i, zone := range b.zones {
		out[i].money = zone.Daily(p, spot)
		out[i].power = Daily{steps: []step{{0, zone.Power(p)}}}
		out[i].carbon, out[i].known = zone.Carbon(p)
	}
	if len(b.rates) >= maxRates {
		clear(b.rates)
	}
	b.rates[key] = out
	return out
}

func sumOf(rate Nano, d time.Duration) Sum {
	return Sum{new(big.Int).Mul(big.NewInt(int64(rate)), big.NewInt(int64(d)))}
}

// Bill is what stays come to. It is exact: however stays are grouped, the groups add up to the same.
type Bill struct {
	Replicas, Running      int
	Devices, Cores, Memory Sum // device, core and GiB times
	Money                  map[string]Sum
	KWh, Grams             Sum
	Dark                   bool // some of it burned power of which nobody said how clean it is
}

// Plus adds another bill to this one.
func (b *Bill) Plus(o *Bill) {
	b.Replicas, b.Running, b.Dark = b.Replicas+o.Replicas, b.Running+o.Running, b.Dark || o.Dark
	b.Devices, b.Cores, b.Memory = b.Devices.Plus(o.Devices), b.Cores.Plus(o.Cores), b.Memory.Plus(o.Memory)
	b.KWh, b.Grams = b.KWh.Plus(o.KWh), b.Grams.Plus(o.Grams)
	for currency, sum := range o.Money {
		if b.Money == nil {
			b.Money = map[string]Sum{}
		}
		b.Money[currency] = b.Money[currency].Plus(sum)
	}
}

// Totals are the amounts of money by currency, for people.
func (b *Bill) Totals() []api.PriceTotal {
	out := make([]api.PriceTotal, 0, len(b.Money))
	for _, currency := range slices.Sorted(maps.Keys(b.Money)) {
		out = append(out, api.PriceTotal{Currency: currency, Total: b.Money[currency].Nano().Float()})
	}
	return out
}

// Dearer orders bills: more money first, currency by currency in their order.
func Dearer(a, b *Bill) int {
	names := slices.AppendSeq(slices.Collect(maps.Keys(a.Money)), maps.Keys(b.Money))
	slices.SortFunc(names, strings.Compare)
	for _, currency := range names {
		if c := b.Money[currency].Cmp(a.Money[currency]); c != 0 {
			return c
		}
	}
	return b.Devices.Cmp(a.Devices)
}
