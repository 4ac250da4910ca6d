package train

import (
	"context"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/blob/logbook"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// LogReader gives a task's log and forgets it.
type LogReader interface {
	// Read emits existing lines, then with Follow new ones until ctx ends or Done is closed and
	// everything was emitted. An error of emit ends it and is returned.
	Read(ctx context.Context, taskID string, opts logbook.ReadOptions, emit func(replica string, l logbook.Line) error) error
	// Delete removes the task's whole log; absent is fine.
	Delete(ctx context.Context, taskID string) error
}

// Live is what the leader's memory knows of tasks. Nil where this process has no such knowledge.
// All calls are quick and safe for concurrent use; Unavailable means: ask another replica.
type Live interface {
	// Why explains why work is where it is.
	Why(ctx context.Context, work api.Work) (Explanation, error)
	// Replicas lists the replicas of a task's attempts that are known now; none is fine.
	Replicas(ctx context.Context, taskID string) ([]ReplicaView, error)
	// Preview says what would become of prepared work if it were submitted now.
	Preview(ctx context.Context, work api.Work) (api.Preview, error)
	// Move reserves another place for a running task and asks it to go there, or only says what that
	// would mean. Fault Conflict says why there is no such place.
	Move(ctx context.Context, work api.Work, wish MoveWish) (api.Move, error)
	// Probe has something done to a rank, or has it looked at. Fault NotFound: there is no such rank;
	// Conflict: it can't be done there.
	Probe(ctx context.Context, task *api.TrainingTask, wish FaultWish) (ProbeView, error)
}

// Checkpoints are what of the ranks' states outlives them.
type Checkpoints interface {
	// List gives those of a task, oldest first; none is fine. Fault Unavailable when a store is away.
	List(ctx context.Context, taskID string) ([]api.Checkpoint, error)
	// Pin keeps one whatever the policy says, in every tier that has it, or no longer.
	Pin(ctx context.Context, taskID, name string, pinned bool) error
	// Verify has the server read every byte of those in the shared store, beside all else; List tells when
	// that is done. Fault Unavailable when too many wait.
	Verify(ctx context.Context, taskID string, names []string) error
	// Image opens what a rank has of one in a tier. Fault NotFound: this server does not reach it there.
	Image(ctx context.Context, taskID, name, tier string, rank int) (RankImage, error)
	// Erase deletes all of them; it may be said again.
	Erase(ctx context.Context, taskID string) error
}

// Explanation is one dominant reason, its evidence, and what would change it.
type Explanation struct {
	Reason         string       `json:"reason" doc:"Machine-readable: the one dominant reason."`
	Message        fault.Text   `json:"message"`
	Evidence       []fault.Text `json:"evidence,omitempty" doc:"What was looked at."`
	EstimatedStart *time.Time   `json:"estimatedStart,omitempty"`
	Action         fault.Text   `json:"action,omitzero" doc:"What would change it."`
	// Moves are all needed, in any order.
	Moves []api.TaskMove `json:"moves,omitempty" doc:"Running tasks that could move, after which it starts; the least work is lost so."`
}

// ReplicaView is one replica as people see it.
type ReplicaView struct {
	Name      string        `json:"name"`
	Role      string        `json:"role"`
	Index     int           `json:"index"`
	Rank      int           `json:"rank"`
	Attempt   int           `json:"attempt"`
	Zone      string        `json:"zone,omitempty"`
	Node      string        `json:"node,omitempty"`
	Devices   int           `json:"devices,omitempty"`
	DeviceIDs []string      `json:"deviceIds,omitempty" doc:"UUIDs, or indices where there is none."`
	State     string        `json:"state" doc:"Created, Running, Exited or Done."`
	Attached  bool          `json:"attached,omitempty" doc:"Its launcher is connected."`
	Spare     string        `json:"spare,omitempty" doc:"It holds no rank and stands by: starting, ready, warm or leaving."`
	StartedAt *time.Time    `json:"startedAt,omitempty"`
	StoppedAt *time.Time    `json:"finishedAt,omitempty"`
	ExitCode  *int          `json:"exitCode,omitempty"`
	Signal    string        `json:"signal,omitempty"`
	Reason    string        `json:"reason,omitempty"`
	Message   string        `json:"message,omitempty"`
	CPUTime   time.Duration `json:"cpuTime,omitempty" doc:"Nanoseconds."`
	Memory    api.Bytes     `json:"memory,omitempty"`
	PeakBytes api.Bytes     `json:"peakBytes,omitempty"`
}
