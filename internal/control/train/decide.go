package train

import (
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// decide is the whole judgement: pure, level-triggered, running it twice changes nothing.
func decide(s seen, now time.Time) plan {
	p := plan{status: s.task.Status}
	p.status.Restarts, p.status.Roles = slices.Clone(p.status.Restarts), slices.Clone(p.status.Roles)
	s.sweepOthers(&p, now)
	if s.hosts(&p) {
		return p
	}
	wanted := !s.task.Spec.Stop && s.task.Meta.DeletedAt == nil
	switch {
	case p.status.Phase == "":
		p.to(api.PhasePending, "Submitted", fault.T("Waiting to be placed.", "等待调度。"))
	case p.status.Phase.Finished():
		s.finished(&p, now)
	case !wanted:
		s.stopping(&p, now)
	case s.placement == nil:
		s.unplaced(&p, now)
	case s.homeless != nil:
		s.bereft(&p, now)
	case s.placement.Spec.Evict != nil:
		s.leave(&p, now)
	case s.rewinds():
		s.rewind(&p, now)
	case s.placement.Spec.Shrink != nil && s.settled():
		s.shrunk(&p)
	case p.status.Phase == api.PhasePending:
		s.begin(&p, now)
	default:
		s.proceed(&p, now)
	}
	s.interruptions(&p, now)
	s.speed(&p, now)
	s.tunes(&p, now)
	s.uses(&p, now)
	s.stragglers(&p, now)
	return p
}

// sweepOthers ends and removes replicas that are not of the current attempt.
func (s *seen) sweepOthers(p *plan, now time.Time) {
	spared := s.spared(p, now)
	for _, o := range s.others {
		switch {
		case o.State == engine.StateDone:
			p.remove = append(p.remove, o.Name)
			p.usage = p.usage || len(s.surplus) > 0
		case o.State == engine.StateExited: // hands over
		case slices.Contains(spared, o.Name):
		default:
			p.stop = append(p.stop, o.Name)
		}
	}
}

func (s *seen) unplaced(p *plan, now time.Time) {
	if p.status.Phase != api.PhasePending {
		if !s.endAll(p) {
			return
		}
		p.usage = true
		p.to(api.PhasePending, "PlacementLost", fault.T("Its placement went away; waiting for another.", "原有放置已失效，等待重新调度。"))
		p.tell(true, "PlacementLost", "lost-"+itoa(p.status.Attempt), p.status.Message)
		return
	}
	if t := s.task.Spec.Timeouts; t != nil && t.Pending > 0 {
		left := t.Pending.Std() - now.Sub(s.since())
		if left > 0 {
			p.wake = left
			return
		}
		code := 124
		p.status.ExitCode = &code
		s.finish(p, now, api.PhaseFailed, "PendingTimeout", fault.T("It waited %s without finding a place.", "等待 %s 仍未获得资源。", t.Pending))
	}
}

// begin takes up a fresh placement.
func (s *seen) begin(p *plan, now time.Time) {
	if !s.endAll(p) {
		return // old replicas first
	}
	if s.misfits(p, now) {
		return
	}
	p.status.Attempt = max(p.status.Attempt+1, s.placement.Spec.Attempt)
	p.status.Rendezvous = nil
	s.renewRoles(p)
	p.status.Preflight = nil
	p.status.PlacedAt = &now
	p.status.Zones = s.zones()
	p.status.Replicas = api.ReplicaCount{Total: len(s.members), Starting: len(s.members)}
	p.to(api.PhaseInitializing, "Placed", fault.T("Placed; its processes are being started.", "已放置，正在启动进程。"))
	p.tell(false, "Placed", "placed-"+itoa(p.status.Attempt), fault.T("Placed on %d [node|nodes].", "已放置到 %d 个节点。", s.nodes()))
}

// allRun says that every process has been started.
func (s *seen) allRun() fault.Text {
	if s.world == 1 {
		return fault.T("Its process runs.", "进程已运行。")
	}
	return fault.T("All %d processes run.", "全部 %d 个进程已运行。", s.world)
}

// proceed is for a task with a placement and a current attempt.
func (s *seen) proceed(p *plan, now time.Time) {
	s.count(p)
	if s.misfits(p, now) {
		return
	}
	if s.refuses(p) {
		s.refused(p, now)
		return
	}
	if s.astray() {
		s.giveUpOrigin(p, now)
		return
	}
	if s.lose(p, now) {
		return
	}
	parts := s.parts()
	lost := func(part *seen) *api.ReplicaFailure { return part.firstFailure(p.status.Rendezvous != nil) }
	if part, fail := earliest(parts, p, lost); fail != nil {
		part.as(p, func() { part.failing(p, now, fail) })
		return
	}
	if s.succeeded(p) {
		s.complete(p, now)
		return
	}
	if s.broken(p) {
		s.failing(p, now, p.status.Failure)
		return
	}
	s.keepSpares(p, now)
	if s.resize(p, now) {
		return // whatever failed meanwhile was of a generation that is over
	}
	reopened := false
	if parts[0].as(p, func() { reopened = parts[0].reopen(p) }); reopened {
		return
	}
	var wait time.Duration
	failed := func(part *seen) *api.ReplicaFailure {
		fail, more := part.rankFailure(p, now)
		if wait = max(wait, more); fail == nil && more == 0 {
			fail = part.hungRank(p, now)
		}
		return fail
	}
	guilty, fail := earliest(parts, p, failed)
	if guilty == nil && wait > 0 {
		p.wake = wait // the culprit may still show itself
		return
	}
	for _, part := range parts {
		part.as(p, func() {
			switch {
			case p.status.Rendezvous == nil:
				part.gather(p, now)
			case part == guilty:
				part.nextGeneration(p, now, fail)
			default:
				part.follow(p)
			}
		})
	}
	if guilty != nil {
		return
	}
	if p.status.Replicas.Starting == 0 && p.status.Phase != api.PhaseRunning {
		if p.status.StartedAt == nil {
			p.status.StartedAt = s.started()
		}
		p.usage = true
		p.to(api.PhaseRunning, "Started", s.allRun())
		p.tell(false, "Started", "started-"+generations(&p.status), p.status.Message)
	}
}

// gather starts what is missing; once all are attached their start is ordered.
func (s *seen) gather(p *plan, now time.Time) {
	if zones := s.all().zones(); !slices.Equal(zones, p.status.Zones) { // it came from elsewhere
		p.status.Zones, p.commit = zones, true
	}
	if s.replaces() && !s.reserves() && s.all().few() {
		s.giveUp(p, now) // it lost a slot, and then had to start again
		return
	}
	for i := range s.members {
		if s.members[i].state == "" {
			p.start = append(p.start, i)
		}
	}
	if s.reserves() && s.few() {
		s.giveUp(p, now)
		return
	}
	roll := s.all().rollCall()
	if len(p.start) == 0 && s.allReady() && s.all().meet() && roll.checked(p, now) && !s.blind(p) {
		s.open(p, s.world)
	}
}

// count refreshes the numbers people see.
func (s *seen) count(p *plan) {
	n := api.ReplicaCount{Total: len(s.members)}
	for i := range s.members {
		switch m := &s.members[i]; {
		case m.ended() && m.exit != nil && m.exit.Reason == engine.ReasonSucceeded:
			n.Succeeded++
		case m.ended():
			n.Failed++
		case m.state == engine.StateRunning && !m.lags(&p.status):
			n.Running++
		default:
			n.Starting++
		}
	}
	if n != p.status.Replicas {
		p.status.Replicas, p.commit = n, true
	}
	if spares := s.spareStatus(); !slices.Equal(spares, p.status.Spares) {
		p.status.Spares, p.commit, p.usage = spares, true, true
	}
}
