package train

import (
	"fmt"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/hold"
	"github.com/fermi-cluster/fermi/internal/control/fence"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/control/train/silence"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/hearing"
)

// Launchers that say nothing (package silence judges them). Giving one up is one write: a hold on its node, which keeps its devices closed
// until somebody proves that it has ended (control/fence). From then on it has ended for its task, and everything else follows as for
// a launcher that was killed: a spare, a smaller gang, another place. It is told to stop for as long as it is seen.

// mostFenced bounds what one write does; the others follow in the next turn.
const mostFenced = 50

// hush judges who says nothing. True: some are given up with this plan, and nothing else is done until that is written.
func (s *snapshot) hush(p *plan, now time.Time) bool {
	q := hushing{&s.Gang, p, now}
	p.stop = append(p.stop, fencedNames(s.Fenced)...)
	if s.Members.Any(isApart) || s.Joining.Any(isApart) || s.Spares.Any(isApart) {
		p.wakeIn(hearing.SilenceLimit) // nobody tells when it becomes silent
	}
	if len(s.Silence) == 0 {
		return false
	}
	wanted := !s.Task.Spec.Stop && s.Task.Meta.DeletedAt == nil
	if !wanted || s.Placement == nil || p.status.Phase.Finished() || s.homeless != nil || s.Placement.Spec.Evict != nil || s.goesBack() {
		q.carryOut(silence.Leaving(&s.Gang))
		return len(p.fence) > 0
	}
	units := s.Units(&p.status)
	for i := range units {
		q.carryOut(silence.Judge(&s.Gang, &units[i], p.status.Phase))
	}
	q.carryOut(silence.Aside(&s.Gang))
	return len(p.fence) > 0
}

// isApart says that a member runs and its launcher is not connected: it comes back, or becomes silent.
func isApart(m *gang.Member) bool { return m.State == engine.StateRunning && !m.Attached }

func fencedNames(m map[engine.Name]engine.Observation) (out []engine.Name) {
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// hushing is the judgement of who says nothing, put into a plan.
type hushing struct {
	g   *gang.Gang
	p   *plan
	now time.Time
}

// carryOut puts a verdict into the plan.
func (q hushing) carryOut(v silence.Verdict) {
	p := q.p
	if v.Wait > 0 {
		p.wakeIn(v.Wait)
	}
	for _, name := range v.Told {
		who, node := q.whereIs(name)
		p.tell(true, "LauncherSilent", fmt.Sprintf("silent-%s-%d", name, p.status.Generation), fault.T(
			"%s on node %s says nothing: its launcher has not been heard for %s.", "节点 %[2]s 上的 %[1]s 失去联系：其启动器已有 %[3]s 没有消息。", who, node, silence.After))
	}
	for _, name := range v.Gone {
		if len(p.fence) == mostFenced {
			return
		}
		q.giveUp(name, v.Spare)
	}
}

// giveUp fences a replica: its devices stay closed until its end is proven.
func (q hushing) giveUp(name engine.Name, spare bool) {
	p, s, now := q.p, q.g, q.now
	who, node := q.whereIs(name)
	heard := now.Add(-s.Silence[name])
	p.fence, p.commit, p.usage = append(p.fence, fence.Given{Node: node, Hold: hold.Hold{
		Replica: string(name), Owner: s.Task.Meta.ID, Name: s.Task.Meta.Name, Project: s.Task.Meta.Project,
		Devices: fence.Devices(q.devicesOf(name)), Reason: hold.Silent, Heard: heard, Since: now,
	}}), true, true
	text := fault.T("%s on node %s is lost: its launcher has not been heard for %s. Its devices stay closed until it is known to have ended; if the machine is gone, say so: fermi node lost %[2]s.",
		"节点 %[2]s 上的 %[1]s 已丢失：其启动器已有 %[3]s 没有消息。在确认其结束之前，其加速卡保持关闭；若该机器已不在，请执行：fermi node lost %[2]s。", who, node, s.Silence[name].Round(time.Second))
	reason := "SilentLost"
	if spare {
		reason, text = "SilentReplaced", fault.T("%s on node %s has said nothing for %s while the others wait for it: it is replaced at once. Its devices stay closed until it is known to have ended.",
			"节点 %[2]s 上的 %[1]s 已有 %[3]s 没有消息，其他副本在等待它：立即替换。在确认其结束之前，其加速卡保持关闭。", who, node, s.Silence[name].Round(time.Second))
	}
	p.tell(true, reason, "fenced-"+string(name), text)
}

// whereIs names a replica for people, and its node.
func (q hushing) whereIs(name engine.Name) (who, node string) {
	s := q.g
	role, index, _ := name.Parse(s.Task.Meta.ID)
	who = role + "-" + itoa(index)
	find := func(l gang.Members) {
		for i := range l {
			if l[i].Name == name {
				node = l[i].Node
			}
		}
	}
	find(s.Everybody())
	find(s.Surplus)
	for _, o := range s.Others {
		if o.Name == name {
			node = o.Node
		}
	}
	return who, node
}

// devicesOf are those that a replica has by its place. One of an earlier attempt has those of its successor, which is not started before it ended.
func (q hushing) devicesOf(name engine.Name) uint64 {
	s := q.g
	role, index, _ := name.Parse(s.Task.Meta.ID)
	if s.Placement == nil {
		return 0
	}
	for _, r := range s.Placement.Spec.Roles {
		for i, slot := range r.Slots {
			if r.Role == role && r.Index(i) == index {
				return slot.Devices
			}
		}
	}
	return 0
}

// isFenced says that a member was given up in silence.
func (s *snapshot) isFenced(m *gang.Member) bool {
	_, fenced := s.Fenced[m.Name]
	return fenced
}

// leaveFenced gives up a place of which a part is closed because nobody knows whether who was there has ended: the task waits for another.
func (a answer) leaveFenced(recent []time.Time, fail *api.ReplicaFailure) bool {
	if !a.s.Members.Any(a.s.isFenced) {
		return false
	}
	if !swapping(a.p) {
		a.p.status.Restarts = append(recent, a.now)
	}
	next := a.s.Placement.Spec
	next.Lost = nil
	next.Evict = &api.Eviction{Reason: "NodeLost", At: a.now, Message: fail.Message}
	a.p.resize, a.p.commit = &next, true
	return true
}
