package train

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/control/save"
	"github.com/fermi-cluster/fermi/internal/control/train/blame"
	"github.com/fermi-cluster/fermi/internal/diagnose"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// answer is the judgement of one unit: it starts its generations, and answers its failures. What it finds is in the plan.
type answer struct {
	s   *snapshot
	u   *gang.Unit
	p   *plan
	now time.Time
}

// tell says something of the unit.
func (a answer) tell(warning bool, reason, once string, message fault.Text) {
	a.p.tell(warning, reason, a.u.Once(once), message)
}

// everybody is the unit's members, and who joins or stands by.
func (a answer) everybody() gang.Members {
	if a.u.Whole() {
		return a.s.Everybody()
	}
	return slices.Concat(a.u.Members, a.s.Joining, a.s.Spares)
}

// gather starts what is missing; once all are attached their start is ordered.
func (a answer) gather() {
	s, p := a.s, a.p
	if zones := s.Members.Zones(); !slices.Equal(zones, p.status.Zones) { // it came from elsewhere
		p.status.Zones, p.commit = zones, true
	}
	if s.Replaces() && !s.Reserves() && s.TooFew() {
		s.resizing().giveUp(p, a.now) // it lost a slot, and then had to start again
		return
	}
	for i := range a.u.Members {
		if a.u.Members[i].State == "" {
			p.start = append(p.start, a.u.At(i))
		}
	}
	if s.Reserves() && s.TooFew() {
		s.resizing().giveUp(p, a.now)
		return
	}
	if len(p.start) == 0 && a.u.Members.AllReady() && s.Reachable() && s.checking().pass(p, a.now) && !s.restoring().waitForCheckpoints(p, a.u) {
		a.open(a.u.World)
	}
}

// open begins the next generation: written first, told after.
func (a answer) open(world int) {
	s, u, lead := a.s, a.u, a.u.Members.Lead()
	r := &api.Rendezvous{
		Members: u.Members.Hash(), World: world, Restore: u.Restorable(), Lead: lead.Address(lead.Said.Port), Hosts: s.Hosts(), Seats: s.Seating(),
	}
	if s.Replaces() {
		r.Below = u.Members.Below()
	}
	if r.Restore == 0 && u.Main() {
		s.restoring().passOver(a.p)
		if o := s.origins.Best(); o != nil {
			r.Restore, r.Origin = o.Step, o
		}
	}
	s.SetReserve(r)
	if u.Whole() { // frameworks that ask for ports have no roles that restart by themselves
		for _, i := range s.Order {
			r.Ports = append(r.Ports, s.Members[i].Said.Ports...)
		}
	}
	u.Generation++
	u.Rendezvous = r
	u.Write(&a.p.status)
	a.p.commit = true
	for i := range u.Members {
		a.p.goAhead = append(a.p.goAhead, u.At(i))
	}
}

// follow sees to it that everybody attached has started the open generation.
func (a answer) follow() {
	if a.u.Members.DifferFrom(a.u.Rendezvous) || !a.s.Reachable() {
		return // their ranks are others by now, or not all of them are known
	}
	_, table := a.s.Addresses()
	every := save.Every(&a.p.status)
	for i := range a.u.Members {
		if m := &a.u.Members[i]; m.Attached && !m.Ended() && (m.Said.Generation < int64(a.u.Generation) || m.Said.RoleTable != table || m.Said.Every != every) {
			a.p.goAhead = append(a.p.goAhead, a.u.At(i))
		}
	}
}

// reopen begins another generation where a launcher can't restore the checkpoint of this one. That is no
// failure of the ranks, and costs no restart.
func (a answer) reopen() bool {
	r := a.u.Rendezvous
	if r == nil || r.Origin == nil || !a.u.Members.Any(func(m *gang.Member) bool {
		return m.Said.Refused != nil && m.Said.Refused.Name == r.Origin.Name && m.Said.Refused.TaskID == r.Origin.TaskID && m.Said.Generation < int64(a.u.Generation)
	}) {
		return false
	}
	if a.u.Members.AnyEnded() || !a.u.Members.AllReady() || !a.s.Reachable() {
		return false // they come back, or are found lost
	}
	if a.s.restoring().waitForCheckpoints(a.p, a.u) {
		return true
	}
	a.open(a.u.World)
	a.p.note("RestoreRefused", fault.T("The checkpoint of step %d can't be restored; the next older one is tried.", "第 %d 步的检查点无法恢复，改用更早的检查点。", r.Restore))
	a.tell(true, "RestoreRefused", "refused-"+itoa(a.u.Generation), a.p.status.Message)
	return true
}

