package steady

import (
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Status is the status of work that is started, kept running and started again as a whole. Kinds that
// have more to say embed it.
type Status struct {
	Phase   api.Phase  `json:"phase,omitempty"`
	Reason  string     `json:"reason,omitempty" doc:"Machine-readable: why it is in this phase."`
	Message fault.Text `json:"message,omitzero"`
	// Attempt numbers the sets of replicas; it only grows. 0: none was started yet.
	Attempt int `json:"attempt,omitempty"`
	// Restarts are the times of restarts within the policy's window.
	Restarts   []time.Time      `json:"restarts,omitempty"`
	PlacedAt   *time.Time       `json:"placedAt,omitempty"`
	StartedAt  *time.Time       `json:"startedAt,omitempty"`
	FinishedAt *time.Time       `json:"finishedAt,omitempty"`
	Replicas   api.ReplicaCount `json:"replicas,omitzero"`
	ExitCode   *int             `json:"exitCode,omitempty"`
	Zones      []string         `json:"zones,omitempty" doc:"Where it runs or ran."`
	// Home is the machine whose disk has its home, for kinds that have one.
	Home string `json:"home,omitempty" doc:"The machine that joined on whose disk its home is; it starts there alone. Absent: its home is its zone's."`
	// Starts is how many calls of start were heard, for kinds that are started again by people.
	Starts int `json:"starts,omitempty" doc:"How many calls of start were heard."`
}

// Show puts a status into a view.
func (s *Status) Show(w *api.Workload) {
	w.Phase, w.Attempt = s.Phase, s.Attempt
	w.Ran = api.Ran{
		Reason: s.Reason, Message: s.Message, PlacedAt: s.PlacedAt, StartedAt: s.StartedAt, FinishedAt: s.FinishedAt, Zones: s.Zones,
	}
}
