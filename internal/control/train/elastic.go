package train

import (
	"cmp"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/control/train/blame"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/recipe"
)

// Elastic tasks. The placement alone says which replicas there shall be; here is made true what it
// says, in the same attempt, and every turn could be the first one of a new leader:
//
//	more slots      newcomers are started beside the running generation; once all of them are ready
//	                the next generation has them in it
//	Shrink          the next generation is without the surplus; once that has ended, Keep is the place
//	launcher lost   on a node that takes work another one is started in its slot, else the slot goes and
//	                placement looks for another; whoever is not there in time is not waited for
//
// A newcomer holds nothing: where it can, it takes the state of the step to go on from from a peer.

// resized is why a task without a fault has another generation.
const resized = "Resized"

// resizing is the judgement of who takes part: it makes the set of members follow the placement, and keeps spares.
type resizing struct {
	*gang.Gang
	of *snapshot // for who opens the next generation
}

// answer is the judgement of the unit whose members come and go.
func (s resizing) answer(p *plan, now time.Time) answer {
	return answer{s.of, mainOf(s.Gang, p), p, now}
}

// switchFor is how long the surplus is spared at most.
const switchFor = 2 * time.Minute

// spared are replicas that are given up, until those that stay train without them: who is stopped
// asks its peers to stop as well, and they have to be gone by then.
func (s resizing) spared(p *plan, now time.Time) (names []engine.Name) {
	r := p.status.Rendezvous
	if len(s.Surplus) == 0 || r == nil || s.Task.Spec.Stop || s.Task.Meta.DeletedAt != nil || p.status.Phase.Finished() ||
		s.Placement.Spec.Evict != nil || now.Sub(s.Placement.Spec.Shrink.At) > switchFor {
		return nil
	}
	if s.Members.AnyEnded() { // it is about to end anyway
		return nil
	}
	if !s.Members.DifferFrom(p.status.Rendezvous) && !s.Members.Any(func(m *gang.Member) bool { return !m.Ended() && m.Said.Generation < int64(p.status.Generation) }) {
		return nil
	}
	p.wake = switchFor
	for i := range s.Surplus {
		names = append(names, s.Surplus[i].Name)
	}
	return names
}

// shrunk makes the smaller place the place.
func (s resizing) shrunk(p *plan) {
	next := s.Placement.Spec
	next.Roles, next.Shrink = next.Shrink.Keep, nil
	p.resize, p.commit, p.usage = &next, true, true
}

// resize makes the set of members follow the placement. True: it is on its way to another generation.
func (s resizing) resize(p *plan, now time.Time) bool {
	if p.status.Rendezvous == nil || !s.Replaces() {
		return false
	}
	s.recruit(p, now)
	if s.reshape(p, now) {
		return true
	}
	s.thaw(p)
	return false
}

// recruit starts newcomers, and lets go of those that ended before they took part: what they were for
// goes on without them.
func (s resizing) recruit(p *plan, now time.Time) {
	next := s.Placement.Spec
	next.Roles = slices.Clone(next.Roles)
	for k := range s.Joining {
		m := &s.Joining[k]
		switch {
		case m.State == "":
			p.start = append(p.start, len(s.Members)+k)
		case m.Ended() && m.Leaving:
			s.turnAway(p, &next, m, now)
		case !m.Ended():
			if s.checkLate(p, m, len(s.Members)+k); m.Leaving {
				p.stop = append(p.stop, m.Name)
			}
		default:
			drop(next.Roles, m)
			p.resize, p.commit, p.usage = &next, true, true
			text := fault.T("%s-%d ended before it could join; the task goes on without it.", "%s-%d 在加入前已结束，任务将不带它继续。", m.Role, m.Index)
			p.tell(true, "NewcomerLost", "lost-"+string(m.Name), text)
		}
	}
}

// drop takes a replica out of its role.
func drop(roles []api.RoleAssignment, m *gang.Member) (slot api.Slot) {
	for i := range roles {
		if roles[i].Role == m.Role {
			r := roles[i]
			roles[i] = r.Keep(func(k int) bool { return r.Index(k) != m.Index })
		}
	}
	return api.Slot{Node: m.Number, Devices: m.Devices}
}

