package devenv

import (
	"math"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	kind "github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/internal/control/work"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Decide is the whole judgement: pure, level-triggered.
func (r *rules) Decide(s *work.Seen, now time.Time) work.Plan { return decide(s, r.policy, now) }

func decide(s *work.Seen, policy kind.Policy, now time.Time) work.Plan {
	e := s.Work.(*kind.DevEnvironment)
	if (e.IsDue() || (kind.Snapshots{Of: e}).Due() || (kind.Moves{Of: e}).Due()) && s.Placement == nil && len(s.Others) == 0 {
		if wait := ending(s, now); wait > 0 {
			return work.Plan{Wake: wait, End: names(s.Given)}
		}
		if (kind.Snapshots{Of: e}).Due() { // before anything changes in its home
			next := *e
			next.Status = (kind.Snapshots{Of: e}).Begin()
			return work.Plan{Next: &next}
		}
		if (kind.Moves{Of: e}).Due() {
			return moving(s, e, now)
		}
		return started(s, e)
	}
	kept := *s
	kept.ArchiveAfter = math.MaxInt64 // never: see doc.go
	kept.Pinned = true                // by its home
	waits := stay(&kept)
	restart := e.Spec.Restart
	if e.Saves() {
		restart = saving(s)
	}
	status, plan, changed := work.Steady(&kept, &e.Status.Status, restart, now)
	switch {
	case waits && status.Reason != waiting && !status.Phase.Finished():
		status.Reason, changed = waiting, true
		status.Message = fault.T("Waiting for task %s, which runs inside it, to end.", "正在等待在其中运行的任务 %s 结束。", s.Guest)
	case !waits && status.Reason == waiting && status.Phase == api.PhaseRunning: // it shall stay after all
		status.Reason, status.Message, changed = "Started", fault.T("All its processes run.", "全部进程已运行。"), true
	}
	if e.Status.Phase.Finished() && !plan.Erase {
		plan.Wake = 0 // somebody's word is what it waits for
	}
	if len(status.Zones) == 0 {
		status.Zones = e.Status.Zones // where its home is
	}
	home := homeOf(s, e.Status.Home)
	if status.Phase == api.PhaseInitializing && e.Status.Phase == api.PhasePending || status.Phase == api.PhasePending && home != "" {
		status.Home = home
		changed = changed || status.Home != e.Status.Home
	}
	if e.Saves() {
		return saved(s, e, status, plan, changed, now)
	}
	if status.Phase == api.PhaseCompleted && e.Status.Phase != api.PhaseCompleted {
		status.Phase, status.Reason = api.PhaseStopped, "CommandEnded"
		status.Message = fault.T("Its command ended; start it again when you need it.", "启动命令已结束；需要时可再次启动。")
	}
	if status.Phase == api.PhaseFailed && status.Reason == "NodeLost" && e.Status.Phase != api.PhaseFailed {
		status.Message = fault.Text{
			EN: status.Message.EN + " If its home was on that machine alone, wait until the machine is back and uncordoned; then, or to begin with the home that its zone has: fermi env start " + e.Meta.Name + ".",
			ZH: status.Message.ZH + "若其主目录只在该机器上，请等待机器恢复并解除隔离；之后，或以可用区中现有的主目录重新开始：fermi env start " + e.Meta.Name + "。",
		}
	}
	endedBy(e, &status)
	next := *e
	next.Status.Status = status
	if status.Phase == api.PhaseRunning && e.Spec.From != nil && !e.Status.Filled {
		next.Status.Filled, changed = true, true
	}
	if move(s, e, &next, &plan, now) {
		changed = true
	}
	clocked := schedule(s, &next, &plan, now)
	trained := lend(s, &next, now)
	if rest(s, &next, &plan, policy, now) || clocked || changed || trained {
		plan.Next = &next
	}
	return plan
}

// waiting is the reason of an environment that shall end, and does when the task inside it has.
const waiting = "GuestEnds"

// stay has an environment that shall end, or leave its place, wait for the task inside it: devices are never free while a rank of it has them.
// What has ended by itself waits for nobody.
func stay(s *work.Seen) bool {
	leaves := s.View.Stop || s.Placement != nil && s.Placement.Spec.Evict != nil
	if s.Guest == "" || !leaves || s.View.Phase.Finished() {
		return false
	}
	s.View.Stop = false
	if s.Placement != nil && s.Placement.Spec.Evict != nil {
		p := *s.Placement
		p.Spec.Evict = nil
		s.Placement = &p
	}
	return true
}

// lend notes who trains inside an environment, and when somebody left; it says whether next was changed.
func lend(s *work.Seen, next *kind.DevEnvironment, now time.Time) bool {
	if next.Status.InUseBy == s.Guest {
		return false
	}
	if s.Guest == "" {
		next.Status.TrainedAt = &now
	}
	next.Status.InUseBy = s.Guest
	return true
}

// endsWithin is how long after somebody's word whoever can be reached at all has ended.
const endsWithin = 15 * time.Second

// ending is how long to wait for replicas on a node that was declared lost: one that is still seen may yet be ended, so that its home is
// not open twice.
func ending(s *work.Seen, now time.Time) (wait time.Duration) {
	for i := range s.Given {
		wait = max(wait, endsWithin-now.Sub(s.Given[i].Hold.Since))
	}
	return wait
}

func names(list []work.GivenUp) (out []engine.Name) {
	for i := range list {
		out = append(out, list[i].Name)
	}
	return out
}

// homeOf is the node where its home is: the machine that joined, once it has started there, or the one that its engine found to reach the home's volume.
// "": the home is its zone's. was is what it was until now.
func homeOf(s *work.Seen, was string) string {
	for i := range s.Members {
		if home := s.Members[i].Known.Home; home != "" {
			return home
		}
		if n := s.Members[i].Node; n != nil && (n.Spec.Agent != nil || n.Meta.Name == was) {
			return n.Meta.Name
		}
	}
	return ""
}

// started begins its next life: as if it were new, but for what counts up and where its home is. A home on a machine that an operator
// gave up, and that is not back, is given up with this word.
func started(s *work.Seen, e *kind.DevEnvironment) work.Plan {
	next := *e
	was := &e.Status
	next.Status = kind.Status{Status: work.Status{
		Phase: api.PhasePending, Reason: "StartRequested", Message: fault.T("Waiting to be placed.", "等待调度。"),
		Attempt: was.Attempt, Zones: was.Zones, Starts: e.Spec.Starts, Home: was.Home,
	}, Schedule: was.Schedule, HomeState: was.HomeState}
	if s := was.Schedule; s != nil && s.Stopped != nil {
		next.Status.Schedule = &kind.Scheduled{Schedule: s.Schedule, Since: s.Since}
	}
	if was.Reason == "NodeLost" && slices.ContainsFunc(s.Given, func(g work.GivenUp) bool { return g.Node == was.Home }) {
		next.Status.Home = ""
	}
	return work.Plan{Next: &next}
}
