package v1

import "time"

// QueueShare is how a queue stands now, with all queues below it. Amounts are by resource: cpu in
// cores, memory in GiB, devices of any type, or a device type.
type QueueShare struct {
	Queue     string             `json:"queue"`
	Parent    string             `json:"parent,omitempty"`
	Children  []string           `json:"children,omitempty"`
	Paused    bool               `json:"paused,omitempty" doc:"It, or a queue above it, lets nothing start."`
	Weight    int                `json:"weight"`
	Guarantee map[string]float64 `json:"guarantee,omitempty"`
	Limit     map[string]float64 `json:"limit,omitempty"`
	Used      map[string]float64 `json:"used,omitempty"`
	Borrowed  map[string]float64 `json:"borrowed,omitempty" doc:"Used beyond its guarantee, of what somebody is guaranteed: it may be taken back."`
	Share     float64            `json:"share" doc:"The largest part it uses of any one resource of the cluster, 0 to 1."`
	Dominant  string             `json:"dominant,omitempty" doc:"Which resource that is."`
	FairShare float64            `json:"fairShare" doc:"The part of the cluster it may count on now: its parent's, divided by weight among siblings that use something or wait, and no less than its guarantee."`
	Warning   Text               `json:"warning,omitzero" doc:"Guarantees that can't all be met at once."`
	Waiting   int                `json:"waiting"`
	Running   int                `json:"running"`
	Waits     []ShareTask        `json:"waits,omitempty" doc:"Of one queue: the tasks next in turn, at most ten. Those that you may not see have no name."`
	Runs      []ShareTask        `json:"runs,omitempty" doc:"Of one queue: the largest that run, at most ten."`
}

// ShareTask is a task as its queue shows it.
type ShareTask struct {
	ID             string     `json:"id,omitempty"`
	Project        string     `json:"project,omitempty"`
	Name           string     `json:"name,omitempty"`
	Queue          string     `json:"queue"`
	Devices        float64    `json:"devices"`
	Since          *time.Time `json:"since,omitempty" doc:"When it was submitted, or started."`
	Reason         string     `json:"reason,omitempty" doc:"Why it waits."`
	Message        Text       `json:"message,omitzero"`
	EstimatedStart *time.Time `json:"estimatedStart,omitempty"`
}