// reshape opens the next generation where who takes part is not who did. It is no restart. False: all
// is as it was.
func (s resizing) reshape(p *plan, now time.Time) bool {
	if !s.Members.DifferFrom(p.status.Rendezvous) || s.Members.AnyEnded() {
		return false
	}
	lost := s.Placement.Spec.Lost
	if lost != nil && now.Before(lost.Until) && (s.Coming() || len(lost.Roles) > 0) && (s.TooFew() || !s.Reserves()) {
		p.wake = lost.Until.Sub(now)
		return true // perhaps all are there in a moment
	}
	if s.TooFew() {
		if !s.Coming() {
			s.giveUp(p, now)
		}
		return true
	}
	if !s.Members.AllReady() {
		return true // they come back, or are found lost
	}
	if s.askToFreeze(p) {
		return true // they run on while what they hold is put in safety
	}
	was := p.status.Rendezvous
	if s.Members.Any(func(m *gang.Member) bool { return newIn(was, m) && blame.InTrouble(&p.status, m) }) {
		s.answer(p, now).tellKept(p.status.Generation)
	}
	s.answer(p, now).open(s.World)
	if lost != nil {
		next := s.Placement.Spec
		next.Lost = nil
		if s.Reserves() && len(lost.Roles) > 0 { // nobody waits for it any more
			next.Lost = &api.Loss{Roles: lost.Roles, Avoid: lost.Avoid, Around: lost.Around, Of: lost.Of}
		}
		p.resize = &next
	}
	p.usage = true
	from := s.goesOnFrom(p.status.Rendezvous)
	reason, message := resized, fault.T("%[1]d [process|processes] instead of %[2]d, from %[3]s on.", "进程数由 %[2]d 变为 %[1]d，从%[4]s继续。", s.World, was.World, from.EN, from.ZH)
	if s.Reserves() {
		reason, message = spareTaken, s.tookPlace(was, from)
	}
	if p.status.Phase == api.PhaseRecovering {
		p.status.Reason, p.status.Message = reason, message
	} else {
		p.to(api.PhaseRecovering, reason, message)
	}
	p.tell(false, reason, "generation-"+itoa(p.status.Generation), message)
	return true
}

// goesOnFrom says from where ranks go on. What a script saves to its own folder is numbered as it likes.
func (s resizing) goesOnFrom(r *api.Rendezvous) fault.Text {
	switch {
	case r.Restore == 0:
		return fault.T("the beginning", "头")
	case s.Task.Spec.CheckpointFolder() != "":
		return fault.T("the newest checkpoint of its folder", "其目录中最新的检查点")
	}
	return fault.T("step %d", "第 %d 步", r.Restore)
}

// askToFreeze asks who still trains to overwrite nothing that the next generation may go on from. False: all
// is safe.
func (s resizing) askToFreeze(p *plan) bool {
	for i := range s.Members {
		if m := &s.Members[i]; m.Said.Generation == int64(p.status.Generation) && !m.Said.Frozen {
			p.freeze = append(p.freeze, i)
		}
	}
	return len(p.freeze) > 0
}

// calm says that nobody was lost and nothing failed: who is of the open generation can still make a step, and save.
func (s resizing) calm() bool {
	return s.Placement.Spec.Lost == nil && !s.Reserves() &&
		!s.Members.Any(func(m *gang.Member) bool { return m.Said.Failed != nil || m.Said.Watched && len(m.Said.Hung) > 0 })
}

// thaw takes it back where no other generation is opened after all.
func (s resizing) thaw(p *plan) {
	if s.Members.DifferFrom(p.status.Rendezvous) {
		return
	}
	for i := range s.Members {
		if m := &s.Members[i]; m.Said.Generation == int64(p.status.Generation) && m.Said.Frozen && m.Said.Failed == nil && !m.Ended() {
			p.goAhead = append(p.goAhead, i)
		}
	}
}

// giveUp leaves a place that lost too much: the task waits for another.
func (s resizing) giveUp(p *plan, now time.Time) {
	next := s.Placement.Spec
	next.Lost = nil
	next.Evict = &api.Eviction{
		Reason: "NodeLost", At: now,
		Message: fault.T("It lost replicas, and too few are left; it waits for another place.", "丢失副本后剩余副本不足，等待重新调度。"),
	}
	p.resize, p.commit = &next, true
}

