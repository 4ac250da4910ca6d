package cost

import (
	"math"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// watts is the power of a busy device by type: the vendors' figures for the usual board. Data, to be
// corrected by a zone's deviceWatts.
var watts = map[string]float64{
	"a10": 150, "a100": 400, "a800": 400, "b200": 1000, "h100": 700, "h20": 400, "h200": 700, "h800": 700, "l20": 275, "l40": 300,
	"l40s": 350, "rtx4090": 450, "t4": 70, "v100": 300,
	"mi210": 300, "mi250x": 560, "mi300x": 750,
	"ascend310": 8, "ascend910": 310, "ascend910b": 400, "mlu370x8": 250, "gaudi2": 600, "tpuv4": 192, "tpuv5e": 200,
}

// What is assumed where nothing is known: a device of no known type, a busy core, a GiB of memory,
// and how much of the power reaches machines.
const (
	unknownWatts = 350
	coreWatts    = 3.5
	gibWatts     = 0.39
	assumedPUE   = 1.5
)

// energy is how a zone turns work into power and carbon.
type energy struct {
	watts  map[string]float64 // by folded type
	pue    float64
	carbon []int64 // milligrams a kWh: none known, one, or 24
}

func energyOf(s *api.ZoneSpec) energy {
	e := energy{watts: map[string]float64{}, pue: assumedPUE}
	for t, w := range s.DeviceWatts {
		e.watts[api.FoldDevice(t)] = w
	}
	if s.PUE >= 1 {
		e.pue = s.PUE
	}
	switch c := s.Carbon; {
	case c == nil:
	case c.GramsPerKWh != nil:
		e.carbon = []int64{int64(math.Round(max(*c.GramsPerKWh, 0) * 1000))}
	case len(c.ByHour) == 24:
		for _, g := range c.ByHour {
			e.carbon = append(e.carbon, int64(math.Round(max(g, 0)*1000)))
		}
	}
	return e
}

// Power is what a part draws, with what cooling adds, in billionths of a kW: an estimate from tables,
// for devices at work all the time.
func (z *Zone) Power(p Part) Nano {
	w, ok := z.energy.watts[api.FoldDevice(p.DeviceType)]
	if !ok {
		w, ok = watts[api.FoldDevice(p.DeviceType)]
	}
	if !ok {
		w = unknownWatts
	}
	// Each product by itself: some machines would fuse it with the sum and round otherwise.
	total := float64(float64(p.Thousandths)/1000*w) + float64(float64(p.CPU)/1000*coreWatts) + float64(float64(p.Memory)/(1<<30)*gibWatts)
	milli := math.Round(min(total*z.energy.pue, 1e12) * 1000)
	return times(int64(milli), 1000)
}

// Carbon is the grams of CO₂ an hour of a part over the day; false when the zone's power is unknown.
func (z *Zone) Carbon(p Part) (Daily, bool) {
	if len(z.energy.carbon) == 0 {
		return Daily{}, false
	}
	milliwatts := int64(z.Power(p)) / 1000
	out := Daily{offset: z.offset}
	for hour, milligrams := range z.energy.carbon {
		out.steps = append(out.steps, step{time.Duration(hour) * time.Hour, times(milliwatts, milligrams)})
	}
	return out, true
}
