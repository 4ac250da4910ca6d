package serving

import (
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// ServiceAutoscale is how many replicas there are by what is asked of them. spec.replicas is where it begins.
type ServiceAutoscale struct {
	MinReplicas int           `json:"minReplicas,omitempty" explicit:"nonzero" minimum:"0" maximum:"1000" doc:"0: none while nobody asks; the first request waits until one answers."`
	MaxReplicas int           `json:"maxReplicas" minimum:"1" maximum:"1000"`
	Metrics     []ScaleMetric `json:"metrics,omitempty" maxItems:"8" doc:"The one that wants most replicas counts; concurrency with target 8 when absent."`
	Policy      ScalePolicy   `json:"policy,omitzero"`
	Schedule    []ScaleWindow `json:"schedule,omitempty" maxItems:"32" doc:"Other bounds at times of the day; the first that holds counts."`
}

// ScaleMetric is what is measured and how much of it a replica should have.
type ScaleMetric struct {
	Type   MetricType `json:"type" enum:"concurrency,qps,queue,tokens,latency,cpu,device"`
	Target float64    `json:"target" doc:"Of each replica: requests at once or waiting, requests or tokens a second; of latency: seconds until 95 of 100 answers have begun; of cpu and device: percent of its cores, or of the time of its accelerators, that are used."`
}

// MetricType is what gateways count, or launchers see.
type MetricType string

// The metrics.
const (
	MetricConcurrency MetricType = "concurrency"
	MetricQPS         MetricType = "qps"
	MetricQueue       MetricType = "queue"
	MetricTokens      MetricType = "tokens"
	MetricLatency     MetricType = "latency"
	MetricCPU         MetricType = "cpu"
	MetricDevice      MetricType = "device"
)

// Looks says that the number of replicas depends on what they use.
func (a *ServiceAutoscale) Looks() bool {
	return a != nil && slices.ContainsFunc(a.Metrics, func(m ScaleMetric) bool { return m.Type == MetricCPU || m.Type == MetricDevice })
}

// MetricTypes lists them.
var MetricTypes = []MetricType{MetricConcurrency, MetricQPS, MetricQueue, MetricTokens, MetricLatency, MetricCPU, MetricDevice}

// ScalePolicy is how fast.
type ScalePolicy struct {
	Window api.Duration `json:"window,omitempty" doc:"Over which is measured; 60s when absent. A tenth of it, measured for itself, ends in more replicas at once when it asks for twice as many (panic)."`
	Up     api.Duration `json:"up,omitempty" doc:"Time between two steps up; none when absent."`
	Down   api.Duration `json:"down,omitempty" doc:"Time without a change before a step down; 60s when absent."`
}

// ScaleWindow are other bounds for a time of the day.
type ScaleWindow struct {
	From        string `json:"from" maxLength:"5" doc:"As 08:00."`
	To          string `json:"to" maxLength:"5" doc:"As 20:00; may be the next day's."`
	Days        []int  `json:"days,omitempty" maxItems:"7" doc:"1 (Monday) to 7; every day when absent. Of from."`
	TimeZone    string `json:"timeZone,omitempty" maxLength:"64" doc:"As Asia/Shanghai; UTC when absent."`
	MinReplicas int    `json:"minReplicas" minimum:"0" maximum:"1000"`
	MaxReplicas int    `json:"maxReplicas" minimum:"1" maximum:"1000"`
}

// ScaleStatus is what autoscaling decided last.
type ScaleStatus struct {
	Wanted  int         `json:"wanted"`
	Reason  string      `json:"reason,omitempty"`
	Message fault.Text  `json:"message,omitzero"`
	At      time.Time   `json:"at,omitzero" doc:"When it changed."`
	Log     []ScaleStep `json:"log,omitempty" doc:"The newest twenty changes, oldest first."`
}

// ScaleStep is one change of the number of replicas, and why.
type ScaleStep struct {
	At      time.Time  `json:"at"`
	From    int        `json:"from"`
	To      int        `json:"to"`
	Reason  string     `json:"reason"`
	Message fault.Text `json:"message"`
}

// LoadReport is what a gateway tells the leader, each second and when a request waits for a service that has no replica.
// Counters count since the gateway began.
type LoadReport struct {
	Gateway  string        `json:"gateway"`
	Services []ServiceLoad `json:"services"`
	Served   []Served      `json:"served,omitempty" doc:"What changed since the last report that was taken."`
	Logs     []LogPiece    `json:"logs,omitempty" doc:"Lines about requests, of services that ask for them."`
}

// LogPiece is a part of a gateway's log of a service.
type LogPiece struct {
	ServiceID string `json:"serviceId"`
	Offset    int64  `json:"offset" doc:"Of its first byte."`
	Data      []byte `json:"data,omitempty"`
}

// ServiceLoad is what is asked of one service.
type ServiceLoad struct {
	ServiceID string         `json:"serviceId"`
	Busy      int            `json:"busy,omitempty"`
	Waiting   int            `json:"waiting,omitempty"`
	Revisions []RevisionLoad `json:"revisions,omitempty"`
}

// RevisionLoad is what was asked of one revision.
type RevisionLoad struct {
	Revision int     `json:"revision"`
	Requests int64   `json:"requests,omitempty"`
	Errors   int64   `json:"errors,omitempty"`
	Tokens   int64   `json:"tokens,omitempty"`
	Begun    []int64 `json:"begun,omitempty" doc:"Answers by the time until they began: the i-th bucket ends at LoadBound(i)."`
}

// LoadBuckets is how many times of first bytes are told apart.
const LoadBuckets = 20

// LoadBound is where a bucket ends: 1 ms, then twice as much each.
func LoadBound(i int) time.Duration { return time.Millisecond << i }