// hung is the rank that the others wait for, or that is stopped; nil: there is none, or it is only told.
func (a answer) hung() *api.ReplicaFailure {
	if f := a.p.status.Failure; (f == nil || f.Generation != a.u.Generation) && a.u.Members.Any(func(m *gang.Member) bool {
		return !m.Ended() && (!m.Attached || a.s.Silence[m.Name] > 0)
	}) {
		return nil // who is not heard is the first suspect
	}
	_, left := allowanceOf(&a.s.Task.Spec).count(a.p.status.Restarts, a.now)
	found := blame.OfSilence(a.u, a.p.status.Failure, left, a.now)
	if found.Wait > 0 {
		a.p.wakeIn(found.Wait)
	}
	if found.Spared {
		a.tell(true, "NoProgress", "silent-"+itoa(a.u.Generation), fault.T(
			"Its ranks print nothing of their progress any more. It has no restarts left, so it is left alone.", "其 rank 不再打印进度。重启次数已用完，任务保持原样。"))
	}
	if r := found.Alone; r != nil {
		a.tell(true, "RankStandsStill", "alone-"+itoa(a.u.Generation)+"-"+itoa(r.Rank), fault.T(
			"Rank %d has made no step since step %d, and others go on: nobody waits for it, so it is left alone. `fermi train profile %s --rank %d` shows what it does.",
			"rank %d 自第 %d 步起没有进展，其余 rank 仍在前进，无人等待它，因此不予处理。可用 `fermi train profile %s --rank %d` 查看它在做什么。", r.Rank, r.Step, a.s.Task.Meta.Name, r.Rank))
	}
	return found.Failure
}

// past is the faults that still count.
func (a answer) past() blame.Past {
	return blame.Recent(a.p.status.Faults, allowanceOf(&a.s.Task.Spec).window, a.now)
}

// remember keeps a failure for those to come.
func (a answer) remember(fail *api.ReplicaFailure) {
	a.p.status.Faults = a.past().With(blame.FaultOf(a.u, fail, a.now))
}

// troubled is the smallest place that had a fault of a machine before the newest one, which was one too; "": none had.
func (a answer) troubled() string {
	kind, _ := a.past().Troubled()
	return kind
}

// settle makes fail the task's failure, unless that is known already, and decides what to do: what is the
// program's own fault is tried once more, and the same again at the same step is not.
func (a answer) settle(fail *api.ReplicaFailure, once string) *api.ReplicaFailure {
	old := a.p.status.Failure
	current := old != nil && old.Generation == a.u.Generation && old.Generation > 0
	switch {
	case current && fail.Reason == engine.ReasonStopped:
		return old // we ended it because of that
	case blame.Same(old, fail), current && old.Replica == fail.Replica && blame.IsVictim(fail) == blame.IsVictim(old):
		return old
	}
	if fail.Action == string(diagnose.Stop) && fail.Reason != engine.ReasonStartFailed {
		if !a.past().Has(fail, a.u.Generation) {
			fail.Action = string(diagnose.Restart)
		} else {
			fail.Message.EN += " It failed in the same way before, so it is not tried again."
			fail.Message.ZH += "此前已以同样方式失败，不再重试。"
		}
	}
	a.remember(fail)
	a.p.status.Failure, a.p.commit = fail, true
	a.tell(true, fail.Reason, once, fail.Message)
	return fail
}

