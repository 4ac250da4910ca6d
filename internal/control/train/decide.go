package train

import (
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/control/save"
	"github.com/fermi-cluster/fermi/internal/control/train/blame"
	"github.com/fermi-cluster/fermi/internal/control/train/figure"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// decide is the whole judgement: pure, level-triggered, running it twice changes nothing.
func decide(s snapshot, now time.Time) plan {
	p := plan{status: s.Task.Status}
	p.status.Restarts, p.status.Roles = slices.Clone(p.status.Restarts), slices.Clone(p.status.Roles)
	s.sweepOthers(&p, now)
	if s.hush(&p, now) {
		return p
	}
	if s.waitForGuest(&p) {
		return p
	}
	wanted := !s.Task.Spec.Stop && s.Task.Meta.DeletedAt == nil
	switch {
	case p.status.Phase == "":
		p.to(api.PhasePending, "Submitted", fault.T("Waiting to be placed.", "等待调度。"))
	case p.status.Phase.Finished():
		s.ending().finished(&p, now)
	case !wanted:
		s.ending().stopping(&p, now)
	case s.Placement == nil:
		s.unplaced(&p, now)
	case s.homeless != nil:
		s.ending().bereft(&p, now)
	case s.Placement.Spec.Evict != nil:
		s.ending().leave(&p, now)
	case s.goesBack():
		s.ending().rewind(&p)
	case s.Placement.Spec.Shrink != nil && s.Settled():
		s.resizing().shrunk(&p)
	case p.status.Phase == api.PhasePending:
		s.begin(&p, now)
	default:
		s.proceed(&p, now)
	}
	s.figures(&p, now)
	return p
}

// figures writes down what the turn brought to know of the task.
func (s *snapshot) figures(p *plan, now time.Time) {
	f := figure.Turn{
		Terms: s.Terms, Members: s.Members, Before: &s.Task.Status, After: &p.status, Over: p.archive || p.erase,
		Leaves: s.Leaves() || s.Task.Meta.DeletedAt != nil || s.goesBack(), Now: now, Clock: s.mark, Wake: p.wake, Changed: p.commit,
	}
	f.Recoveries()
	f.Pace()
	s.tune(&p.status, now)
	f.Use(s.base)
	f.Stragglers()
	f.Saved(s.saved)
	f.Time()
	p.commit, p.wake, p.events = p.commit || f.Changed, f.Wake, append(p.events, f.Events...)
	replaceStraggler(s, p, now)
}

// tune finds anew how often the task saves, whenever its pace is written down, and in the same write.
func (s *snapshot) tune(status *api.TrainingTaskStatus, now time.Time) {
	if !s.Task.Spec.Tunes(api.MemoryTier) || status.Phase != api.PhaseRunning || status.Pace == nil || status.Pace == s.Task.Status.Pace {
		return
	}
	if s.Members.Any(func(m *gang.Member) bool { return m.Said.Printed }) {
		return // scripts without the SDK save nothing here
	}
	status.Intervals = save.Intervals(save.Measured{Spec: &s.Task.Spec, Status: status, Members: s.Members, Nodes: s.Everybody().Nodes(), Took: s.took}, now)
}

// sweepOthers ends and removes replicas that are not of the current attempt.
func (s *snapshot) sweepOthers(p *plan, now time.Time) {
	spared := s.resizing().spared(p, now)
	for _, o := range s.Others {
		switch {
		case o.State == engine.StateDone:
			p.remove = append(p.remove, o.Name)
			p.usage = p.usage || len(s.Surplus) > 0
		case o.State == engine.StateExited: // hands over
		case slices.Contains(spared, o.Name):
		default:
			p.stop = append(p.stop, o.Name)
		}
	}
}

func (s *snapshot) unplaced(p *plan, now time.Time) {
	if p.status.Phase != api.PhasePending {
		if !s.ending().endAll(p) {
			return
		}
		p.usage = true
		p.to(api.PhasePending, "PlacementLost", fault.T("Its placement went away; waiting for another.", "原有放置已失效，等待重新调度。"))
		p.tell(true, "PlacementLost", "lost-"+itoa(p.status.Attempt), p.status.Message)
		return
	}
	if t := s.Task.Spec.Timeouts; t != nil && t.Pending > 0 {
		left := t.Pending.Std() - now.Sub(waitsSince(s.Task))
		if left > 0 {
			p.wake = left
			return
		}
		code := 124
		p.status.ExitCode = &code
		s.ending().finish(p, now, api.PhaseFailed, "PendingTimeout", fault.T("It waited %s without finding a place.", "等待 %s 仍未获得资源。", t.Pending))
	}
}

// begin takes up a fresh placement.
func (s *snapshot) begin(p *plan, now time.Time) {
	if !s.ending().endAll(p) {
		return // old replicas first
	}
	if s.ending().failUnfit(p, now) {
		return
	}
	p.status.Attempt = max(p.status.Attempt+1, s.Placement.Spec.Attempt)
	p.status.Rendezvous = nil
	renewRoles(s.Task, &p.status)
	p.status.Preflight = nil
	p.status.PlacedAt = &now
	p.status.Zones = s.Members.Zones()
	p.status.Replicas = api.ReplicaCount{Total: len(s.Members), Starting: len(s.Members)}
	p.to(api.PhaseInitializing, "Placed", fault.T("Placed; its processes are being started.", "已放置，正在启动进程。"))
	p.tell(false, "Placed", "placed-"+itoa(p.status.Attempt), fault.T("Placed on %d [node|nodes].", "已放置到 %d 个节点。", s.Everybody().Nodes()))
}

// allRun says that every process has been started.
func (s *snapshot) allRun() fault.Text {
	if s.World == 1 {
		return fault.T("Its process runs.", "进程已运行。")
	}
	return fault.T("All %d processes run.", "全部 %d 个进程已运行。", s.World)
}

// proceed is for a task with a placement and a current attempt.
func (s *snapshot) proceed(p *plan, now time.Time) {
	end, size := s.ending(), s.resizing()
	end.count(p)
	switch {
	case end.failUnfit(p, now):
		return
	case s.checking().refuses(p):
		end.refuse(p, now)
		return
	case s.restoring().isAstray():
		end.loseOrigin(p, now)
		return
	case size.lose(p, now):
		return
	}
	if end.turnedAway(p) {
		return
	}
	if u, fail := firstLost(s.Units(&p.status)); u != nil {
		answer{s, u, p, now}.failing(fail)
		return
	}
	if end.succeeded(p) {
		end.complete(p, now)
		return
	}
	if size.isBroken(p) {
		answer{s, mainOf(&s.Gang, p), p, now}.failing(p.status.Failure)
		return
	}
	size.keepSpares(p, now)
	if size.resize(p, now) {
		return // whatever failed meanwhile was of a generation that is over
	}
	if (answer{s, mainOf(&s.Gang, p), p, now}).reopen() {
		return
	}
	s.carryOn(p, now)
}

// firstLost is the unit that lost a launcher first, and how; nil: none did.
func firstLost(units []gang.Unit) (guilty *gang.Unit, first *api.ReplicaFailure) {
	for i := range units {
		if f := blame.OfReplica(&units[i]); f != nil && (first == nil || blame.Earlier(f, first)) {
			guilty, first = &units[i], f
		}
	}
	return guilty, first
}

// firstFailed is the unit of which a rank failed first while its launcher lives, and how; nil: none did. wait: the culprit may
// still show itself.
func (s *snapshot) firstFailed(p *plan, units []gang.Unit, now time.Time) (guilty *gang.Unit, first *api.ReplicaFailure, wait time.Duration) {
	for i := range units {
		u := &units[i]
		f, more := blame.OfRank(u, p.status.Failure, now)
		if wait = max(wait, more); f == nil && more == 0 {
			f = answer{s, u, p, now}.hung()
		}
		if f != nil && (first == nil || blame.Earlier(f, first)) {
			guilty, first = u, f
		}
	}
	return guilty, first, wait
}

// carryOn sees to it that what shall run does, in every unit.
func (s *snapshot) carryOn(p *plan, now time.Time) {
	units := s.Units(&p.status)
	guilty, fail, wait := s.firstFailed(p, units, now)
	if guilty == nil && wait > 0 {
		p.wake = wait // the culprit may still show itself
		return
	}
	for i := range units {
		a := answer{s, &units[i], p, now}
		switch {
		case a.u.Rendezvous == nil:
			a.gather()
		case a.u == guilty:
			a.nextGeneration(fail)
		default:
			a.follow()
		}
	}
	if guilty != nil {
		return
	}
	if p.status.Replicas.Starting == 0 && p.status.Phase != api.PhaseRunning {
		if p.status.StartedAt == nil {
			p.status.StartedAt = s.Members.Started()
		}
		p.usage = true
		p.to(api.PhaseRunning, "Started", s.allRun())
		p.tell(false, "Started", "started-"+generations(&p.status), p.status.Message)
	}
	s.rest(p, units)
}
