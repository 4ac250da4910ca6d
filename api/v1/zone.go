package v1

import "github.com/fermi-cluster/fermi/internal/fault"

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
	Engine string `json:"engine,omitempty" doc:"local: processes on this machine."`
	// LatencyMs is the declared round trip to other zones, by zone name.
	LatencyMs map[string]float64 `json:"latencyMs,omitempty" doc:"Round trip to other zones in milliseconds, by zone name."`
	// ConsoleLatencyMs is the round trip to the console, shown in the zone list.
	ConsoleLatencyMs float64 `json:"consoleLatencyMs,omitempty"`
	Price            Price   `json:"price,omitzero"`
	// Health is set by hand with a reason, or derived when empty.
	Health       ZoneHealth `json:"health,omitempty" doc:"healthy or degraded; derived when absent."`
	HealthReason string     `json:"healthReason,omitempty"`
	// Virtual says that nodes of this zone have no machine of their own.
	Virtual bool `json:"virtual,omitempty"`
}

// ZoneHealth is healthy or degraded.
type ZoneHealth string

// The states of a zone.
const (
	ZoneHealthy  ZoneHealth = "healthy"
	ZoneDegraded ZoneHealth = "degraded"
)

// Price is the unit prices of a zone.
type Price struct {
	Currency     string  `json:"currency,omitempty" doc:"CNY when absent."`
	DeviceHour   float64 `json:"deviceHour,omitempty"`
	CoreHour     float64 `json:"coreHour,omitempty"`
	MemoryGBHour float64 `json:"memoryGBHour,omitempty"`
}

// ZoneStatus is what was seen.
type ZoneStatus struct {
	Health  ZoneHealth `json:"health,omitempty"`
	Message fault.Text `json:"message,omitzero"`
	Nodes   int        `json:"nodes,omitempty"`
	Ready   int        `json:"ready,omitempty"`
	Devices int        `json:"devices,omitempty"`
}