// failing ends the attempt, then restarts within the budget or fails.
func (a answer) failing(fail *api.ReplicaFailure) {
	s, p := a.s, a.p
	fail = a.settle(fail, "fail-"+fail.Replica)
	p.hurry = fail.Reason == engine.ReasonSilent || fail.Reason == engine.ReasonNodeLost
	recent, left := allowanceOf(&s.Task.Spec).count(p.status.Restarts, a.now)
	again := fail.Action != string(diagnose.Stop) && (left > 0 || swapping(p))
	who := a.everybody()
	if !again {
		who = s.Everybody() // the end of the task
	}
	if !s.ending().end(p, who) {
		if p.status.Phase == api.PhaseRunning || p.status.Phase == api.PhaseInitializing {
			p.to(api.PhaseRecovering, fail.Reason, fail.Message)
		}
		return
	}
	p.usage = true
	if again && (a.away(recent, fail) || a.leaveFenced(recent, fail)) {
		return
	}
	if again {
		a.restart(recent, fail)
		return
	}
	code := blame.ExitCode(fail)
	p.status.ExitCode = &code
	message := fail.Message
	if fail.Action != string(diagnose.Stop) {
		message = allowanceOf(&s.Task.Spec).usedUp(message, len(recent))
	}
	s.ending().finish(p, a.now, api.PhaseFailed, fail.Reason, message)
}

// restart begins the next attempt on the same placement.
func (a answer) restart(recent []time.Time, fail *api.ReplicaFailure) {
	p := a.p
	if !swapping(p) { // that was counted
		p.status.Restarts = append(recent, a.now)
	}
	a.u.Attempt++
	a.u.Rendezvous = nil
	a.u.Write(&p.status)
	total, own := len(a.s.Members), len(a.u.Members)
	p.status.Replicas = api.ReplicaCount{Total: total, Starting: own, Running: total - own}
	p.to(api.PhaseRecovering, "Restarting", restartText(len(p.status.Restarts), fail))
	a.tell(false, "Restarting", "restart-"+itoa(a.u.Attempt), p.status.Message)
}

func restartText(n int, fail *api.ReplicaFailure) fault.Text {
	return fault.Text{
		EN: fmt.Sprintf("Restart %d of the window: %s", n, fail.Message.EN), ZH: fmt.Sprintf("窗口内第 %d 次重启：%s", n, fail.Message.ZH),
	}
}

// nextGeneration answers a failed rank: within the budget the ranks of all launchers start again, in
// the same attempt; beyond it everything ends, and how the launchers ended decides.
func (a answer) nextGeneration(fail *api.ReplicaFailure) {
	s, p := a.s, a.p
	fail = a.settle(fail, "fail-"+fail.Replica+"-"+itoa(a.u.Generation))
	if p.status.Phase != api.PhaseRecovering {
		p.to(api.PhaseRecovering, fail.Reason, fail.Message)
	}
	recent, left := allowanceOf(&s.Task.Spec).count(p.status.Restarts, a.now)
	if left == 0 && !swapping(p) || fail.Action == string(diagnose.Stop) {
		s.ending().endAll(p)
		return
	}
	if a.u.Members.AnyEnded() {
		s.ending().end(p, a.everybody()) // a member that is through can't start again: a new attempt, if any
		return
	}
	if !a.u.Members.AllReady() || !s.Reachable() {
		return // they come back, or are found lost
	}
	if s.restoring().waitForCheckpoints(p, a.u) {
		return
	}
	if wait := backOff(recent, a.now); wait > 0 && !swapping(p) && !a.u.Progressed() {
		p.wake = wait
		p.note("BackingOff", fault.T("It failed %d times within %s; the next start waits.", "%[2]s 内失败 %[1]d 次，下次启动将推迟。", lately(recent, a.now), backOffWindow))
		return
	}
	if a.relieve(recent, fail) || a.away(recent, fail) {
		return
	}
	if !swapping(p) {
		p.status.Restarts = append(recent, a.now)
	}
	a.open(cmp.Or(a.u.World, a.u.Rendezvous.World))
	p.status.Reason, p.status.Message = "Restarting", restartText(len(p.status.Restarts), fail)
	a.tell(false, "Restarting", "generation-"+itoa(a.u.Generation), p.status.Message)
}

