package cost

import (
	_ "embed" // the table
	"encoding/csv"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// powerTable is the power of a busy device by type, and what is assumed where nothing is known, with
// the source of each number: data, to be corrected by a zone's deviceWatts.
//
//go:embed watts.csv
var powerTable string

// assumedPUE is how much is drawn for what reaches machines where a zone does not say.
const assumedPUE = 1.5

// power is the table, read.
type power struct {
	watts               map[string]float64 // by folded type
	unknown, core, gibi float64
}

// usual is the table; a test holds that it can be read.
var usual, _ = readPower(powerTable)

// readPower reads lines of type, watts and source.
func readPower(table string) (power, error) {
	p := power{watts: map[string]float64{}}
	rows, err := csv.NewReader(strings.NewReader(table)).ReadAll()
	if err != nil {
		return p, err
	}
	for i, row := range rows {
		if i == 0 {
			continue // the head
		}
		w, err := strconv.ParseFloat(row[1], 64)
		if err != nil || w <= 0 || row[2] == "" {
			return p, fmt.Errorf("row %d of the power table: %q", i, row)
		}
		switch row[0] {
		case "unknown device":
			p.unknown = w
		case "core":
			p.core = w
		case "memory GiB":
			p.gibi = w
		default:
			p.watts[api.FoldDevice(row[0])] = w
		}
	}
	return p, nil
}

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
	deviceType := api.FoldDevice(p.DeviceType)
	w, ok := z.energy.watts[deviceType]
	if !ok {
		w, ok = usual.watts[deviceType]
	}
	if !ok {
		w = usual.unknown
	}
	// Each product by itself: some machines would fuse it with the sum and round otherwise.
	total := float64(float64(p.Thousandths)/1000*w) + float64(float64(p.CPU)/1000*usual.core) + float64(float64(p.Memory)/(1<<30)*usual.gibi)
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
