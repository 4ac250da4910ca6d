// Package costtest holds what a price book says by its words, for tests: slow, obvious and written
// without a look at package cost.
//
// Place: layer 2, for tests only. Promise: it shares no code with what it checks. Enemies: a mistake
// made twice.
package costtest

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// Amount is what is paid for.
type Amount struct {
	Type        string
	Thousandths int64
	CPU         api.MilliCPU
	GiB         int64
	Spot        bool
}

// Rate is what an amount costs an hour at a time, in billionths: the unit's price at that time of
// day, to a millionth, times the amount.
func Rate(s api.ZoneSpec, a Amount, at time.Time) int64 {
	minutes, _ := api.ParseUTCOffset(s.UTCOffset)
	local := at.UTC().Add(time.Duration(minutes) * time.Minute)
	minute := local.Hour()*60 + local.Minute()
	factor := 1.0
	for _, w := range s.Price.Windows {
		from, _ := api.ParseClock(w.From)
		to, _ := api.ParseClock(w.To)
		if from <= to && minute >= from && minute < to || from > to && (minute >= from || minute < to) {
			factor = w.Factor
		}
	}
	if a.Spot && s.Price.SpotFactor > 0 {
		factor *= s.Price.SpotFactor
	}
	unit := func(price float64) int64 { return int64(price*factor*1e6 + 0.5) }
	return a.Thousandths*unit(s.Price.Device(a.Type)) + int64(a.CPU)*unit(s.Price.Core()) + a.GiB*1000*unit(s.Price.MemoryGBHour)
}

// Terms draws prices, a clock and power that the rules of a zone accept.
func Terms(t *rapid.T) api.ZoneSpec {
	micro := func(what string) *float64 {
		x := float64(rapid.Int64Range(0, 50_000_000).Draw(t, what)) / 1e6
		return &x
	}
	s := api.ZoneSpec{UTCOffset: rapid.SampledFrom([]string{"", "+08:00", "-03:30"}).Draw(t, "offset")}
	s.Price = api.Price{DeviceHour: micro("device"), CoreHour: micro("core"), MemoryGBHour: *micro("memory")}
	s.Price.SpotFactor = float64(rapid.IntRange(0, 100).Draw(t, "spot")) / 100
	edges := rapid.SliceOfNDistinct(rapid.IntRange(0, 1439), 2, 6, rapid.ID).Draw(t, "edges")
	for i := 0; i+1 < len(edges); i += 2 { // windows of a minute never overlap
		from, to := edges[i], (edges[i]+1)%1440
		if i == 0 && rapid.Bool().Draw(t, "long") {
			s.Price.Windows = []api.PriceWindow{{From: clockOf(edges[0]), To: clockOf(edges[1]), Factor: float64(rapid.IntRange(0, 300).Draw(t, "factor")) / 100}}
			break
		}
		s.Price.Windows = append(s.Price.Windows, api.PriceWindow{From: clockOf(from), To: clockOf(to), Factor: float64(rapid.IntRange(0, 300).Draw(t, "factor")) / 100})
	}
	if rapid.Bool().Draw(t, "carbon") {
		s.Carbon = &api.Carbon{}
		for range 24 {
			s.Carbon.ByHour = append(s.Carbon.ByHour, float64(rapid.IntRange(0, 900).Draw(t, "grams")))
		}
	}
	return s
}

func clockOf(minute int) string { return fmt.Sprintf("%02d:%02d", minute/60, minute%60) }