// relieve has a spare take the place of a member whose node is at fault.
func (a answer) relieve(recent []time.Time, fail *api.ReplicaFailure) bool {
	s, p := a.s, a.p
	if !s.Reserves() || fail.Action != string(diagnose.Swap) || swapping(p) {
		return false
	}
	guilty := slices.IndexFunc(s.Members, func(m gang.Member) bool { return string(m.Name) == fail.Replica })
	if guilty < 0 || !s.Spares.Any(func(m *gang.Member) bool { return m.Ready() && m.Number != s.Members[guilty].Number }) {
		return false
	}
	vacate(p, s.Members[guilty].Seat, s.Members[guilty].Index)
	p.status.Restarts = append(recent, a.now)
	a.tell(true, "NodeAtFault", "swap-"+itoa(a.u.Generation), nodeAtFault(fail))
	a.tellPlace(a.troubled())
	return true
}

// away asks once for a place without the faulty node, or without more of what it is part of; true: wait for it.
func (a answer) away(recent []time.Time, fail *api.ReplicaFailure) bool {
	p, wide := a.p, a.troubled()
	if fail.Action != string(diagnose.Swap) && wide == "" {
		return false
	}
	if a.s.stay {
		a.tellKept(a.u.Generation)
		return false
	}
	p.swap, p.wake = shun{node: fail.Node, kinds: []string{"node"}}, swapAgain
	if wide != "" && wide != "node" {
		p.swap.kinds = []string{wide, "node"}
	}
	if swapping(p) {
		return true
	}
	p.status.Restarts = append(recent, a.now)
	p.status.Reason, p.commit = "Swapping", true
	p.status.Message = fault.T("Node %s is at fault; another place is looked for.", "节点 %s 有故障，正在寻找其他位置。", fail.Node)
	a.tell(true, "NodeAtFault", "swap-"+itoa(a.u.Generation), nodeAtFault(fail))
	if name := p.status.Faults[len(p.status.Faults)-1].In(wide); name != "" && wide != "node" {
		p.status.Message = placeAtFault(wide, name)
	}
	a.tellPlace(wide)
	return true
}

// tellPlace says that a place is avoided from now on.
func (a answer) tellPlace(kind string) {
	name := a.p.status.Faults[len(a.p.status.Faults)-1].In(kind)
	if name == "" || kind == "node" {
		return
	}
	a.tell(true, "PlaceAtFault", "avoid-"+itoa(a.u.Generation), placeAtFault(kind, name))
}

func placeAtFault(kind, name string) fault.Text {
	return fault.T("Two faults in %s %s within the window; a place without it is looked for.", "窗口内 %s %s 发生两次故障，正在寻找不含它的位置。", kind, name)
}

// tellKept says that there was no place outside of where two faults were.
func (a answer) tellKept(generation int) {
	kind, last := blame.Past(a.p.status.Faults).Troubled()
	if kind == "" || last.Generation != generation {
		return
	}
	a.tell(true, "PlaceKept", "kept-"+itoa(generation), fault.T(
		"Two faults in %s %s within the window, but nothing outside of it could be had: it goes on there.", "窗口内 %s %s 发生两次故障，但其外没有可用位置：任务仍在其中继续。", kind, last.In(kind)))
}

func nodeAtFault(fail *api.ReplicaFailure) fault.Text {
	return fault.T("Node %s is at fault (%s). Look at it, and cordon it: fermi node cordon %s.", "节点 %s 有故障（%s）。请检查并隔离：fermi node cordon %s。", fail.Node, fail.Cause, fail.Node)
}

// swapping says that a move away was asked for, and counted.
func swapping(p *plan) bool { return p.status.Reason == "Swapping" }

// shun is a node, and how much of what it is part of shall be kept away from: the first kind that leaves a place counts.
type shun struct {
	node  string
	kinds []string
}

// swapAgain is when the move is asked for again, should nothing have been heard of it.
const swapAgain = 5 * time.Second