// lose answers lost launchers of an elastic task without ending the others. False: there are none, or
// the whole attempt is over with them.
func (s resizing) lose(p *plan, now time.Time) bool {
	recent, left := allowanceOf(&s.Task.Spec).count(p.status.Restarts, now)
	if p.status.Rendezvous == nil || p.status.Rendezvous.Below == nil || left == 0 || s.Placement.Spec.Shrink != nil {
		return false
	}
	if !s.Elastic() && (!s.Peered() || s.Members.Covered(s.World) == 0) {
		return false // there is nothing that would be lost with the others
	}
	next := s.Placement.Spec
	next.Roles = slices.Clone(next.Roles)
	next.Lost = lossAgain(next.Lost)
	next.Lost.Until = now.Add(s.patience())
	var lost []*gang.Member
	for i := range s.Members {
		m := &s.Members[i]
		gone := m.State == "" && m.Index < p.status.Rendezvous.Below[m.Role]
		switch {
		case gone || m.Ended() && m.Exit != nil && m.Exit.Lost():
		case m.Ended():
			return false // the others can't go on from where it has ended
		default:
			continue
		}
		lost = append(lost, m)
	}
	if len(lost) == 0 || s.beyondSpares(p, lost) {
		return false
	}
	how := engine.Exit{Code: -1, Reason: engine.ReasonLauncherLost, At: now}
	if exit := lost[0].Exit; exit != nil {
		if how.Cause, how.Reason = exit.Cause, exit.Reason; exit.Reason != engine.ReasonLauncherLost {
			how.At = exit.At // when it was heard last
		}
	}
	fail := blame.Of(lost[0], &how)
	fail.Generation = p.status.Generation
	faults := p.status.Faults
	a := s.answer(p, now)
	a.remember(fail)
	if next.Lost.Around, next.Lost.Of = a.troubled(), 0; next.Lost.Around != "" {
		next.Lost.Of = lost[0].Number
	}
	for _, m := range lost {
		if s.of.isFenced(m) {
			next.Lost.Avoid = append(next.Lost.Avoid, m.Number)
		}
		substitute(&next, m, m.Usable && !blame.InTrouble(&p.status, m) && !s.of.isFenced(m))
	}
	if slices.ContainsFunc(next.Roles, func(r api.RoleAssignment) bool { return len(r.Slots) == 0 }) {
		p.status.Faults = faults // it is answered otherwise
		return false
	}
	if s.Reserves() {
		for _, m := range lost {
			vacate(p, m.Seat)
		}
	}
	p.status.Failure = fail
	p.tell(true, fail.Reason, "fail-"+fail.Replica, fail.Message)
	a.tellPlace(next.Lost.Around)
	p.status.Restarts = append(recent, now)
	p.resize, p.commit, p.usage = &next, true, true
	if p.status.Phase != api.PhaseRecovering {
		p.to(api.PhaseRecovering, fail.Reason, fail.Message)
	}
	return true
}

// beyondSpares says that nobody who trained is left, and fewer others than it takes to go on: another place is found sooner than the rest of
// this one, which may be gone with a whole zone.
func (s resizing) beyondSpares(p *plan, lost []*gang.Member) bool {
	if !s.Reserves() {
		return false
	}
	ready, places := 0, 0
	for i := range s.Members {
		m := &s.Members[i]
		if slices.Contains(lost, m) {
			continue
		}
		if !newIn(p.status.Rendezvous, m) {
			return false
		}
		if m.Ready() {
			ready++
		}
	}
	for i := range s.Spares {
		if s.Spares[i].Ready() {
			ready++
		}
	}
	for i := range s.Task.Spec.Roles {
		places += s.Task.Spec.Roles[i].Replicas
	}
	return ready < places
}

// substitute gives another replica the slot of a lost one if its node is usable, else has placement look for a slot.
func substitute(next *api.PlacementSpec, m *gang.Member, usable bool) {
	slot := drop(next.Roles, m)
	if !usable {
		next.Lost.Roles[m.Role]++
		return
	}
	for i := range next.Roles {
		if next.Roles[i].Role == m.Role {
			next.Roles[i] = next.Roles[i].Add(slot)
		}
	}
}

// patience is how long a replacement is waited for.
func (s resizing) patience() time.Duration {
	if r := s.Task.Spec.Restart; r != nil && r.RdzvTimeout > 0 {
		return r.RdzvTimeout.Std()
	}
	return api.DefaultRdzvTimeout.Std()
}

// askedFor is the size that an elastic task asks for, by which its ranks share the batch.
func askedFor(spec *api.TrainingTaskSpec) *engine.Elastic {
	out := &engine.Elastic{Batch: cmp.Or(spec.Batch, api.BatchKeepGlobal)}
	for i := range spec.Roles {
		out.World += spec.Roles[i].Replicas * max(recipe.Started(spec.Framework, &spec.Roles[i]), 1)
	}
	return out
}
