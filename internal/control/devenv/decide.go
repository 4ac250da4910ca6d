package devenv

import (
	"math"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	kind "github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/internal/control/work"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// decide is the whole judgement: pure, level-triggered.
func decide(s *work.Seen, now time.Time) work.Plan {
	e := s.Work.(*kind.DevEnvironment)
	if e.IsDue() && s.Placement == nil && len(s.Others) == 0 {
		return started(e)
	}
	kept := *s
	kept.ArchiveAfter = math.MaxInt64 // never: see doc.go
	status, plan, changed := work.Steady(&kept, &e.Status, e.Spec.Restart, now)
	if e.Status.Phase.Finished() && !plan.Erase {
		plan.Wake = 0 // somebody's word is what it waits for
	}
	if len(status.Zones) == 0 {
		status.Zones = e.Status.Zones // where its home is
	}
	if status.Phase == api.PhaseCompleted && e.Status.Phase != api.PhaseCompleted {
		status.Phase, status.Reason = api.PhaseStopped, "CommandEnded"
		status.Message = fault.T("Its command ended; start it again when you need it.", "启动命令已结束；需要时可再次启动。")
	}
	if changed {
		next := *e
		next.Status = status
		plan.Next = &next
	}
	return plan
}

// started begins its next life: as if it were new, but for what counts up and where its home is.
func started(e *kind.DevEnvironment) work.Plan {
	next := *e
	was := &e.Status
	next.Status = work.Status{
		Phase: api.PhasePending, Reason: "StartRequested", Message: fault.T("Waiting to be placed.", "等待调度。"),
		Attempt: was.Attempt, Zones: was.Zones, Starts: e.Spec.Starts,
	}
	return work.Plan{Next: &next}
}
