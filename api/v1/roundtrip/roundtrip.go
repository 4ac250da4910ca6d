package roundtrip

import (
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// MeasuredLatency is a round trip as it was.
type MeasuredLatency struct {
	P50Ms    float64   `json:"p50Ms" doc:"The usual one: the median over what was measured."`
	P99Ms    float64   `json:"p99Ms" doc:"A slow one; of few samples the slowest."`
	Samples  int       `json:"samples,omitempty"`
	At       time.Time `json:"at"`
	FromNode string    `json:"fromNode,omitempty" doc:"A node of this zone that measured it; absent where an operator reported it."`
	ToNode   string    `json:"toNode,omitempty" doc:"The node that answered."`
	Task     string    `json:"task,omitempty" doc:"PROJECT/NAME of the task whose preflight it was."`
	Stale    bool      `json:"stale,omitempty" doc:"It is older than a day: what is declared counts again."`
}

// ZoneMatrix is how far zones are from each other.
type ZoneMatrix struct {
	Items []ZoneDistance `json:"items" doc:"Each pair once, by name."`
}

// ZoneDistance is what is declared and what was measured between two zones, and what is used.
type ZoneDistance struct {
	From          string           `json:"from"`
	To            string           `json:"to"`
	DeclaredMs    *float64         `json:"declaredMs,omitempty" doc:"The slower of what both zones declare; absent where neither does."`
	DeclaredP99Ms *float64         `json:"declaredP99Ms,omitempty"`
	Measured      *MeasuredLatency `json:"measured,omitempty" doc:"The newer of what both zones measured; absent where nothing was."`
	OneMachine    bool             `json:"oneMachine,omitempty" doc:"All nodes of both zones are virtual and on one machine: there is no network between them to measure."`
	Encrypted     bool             `json:"encrypted,omitempty" doc:"What machines of both zones send each other is encrypted, or not sent."`
	UsedMs        float64          `json:"usedMs" doc:"What placement, preview and the estimate of efficiency use."`
	Source        string           `json:"source" enum:"measured,declared,assumed" doc:"Where that comes from."`
	Class         string           `json:"class" doc:"near (below 2 ms), regional (below 5), far (to 50) or remote."`
	Action        fault.Text       `json:"action" doc:"What this class is good for."`
	Efficiency    float64          `json:"efficiency" doc:"Estimated efficiency in percent of a synchronous task on two nodes, one in each zone."`
}

// Crossing is a pair of zones that a task runs in both of.
type Crossing struct {
	From       string  `json:"from"`
	To         string  `json:"to"`
	LatencyMs  float64 `json:"latencyMs,omitempty" doc:"The usual round trip: the median over the pairs; absent where none was measured."`
	SlowestMs  float64 `json:"slowestMs,omitempty" doc:"That of the slowest pair."`
	Pairs      int     `json:"pairs,omitempty" doc:"How many were measured."`
	FromNode   string  `json:"fromNode,omitempty" doc:"The nodes of the pair with the usual one."`
	ToNode     string  `json:"toNode,omitempty"`
	OneMachine bool    `json:"oneMachine,omitempty" doc:"The nodes are on one machine: there is no network between them to measure."`
}
