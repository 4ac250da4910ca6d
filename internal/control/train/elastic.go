package train

import (
	"cmp"
	"maps"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
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

// muster sorts the replicas of the placement: who takes part, who is about to join, who goes.
func (c *Controller) muster(s *seen, known map[engine.Name]engine.Observation) {
	if s.placement == nil {
		return
	}
	spec := &s.placement.Spec
	roles := spec.Roles
	if spec.Shrink != nil {
		roles = spec.Shrink.Keep
		stay := spots(roles)
		s.surplus = slices.DeleteFunc(c.members(*s, spec.Roles, maps.Clone(known)), func(m member) bool { return stay[m.spot()] })
	}
	s.members = c.members(*s, roles, known)
	s.admit()
}

// spot tells a task's members apart.
type spot struct {
	role  string
	index int
}

func (m *member) spot() spot { return spot{m.role, m.index} }

// spots are those of a placement.
func spots(roles []api.RoleAssignment) map[spot]bool {
	out := map[spot]bool{}
	for i := range roles {
		for k := range roles[i].Slots {
			out[spot{roles[i].Role, roles[i].Index(k)}] = true
		}
	}
	return out
}

// admit keeps newcomers aside until all of them are ready: growing never stops who trains.
func (s *seen) admit() {
	if s.reserves() {
		s.enlist()
		return
	}
	r := s.task.Status.Rendezvous
	if r == nil || r.Below == nil {
		return
	}
	newcomer := func(m member) bool { return m.leaving || m.index >= r.Below[m.role] }
	for i := range s.members {
		m := &s.members[i]
		if m.leaving = slices.Contains(r.Left, m.index); newcomer(*m) {
			s.inspect(m)
		}
	}
	aside := func(m member) bool { return m.leaving }
	if slices.ContainsFunc(s.members, func(m member) bool {
		switch {
		case m.leaving:
			return false // it comes to nothing, and nobody waits for that
		case newcomer(m):
			return !m.ready()
		}
		return m.ended() || m.said.Generation < int64(s.task.Status.Generation) // too late, or too early
	}) {
		aside = newcomer
	}
	for _, m := range s.members {
		if aside(m) {
			s.joining = append(s.joining, m)
		}
	}
	s.members = slices.DeleteFunc(s.members, aside)
}

// everybody is who takes part and, behind them, who joins, and who stands by. It is only read: mostly there are no others
// than the members, of whom there may be thousands.
func (s *seen) everybody() []member {
	if len(s.joining)+len(s.spares) == 0 {
		return slices.Clip(s.members)
	}
	return slices.Concat(s.members, s.joining, s.spares)
}

// elastic says that replicas come and go while the task runs.
func (s *seen) elastic() bool { return s.task.Spec.Elastic() || s.reserves() }

// below is what tells the members of a generation from those that come later.
func (s *seen) below() map[string]int {
	if !s.replaces() {
		return nil
	}
	out := map[string]int{}
	for i := range s.members {
		m := &s.members[i]
		out[m.role] = max(out[m.role], m.index+1)
	}
	return out
}

// restorable is the step to go on from: the newest that all ranks hold, or that is held for them. Of an elastic task it is the
// newest that all hold who hold any; the others are newcomers, and are handed it.
func (s *seen) restorable() int64 {
	if s.task.Spec.CheckpointFolder() != "" {
		return 0 // its state is in files
	}
	if !s.elastic() {
		return max(s.heldByAll(), s.covered())
	}
	var held [][]int64
	for i := range s.members {
		if steps := s.members[i].said.Held; len(steps) > 0 {
			held = append(held, steps)
		}
	}
	return newestCommon(held)
}

// few says that fewer take part than the task can do with.
func (s *seen) few() bool {
	count := map[string]int{}
	for i := range s.members {
		count[s.members[i].role]++
	}
	return slices.ContainsFunc(s.task.Spec.Roles, func(r api.Role) bool {
		low, _ := r.Range()
		return count[r.Name] < low
	})
}

// switchFor is how long the surplus is spared at most.
const switchFor = 2 * time.Minute

// spared are replicas that are given up, until those that stay train without them: who is stopped
// asks its peers to stop as well, and they have to be gone by then.
func (s *seen) spared(p *plan, now time.Time) (names []engine.Name) {
	r := p.status.Rendezvous
	if len(s.surplus) == 0 || r == nil || s.task.Spec.Stop || s.task.Meta.DeletedAt != nil || p.status.Phase.Finished() ||
		s.placement.Spec.Evict != nil || now.Sub(s.placement.Spec.Shrink.At) > switchFor {
		return nil
	}
	if s.anyEnded() { // it is about to end anyway
		return nil
	}
	if !s.changed(p) && !slices.ContainsFunc(s.members, func(m member) bool { return !m.ended() && m.said.Generation < int64(p.status.Generation) }) {
		return nil
	}
	p.wake = switchFor
	for i := range s.surplus {
		names = append(names, s.surplus[i].name)
	}
	return names
}

// settled says that everything that a smaller task gives up has ended.
func (s *seen) settled() bool {
	return !slices.ContainsFunc(s.surplus, func(m member) bool { return m.state != "" && !m.ended() })
}

// shrunk makes the smaller place the place.
func (s *seen) shrunk(p *plan) {
	next := s.placement.Spec
	next.Roles, next.Shrink = next.Shrink.Keep, nil
	p.resize, p.commit, p.usage = &next, true, true
}

// resize has who takes part follow the placement. True: it is on its way to another generation.
func (s *seen) resize(p *plan, now time.Time) bool {
	if p.status.Rendezvous == nil || !s.replaces() {
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
func (s *seen) recruit(p *plan, now time.Time) {
	next := s.placement.Spec
	next.Roles = slices.Clone(next.Roles)
	for k := range s.joining {
		m := &s.joining[k]
		switch {
		case m.state == "":
			p.start = append(p.start, len(s.members)+k)
		case m.ended() && m.leaving:
			s.turnAway(p, &next, m, now)
		case !m.ended():
			if s.look(p, m, len(s.members)+k); m.leaving {
				p.stop = append(p.stop, m.name)
			}
		default:
			drop(next.Roles, m)
			p.resize, p.commit, p.usage = &next, true, true
			text := fault.T("%s-%d ended before it could join; the task goes on without it.", "%s-%d 在加入前已结束，任务将不带它继续。", m.role, m.index)
			p.tell(true, "NewcomerLost", "lost-"+string(m.name), text)
		}
	}
}

// drop takes a replica out of its role.
func drop(roles []api.RoleAssignment, m *member) (slot api.Slot) {
	for i := range roles {
		if roles[i].Role == m.role {
			r := roles[i]
			roles[i] = r.Keep(func(k int) bool { return r.Index(k) != m.index })
		}
	}
	return api.Slot{Node: m.number, Devices: m.devices}
}

// changed says that who takes part is not who is of the open generation.
func (s *seen) changed(p *plan) bool {
	r := p.status.Rendezvous
	return r.Below != nil && r.Members != s.membersHash()
}

func (s *seen) anyEnded() bool {
	return slices.ContainsFunc(s.members, func(m member) bool { return m.ended() || m.waits() })
}

// reshape opens the next generation where who takes part is not who did. It is no restart. False: all
// is as it was.
func (s *seen) reshape(p *plan, now time.Time) bool {
	if !s.changed(p) || s.anyEnded() {
		return false
	}
	lost := s.placement.Spec.Lost
	if lost != nil && now.Before(lost.Until) && (s.coming() || len(lost.Roles) > 0) && (s.few() || !s.reserves()) {
		p.wake = lost.Until.Sub(now)
		return true // perhaps all are there in a moment
	}
	if s.few() {
		if !s.coming() {
			s.giveUp(p, now)
		}
		return true
	}
	if !s.allReady() {
		return true // they come back, or are found lost
	}
	if s.freeze(p) {
		return true // they run on while what they hold is put in safety
	}
	was := p.status.Rendezvous
	if slices.ContainsFunc(s.members, func(m member) bool { return newIn(was, &m) && inside(&p.status, &m) }) {
		p.tellKept(p.status.Generation)
	}
	s.open(p, s.world)
	if lost != nil {
		next := s.placement.Spec
		next.Lost = nil
		if s.reserves() && len(lost.Roles) > 0 { // nobody waits for it any more
			next.Lost = &api.Loss{Roles: lost.Roles, Avoid: lost.Avoid, Around: lost.Around, Of: lost.Of}
		}
		p.resize = &next
	}
	p.usage = true
	reason, message := resized, fault.T("%d [process|processes] instead of %d, from step %d on.", "进程数由 %[2]d 变为 %[1]d，从第 %[3]d 步继续。", s.world, was.World, p.status.Rendezvous.Restore)
	if s.reserves() {
		reason, message = spareTaken, s.tookPlace(was, p.status.Rendezvous.Restore)
	}
	if p.status.Phase == api.PhaseRecovering {
		p.status.Reason, p.status.Message = reason, message
	} else {
		p.to(api.PhaseRecovering, reason, message)
	}
	p.tell(false, reason, "generation-"+itoa(p.status.Generation), message)
	return true
}

// freeze asks who still trains to overwrite nothing that the next generation may go on from. False: all
// is safe.
func (s *seen) freeze(p *plan) bool {
	for i := range s.members {
		if m := &s.members[i]; m.said.Generation == int64(p.status.Generation) && !m.said.Frozen {
			p.freeze = append(p.freeze, i)
		}
	}
	return len(p.freeze) > 0
}

// calm says that nobody was lost and nothing failed: who is of the open generation can still make a step, and save.
func (s *seen) calm() bool {
	return s.placement.Spec.Lost == nil && !s.reserves() &&
		!slices.ContainsFunc(s.members, func(m member) bool { return m.said.Failed != nil || len(m.said.Hung) > 0 })
}

// thaw takes it back where no other generation is opened after all.
func (s *seen) thaw(p *plan) {
	if s.changed(p) {
		return
	}
	for i := range s.members {
		if m := &s.members[i]; m.said.Generation == int64(p.status.Generation) && m.said.Frozen && m.said.Failed == nil && !m.ended() {
			p.goAhead = append(p.goAhead, i)
		}
	}
}

// giveUp leaves a place that lost too much: the task waits for another.
func (s *seen) giveUp(p *plan, now time.Time) {
	next := s.placement.Spec
	next.Lost = nil
	next.Evict = &api.Eviction{
		Reason: "NodeLost", At: now,
		Message: fault.T("It lost nodes, and too few replicas are left; it waits for another place.", "节点丢失后剩余副本不足，等待重新调度。"),
	}
	p.resize, p.commit = &next, true
}

// lose answers lost launchers of an elastic task without ending the others. False: there are none, or
// the whole attempt is over with them.
func (s *seen) lose(p *plan, now time.Time) bool {
	recent, left := s.budget(p, now)
	if p.status.Rendezvous == nil || p.status.Rendezvous.Below == nil || left == 0 || s.placement.Spec.Shrink != nil {
		return false
	}
	if !s.elastic() && s.covered() == 0 {
		return false // there is nothing that would be lost with the others
	}
	next := s.placement.Spec
	next.Roles = slices.Clone(next.Roles)
	next.Lost = lossAgain(next.Lost)
	next.Lost.Until = now.Add(s.patience())
	var lost []*member
	for i := range s.members {
		m := &s.members[i]
		gone := m.state == "" && m.index < p.status.Rendezvous.Below[m.role]
		switch {
		case gone || m.ended() && m.exit != nil && m.exit.Reason == engine.ReasonLauncherLost:
		case m.ended():
			return false // the others can't go on from where it has ended
		default:
			continue
		}
		lost = append(lost, m)
	}
	if len(lost) == 0 {
		return false
	}
	how := engine.Exit{Code: -1, Reason: engine.ReasonLauncherLost, At: now}
	if lost[0].exit != nil {
		how.Cause = lost[0].exit.Cause
	}
	fail := failureOf(lost[0], &how)
	fail.Generation = p.status.Generation
	faults := p.status.Faults
	s.remember(p, now, fail)
	if next.Lost.Around, next.Lost.Of = s.troubled(p, now), 0; next.Lost.Around != "" {
		next.Lost.Of = lost[0].number
	}
	for _, m := range lost {
		left := *m
		left.usable = m.usable && !inside(&p.status, m)
		s.substitute(&next, &left)
	}
	if slices.ContainsFunc(next.Roles, func(r api.RoleAssignment) bool { return len(r.Slots) == 0 }) {
		p.status.Faults = faults // it is answered otherwise
		return false
	}
	if s.reserves() {
		for _, m := range lost {
			vacate(p, m.place)
		}
	}
	p.status.Failure = fail
	p.tell(true, fail.Reason, "fail-"+fail.Replica, fail.Message)
	p.tellPlace(next.Lost.Around)
	p.status.Restarts = append(recent, now)
	p.resize, p.commit, p.usage = &next, true, true
	if p.status.Phase != api.PhaseRecovering {
		p.to(api.PhaseRecovering, fail.Reason, fail.Message)
	}
	return true
}

// substitute gives another replica the slot of a lost one, or has placement look for a slot.
func (s *seen) substitute(next *api.PlacementSpec, m *member) {
	slot := drop(next.Roles, m)
	if !m.usable {
		next.Lost.Roles[m.role]++
		return
	}
	for i := range next.Roles {
		if next.Roles[i].Role == m.role {
			next.Roles[i] = next.Roles[i].Add(slot)
		}
	}
}

// patience is how long a replacement is waited for.
func (s *seen) patience() time.Duration {
	if r := s.task.Spec.Restart; r != nil && r.RdzvTimeout > 0 {
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
