package v1

import "time"

// Preview is what would become of a task if it were submitted now: where it would stand, what that
// costs, and what else could be had.
type Preview struct {
	// Fits says that it would start at once.
	Fits   bool   `json:"fits"`
	Reason string `json:"reason,omitempty" doc:"Machine-readable: why it would wait."`
	// Message, Action: as of a waiting task.
	Message Text `json:"message,omitzero"`
	Action  Text `json:"action,omitzero"`
	// Start is known where StartBasis is now or predicted.
	Start      *time.Time `json:"start,omitempty"`
	StartBasis string     `json:"startBasis" doc:"now, predicted or unknown."`
	// Planned is where it would stand; where it does not fit now, an estimate on empty nodes.
	Planned      *PlacementOption  `json:"planned,omitempty"`
	Alternatives []PlacementOption `json:"alternatives,omitempty" doc:"At most three."`
	// Windows are for tasks that say how long they run.
	Windows []StartWindow `json:"windows,omitempty" doc:"The cheapest and the cleanest hours to start it, within a day or before its deadline; absent where now is best."`
}

// PlacementOption is one place for a gang, and what it means.
type PlacementOption struct {
	Name      string `json:"name" doc:"planned, cheaper, faster, greener, safer or sooner; current is where a task to be moved stands."`
	Estimated bool   `json:"estimated,omitempty" doc:"It does not fit now; this is a guess on empty nodes."`
	Text      Text   `json:"text,omitzero" doc:"What is won and what is lost against the planned place."`
	Change    Text   `json:"change,omitzero" doc:"What the manifest has to say for it."`

	Zones     []ZonePart `json:"zones"`
	Nodes     []NodePart `json:"nodes,omitempty" doc:"The first 64; nodeCount says how many there are."`
	NodeCount int        `json:"nodeCount"`

	Prices     []PriceParts    `json:"prices" doc:"One for each currency."`
	Latency    LatencyNote     `json:"latency"`
	Efficiency EfficiencyNote  `json:"efficiency"`
	Energy     EnergyNote      `json:"energy"`
	RackLoss   RackLoss        `json:"rackLoss"`
	Moving     Duration        `json:"moving,omitempty" doc:"How long it takes to bring spec.zones.data there, at the bandwidth between the zones, 1 Gbit/s where none is declared."`
	Expected   *ExpectedTotals `json:"expected,omitempty" doc:"Over expectedTime, from the start, or from now where that is unknown."`
}

// ZonePart is what stands in one zone.
type ZonePart struct {
	Zone     string `json:"zone"`
	Region   string `json:"region,omitempty"`
	Degraded bool   `json:"degraded,omitempty"`
	Nodes    int    `json:"nodes"`
	Replicas int    `json:"replicas"`
	Devices  int    `json:"devices,omitempty"`
	// LossLeaves is what is left of the task when this zone is lost.
	LossLeaves int `json:"lossLeaves" doc:"Replicas that stand in other zones: what the loss of this one leaves."`
}

// NodePart is what stands on one node.
type NodePart struct {
	Node       string `json:"node"`
	Zone       string `json:"zone"`
	Rack       string `json:"rack,omitempty"`
	Replicas   int    `json:"replicas"`
	Devices    int    `json:"devices,omitempty"`
	DeviceType string `json:"deviceType,omitempty"`
}

// PriceParts is a price an hour, by what is paid for. Numbers are exact to a millionth.
type PriceParts struct {
	Currency string  `json:"currency"`
	Devices  float64 `json:"devices"`
	CPU      float64 `json:"cpu"`
	Memory   float64 `json:"memory"`
	// Crossing is not part of Total: how much will cross is not known before the task runs.
	CrossingGB float64 `json:"crossingGB" doc:"For each GB between the zones, apart from the total; 0 in one zone or where it is free."`
	Total      float64 `json:"total"`
	Spot       bool    `json:"spot,omitempty" doc:"At the price of preemptible tasks."`
}

// LatencyNote is the worst round trip between two of the gang's zones.
type LatencyNote struct {
	P50Ms         float64 `json:"p50Ms" doc:"0 within one zone."`
	P99Ms         float64 `json:"p99Ms,omitempty" doc:"Absent when unknown."`
	BandwidthGbps float64 `json:"bandwidthGbps,omitempty" doc:"Of the narrowest link; absent when unknown."`
	From          string  `json:"from,omitempty"`
	To            string  `json:"to,omitempty"`
	Source        string  `json:"source,omitempty" doc:"measured, declared or assumed; absent within one zone."`
	Class         string  `json:"class" doc:"near (below 2 ms), regional (below 5), far (to 50) or remote."`
	Action        Text    `json:"action" doc:"What this class is good for."`
}

// EfficiencyNote is how much of the devices' power reaches the work.
type EfficiencyNote struct {
	Percent float64 `json:"percent"`
	Basis   string  `json:"basis" doc:"estimated, or measured on finished tasks of the same recipe."`
	Runs    int     `json:"runs,omitempty" doc:"How many of those."`
}

// EnergyNote is power and carbon at the start.
type EnergyNote struct {
	KW           float64  `json:"kw" doc:"With cooling."`
	GramsPerHour *float64 `json:"gramsPerHour,omitempty" doc:"CO₂; absent where a zone does not say how clean its power is."`
	Basis        string   `json:"basis" doc:"estimated: from tables of device power."`
}

// RackLoss is what the failure of the worst rack takes.
type RackLoss struct {
	Racks    int    `json:"racks"`
	Rack     string `json:"rack,omitempty"`
	Zone     string `json:"zone,omitempty"`
	Replicas int    `json:"replicas"`
	Percent  int    `json:"percent" doc:"Of all replicas, rounded up."`
}

// ExpectedTotals is what the whole run comes to.
type ExpectedTotals struct {
	Prices []PriceTotal `json:"prices"`
	KWh    float64      `json:"kwh"`
	Grams  *float64     `json:"grams,omitempty"`
}

// PriceTotal is an amount of money.
type PriceTotal struct {
	Currency string  `json:"currency"`
	Total    float64 `json:"total"`
}

// StartWindow is a good time to start.
type StartWindow struct {
	For    string         `json:"for" doc:"price or carbon."`
	Start  time.Time      `json:"start"`
	Totals ExpectedTotals `json:"totals"`
}

// Outage is what would become of the tasks in a zone if it were lost now, or on a node if it were drained.
type Outage struct {
	Zone  string       `json:"zone"`
	Node  string       `json:"node,omitempty" doc:"Of a drain: the node, or node/device."`
	Move  int          `json:"move" doc:"Tasks that would start elsewhere at once."`
	Wait  int          `json:"wait" doc:"Tasks that would wait."`
	Items []OutageTask `json:"items" doc:"The first to be served first; at most 1000."`
	More  int          `json:"more,omitempty" doc:"Tasks that are not in items."`
}

// OutageTask is one of them. A task that loses a replica is placed anew as a whole.
type OutageTask struct {
	Project  string `json:"project"`
	Name     string `json:"name"`
	Replicas int    `json:"replicas"`
	Lost     int    `json:"lost" doc:"Replicas that stand in the zone, or on the node."`
	// To is empty for one that would wait.
	To      map[string]int `json:"to,omitempty" doc:"Where it would go: replicas by zone."`
	Reason  string         `json:"reason,omitempty" doc:"Machine-readable: why it would wait."`
	Message Text           `json:"message,omitzero"`
	Action  Text           `json:"action,omitzero"`
}
