package devenv

import (
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/asset"
	kind "github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/internal/control/work"
)

// lostRestarts is how often a snapshot begins again whose launcher or node was lost. What could not be read or sent is not tried again.
const lostRestarts = 3

// lookAgain is when what was made is looked at again where that failed.
const lookAgain = time.Second

// saving is how often what saves a home is started again.
func saving(s *work.Seen) *api.RestartPolicy {
	policy := &api.RestartPolicy{MaxRestarts: lostRestarts}
	if m := s.Failed(); m != nil && m.Known.Exit != nil && !m.Known.Exit.Lost() {
		policy.MaxRestarts = 0
	}
	return policy
}

// saved is a turn of an environment whose home is being saved. With its end the environment is stopped again, as it was.
func saved(s *work.Seen, e *kind.DevEnvironment, status work.Status, plan work.Plan, changed bool, now time.Time) work.Plan {
	if !changed {
		return plan
	}
	next := *e
	next.Status.Status = status
	if status.Phase == api.PhaseCompleted && s.Made == nil { // nobody could look at it yet
		return work.Plan{Wake: lookAgain}
	}
	if status.Phase.Finished() {
		var made asset.AssetStatus
		if d, ok := s.Made.(*asset.Dataset); ok {
			made = d.Status
		}
		kind.Snapshots{Of: e}.End(&next.Status, made.Latest, made.Size, now)
		for i := range plan.Events {
			if told := &plan.Events[i]; strings.HasPrefix(told.Once, "end-") {
				told.Warning, told.Reason, told.Message = next.Status.Reason == "SnapshotFailed", next.Status.Reason, next.Status.Message
			}
		}
	}
	plan.Next = &next
	return plan
}
