package v1

import (
	"time"

	"github.com/fermi-cluster/fermi/api/v1/roundtrip"
	"github.com/fermi-cluster/fermi/api/v1/way"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Zone is an availability zone.
type Zone struct {
	Meta   Meta       `json:"metadata"`
	Spec   ZoneSpec   `json:"spec"`
	Status ZoneStatus `json:"status,omitzero"`
}

// Kind is Zone.
func (*Zone) Kind() Kind { return KindZone }

// GetMeta is the metadata.
func (z *Zone) GetMeta() *Meta { return &z.Meta }

// ZoneSpec is what an operator declares.
type ZoneSpec struct {
	Region string `json:"region" doc:"北京, eu-west …"`
	Engine string `json:"engine,omitempty" doc:"local: processes on this machine; kubernetes: pods of the cluster that the servers have for the zone (--cluster)."`
	// LatencyMs is the declared round trip to other zones, by zone name. A hole is filled by the
	// way back, else assumed from the regions; what was measured replaces it.
	LatencyMs    map[string]float64 `json:"latencyMs,omitempty" doc:"Usual (p50) round trip to other zones in milliseconds, by zone name."`
	LatencyP99Ms map[string]float64 `json:"latencyP99Ms,omitempty" doc:"Slow (p99) round trip to other zones in milliseconds; needs latencyMs of the same zone."`
	way.Roads
	// ConsoleLatencyMs is the round trip to the console, shown in the zone list.
	ConsoleLatencyMs float64 `json:"consoleLatencyMs,omitempty"`
	// UTCOffset is the zone's clock, for hours of the price book and of the carbon series. It is
	// fixed: daylight saving is not followed.
	UTCOffset string  `json:"utcOffset,omitempty" doc:"The zone's clock for hours of price and carbon, as +08:00; UTC when absent."`
	Price     Price   `json:"price,omitzero"`
	PUE       float64 `json:"pue,omitempty" doc:"Power usage effectiveness, 1 or more; 1.5 is assumed when absent."`
	Carbon    *Carbon `json:"carbon,omitempty"`
	// DeviceWatts corrects the table of device power for this zone.
	DeviceWatts map[string]float64 `json:"deviceWatts,omitempty" doc:"Power of a busy device in watts, by type; a table of usual values when absent."`
	// Health is set by hand with a reason, or derived when empty.
	Health       ZoneHealth `json:"health,omitempty" doc:"healthy or degraded; derived when absent."`
	HealthReason string     `json:"healthReason,omitempty"`
	// Virtual says that nodes of this zone have no machine of their own.
	Virtual bool `json:"virtual,omitempty"`
	// Outage is an operator's word that the zone is out, or about to be.
	Outage bool `json:"outage,omitempty" doc:"The zone is out: it takes no work, and what stands there leaves as its rules say. Absent: it is in use."`
}

// ZoneHealth is healthy or degraded.
type ZoneHealth string

// The states of a zone.
const (
	ZoneHealthy  ZoneHealth = "healthy"
	ZoneDegraded ZoneHealth = "degraded"
)

// What a price book that does not say costs, in CNY; memory and crossing traffic cost nothing.
const (
	DefaultCurrency   = "CNY"
	DefaultDeviceHour = 8.50
	DefaultCoreHour   = 0.20
)

// Price is the price book of a zone: unit prices, exact to a millionth.
type Price struct {
	Currency string `json:"currency,omitempty" doc:"CNY when absent."`
	// DeviceHour is any device's, Devices that of one type.
	DeviceHour   *float64           `json:"deviceHour,omitempty" doc:"A device for an hour; 8.50 when absent."`
	Devices      map[string]float64 `json:"devices,omitempty" doc:"A device of this type for an hour; deviceHour for other types."`
	CoreHour     *float64           `json:"coreHour,omitempty" doc:"A core for an hour; 0.20 when absent."`
	MemoryGBHour float64            `json:"memoryGBHour,omitempty" doc:"A GiB of memory for an hour; free when absent."`
	CrossingGB   float64            `json:"crossingGB,omitempty" doc:"A GB that leaves the zone; free when absent."`
	// SpotFactor multiplies the prices for tasks that may be preempted; 0 is no such offer.
	SpotFactor float64       `json:"spotFactor,omitempty" doc:"Multiplies all hourly prices of preemptible tasks, above 0 and at most 1; no reduction when absent."`
	Windows    []PriceWindow `json:"windows,omitempty" doc:"Hours of the day with other prices; they do not overlap."`
}

// PriceWindow is a time of day, every day, on the zone's clock.
type PriceWindow struct {
	From   string  `json:"from" doc:"As 22:00."`
	To     string  `json:"to" doc:"As 06:00, which then is on the next day, or 24:00."`
	Factor float64 `json:"factor" doc:"Multiplies all hourly prices."`
}

// Carbon is how clean the zone's power is: one of the two.
type Carbon struct {
	GramsPerKWh *float64  `json:"gramsPerKWh,omitempty" doc:"Grams of CO₂ for a kWh, at any hour."`
	ByHour      []float64 `json:"byHour,omitempty" doc:"24 numbers: grams of CO₂ for a kWh from 0:00 on, on the zone's clock."`
}

// ZoneStatus is what was seen.
type ZoneStatus struct {
	Health  ZoneHealth `json:"health,omitempty"`
	Reason  string     `json:"reason,omitempty" doc:"Machine-readable: SetByHand, AllWell, NoNodes, EngineUnreachable, NodesNotReady or SlowLinks."`
	Message fault.Text `json:"message,omitzero"`
	Nodes   int        `json:"nodes,omitempty"`
	Ready   int        `json:"ready,omitempty"`
	Devices int        `json:"devices,omitempty"`
	// PricedSince is written by who changes price, power or carbon, with the change; Measured by who
	// measured; the rest by the zone's controller.
	PricedSince time.Time                  `json:"pricedSince,omitzero" doc:"Since when the present prices, power and carbon hold; since it was made when absent."`
	Measured    map[string]MeasuredLatency `json:"measured,omitempty" doc:"Measured round trips to other zones, by zone name; they replace declared ones."`
}

// MeasuredLatency is a round trip as it was, with the nodes that it was measured between. The
// one who reports it is an operator, or the preflight of a task.
type MeasuredLatency = roundtrip.MeasuredLatency
