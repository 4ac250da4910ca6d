package cost

import (
	"cmp"
	"slices"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// maxNodesShown bounds the list of nodes in an option.
const maxNodesShown = 64

// Wish is what of a task counts for its price.
type Wish struct {
	Spot     bool
	Expected time.Duration // 0: unknown
	Samples  []Sample      // of the same recipe
}

// Place is a judged place: the option as people see it, and the exact numbers behind it.
type Place struct {
	api.PlacementOption
	parts []Part
	bulk  []Part // by zone and device type: what money and power are counted on
	// money is by currency, in its order; grams is nil where unknown.
	money map[string]Nano
	grams *Nano
}

// Judge says what a place means for a task that starts there at a time. parts is not empty.
func (z *Zones) Judge(parts []Part, wish Wish, at time.Time) Place {
	p := Place{parts: parts, bulk: merge(parts), money: map[string]Nano{}}
	p.where(z)
	names := make([]string, len(p.Zones))
	for i, zone := range p.Zones {
		names[i] = zone.Zone
	}
	far := z.Farthest(names)
	p.price(z, wish, at)
	p.Latency = noteOf(far)
	share, measured := Efficiency(p.NodeCount, far, wish.Samples)
	p.Efficiency = api.EfficiencyNote{Percent: float64(share) / 10, Basis: "estimated"}
	if measured {
		p.Efficiency.Basis = "measured"
	}
	p.burn(z, at)
	p.RackLoss = rackLoss(parts)
	if wish.Expected > 0 {
		totals := z.totals(p.bulk, wish, at)
		p.Expected = &totals
	}
	return p
}

// merge adds up what lies in one zone and is of one type: a gang of thousands is a few sums.
func merge(parts []Part) []Part {
	type group struct{ zone, deviceType string }
	at := map[group]int{}
	var out []Part
	for _, p := range parts {
		i, ok := at[group{p.Zone, p.DeviceType}]
		if !ok {
			i = len(out)
			at[group{p.Zone, p.DeviceType}] = i
			out = append(out, Part{Zone: p.Zone, DeviceType: p.DeviceType})
		}
		out[i].Replicas += p.Replicas
		out[i].CPU += p.CPU
		out[i].Memory += p.Memory
		out[i].Devices += p.Devices
		out[i].Thousandths += p.Thousandths
	}
	return out
}

// where fills zones and nodes, in the order of the parts.
func (p *Place) where(z *Zones) {
	zones, nodes := map[string]int{}, map[string]int{}
	for _, part := range p.parts {
		i, ok := zones[part.Zone]
		if !ok {
			zone := z.Get(part.Zone)
			i = len(p.Zones)
			zones[part.Zone] = i
			p.Zones = append(p.Zones, api.ZonePart{Zone: part.Zone, Region: zone.Region, Degraded: zone.Degraded})
		}
		key := part.Zone + "/" + part.Node
		n, seen := nodes[key]
		if !seen {
			n = len(p.Nodes)
			nodes[key] = n
			p.Zones[i].Nodes++
			p.Nodes = append(p.Nodes, api.NodePart{Node: part.Node, Zone: part.Zone, Rack: part.Rack})
		}
		p.Zones[i].Replicas += part.Replicas
		p.Zones[i].Devices += part.Devices
		node := &p.Nodes[n]
		node.Replicas += part.Replicas
		node.Devices += part.Devices
		node.DeviceType = cmp.Or(node.DeviceType, part.DeviceType)
	}
	total := 0
	for _, z := range p.Zones {
		total += z.Replicas
	}
	for i := range p.Zones {
		p.Zones[i].LossLeaves = total - p.Zones[i].Replicas
	}
	p.NodeCount = len(p.Nodes)
	p.Nodes = p.Nodes[:min(len(p.Nodes), maxNodesShown)]
}

func (p *Place) price(z *Zones, wish Wish, at time.Time) {
	rates, crossing, spot := map[string]Rate{}, map[string]int64{}, map[string]bool{}
	for _, part := range p.bulk {
		zone := z.Get(part.Zone)
		one, sum := zone.Rate(part, at, wish.Spot), rates[zone.Currency]
		rates[zone.Currency] = Rate{sum.Devices.plus(one.Devices), sum.CPU.plus(one.CPU), sum.Memory.plus(one.Memory)}
		spot[zone.Currency] = spot[zone.Currency] || wish.Spot && zone.price.SpotFactor > 0
		if len(p.Zones) > 1 {
			crossing[zone.Currency] = max(crossing[zone.Currency], micro(zone.price.CrossingGB))
		}
	}
	for currency, r := range rates {
		p.money[currency] = r.Total()
		p.Prices = append(p.Prices, api.PriceParts{
			Currency: currency, Devices: r.Devices.Float(), CPU: r.CPU.Float(), Memory: r.Memory.Float(),
			CrossingGB: Nano(crossing[currency] * 1000).Float(), Total: r.Total().Float(), Spot: spot[currency],
		})
	}
	slices.SortFunc(p.Prices, func(a, b api.PriceParts) int { return strings.Compare(a.Currency, b.Currency) })
}

func noteOf(l Latency) api.LatencyNote {
	class := ClassOf(l.P50)
	return api.LatencyNote{
		P50Ms: l.P50, P99Ms: l.P99, BandwidthGbps: l.Gbps, From: l.From, To: l.To, Source: string(l.Source), Class: class.Name, Action: class.Action,
	}
}

func (p *Place) burn(z *Zones, at time.Time) {
	var power, grams Nano
	known := true
	for _, part := range p.bulk {
		zone := z.Get(part.Zone)
		power = power.plus(zone.Power(part))
		carbon, ok := zone.Carbon(part)
		known = known && ok
		grams = grams.plus(carbon.At(at))
	}
	p.Energy = api.EnergyNote{KW: power.Float(), Basis: "estimated"}
	if known {
		shown := grams.Float()
		p.grams, p.Energy.GramsPerHour = &grams, &shown
	}
}

// rackLoss finds the rack whose failure takes the most replicas; of equals the first by zone and name.
func rackLoss(parts []Part) api.RackLoss {
	type rack struct{ zone, name string }
	count := map[rack]int{}
	total := 0
	for _, p := range parts {
		count[rack{p.Zone, p.Rack}] += p.Replicas
		total += p.Replicas
	}
	out := api.RackLoss{Racks: len(count)}
	for r, n := range count {
		if n > out.Replicas || n == out.Replicas && cmp.Or(strings.Compare(r.zone, out.Zone), strings.Compare(r.name, out.Rack)) < 0 {
			out.Zone, out.Rack, out.Replicas = r.zone, r.name, n
		}
	}
	if total > 0 {
		out.Percent = (out.Replicas*100 + total - 1) / total
	}
	return out
}

// totals is what the whole run comes to when it starts at a time.
func (z *Zones) totals(parts []Part, wish Wish, at time.Time) api.ExpectedTotals {
	end := at.Add(wish.Expected)
	sums := map[string]Sum{}
	var kwh, grams Sum
	known := true
	for _, part := range parts {
		zone := z.Get(part.Zone)
		sums[zone.Currency] = sums[zone.Currency].Plus(zone.Daily(part, wish.Spot).Over(at, end))
		kwh = kwh.Plus(Daily{steps: []step{{0, zone.Power(part)}}}.Over(at, end))
		carbon, ok := zone.Carbon(part)
		known = known && ok
		grams = grams.Plus(carbon.Over(at, end))
	}
	out := api.ExpectedTotals{KWh: kwh.Nano().Float()}
	for currency, sum := range sums {
		out.Prices = append(out.Prices, api.PriceTotal{Currency: currency, Total: sum.Nano().Float()})
	}
	slices.SortFunc(out.Prices, func(a, b api.PriceTotal) int { return strings.Compare(a.Currency, b.Currency) })
	if known {
		shown := grams.Nano().Float()
		out.Grams = &shown
	}
	return out
}

// Windows finds the cheapest and the cleanest start for a task of known length, from now to latest.
// A price in two currencies has no cheapest start; carbon that is unknown no cleanest.
func (z *Zones) Windows(parts []Part, wish Wish, now, latest time.Time) []api.StartWindow {
	parts = merge(parts)
	var money, carbon []Daily
	currencies := map[string]bool{}
	for _, part := range parts {
		zone := z.Get(part.Zone)
		currencies[zone.Currency] = true
		money = append(money, zone.Daily(part, wish.Spot))
		if c, ok := zone.Carbon(part); ok {
			carbon = append(carbon, c)
		}
	}
	var out []api.StartWindow
	add := func(what string, rates []Daily) {
		if start, _, ok := Best(now, latest, wish.Expected, rates...); ok {
			out = append(out, api.StartWindow{For: what, Start: start.UTC(), Totals: z.totals(parts, wish, start)})
		}
	}
	if len(currencies) == 1 {
		add("price", money)
	}
	if len(carbon) == len(parts) && len(parts) > 0 {
		add("carbon", carbon)
	}
	return out
}
