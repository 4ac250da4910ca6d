package train

import (
	"context"
	"fmt"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/control/train/silence"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Launchers that say nothing (package silence judges them). Giving one up is one write: a hold on its node, which keeps its devices closed
// until somebody proves that it has ended (control/fence). From then on it has ended for its task, and everything else follows as for
// a launcher that was killed: a spare, a smaller gang, another place. It is told to stop for as long as it is seen.

// fencing is a replica that is given up.
type fencing struct {
	node string
	hold api.Hold
}

// mostFenced bounds what one write does; the others follow in the next turn.
const mostFenced = 50

// hush judges who says nothing. True: some are given up with this plan, and nothing else is done until that is written.
func (s *snapshot) hush(p *plan, now time.Time) bool {
	for _, name := range fencedNames(s.Fenced) {
		p.stop = append(p.stop, name)
	}
	if len(s.Silence) == 0 {
		return false
	}
	wanted := !s.Task.Spec.Stop && s.Task.Meta.DeletedAt == nil
	if !wanted || s.Placement == nil || p.status.Phase.Finished() || s.homeless != nil || s.Placement.Spec.Evict != nil || s.goesBack() {
		s.carryOut(p, silence.Leaving(&s.Gang), now)
		return len(p.fence) > 0
	}
	units := s.Units(&p.status)
	for i := range units {
		s.carryOut(p, silence.Judge(&s.Gang, &units[i], p.status.Phase), now)
	}
	s.carryOut(p, silence.Aside(&s.Gang), now)
	return len(p.fence) > 0
}

func fencedNames(m map[engine.Name]engine.Observation) (out []engine.Name) {
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// carryOut puts a verdict into the plan.
func (s *snapshot) carryOut(p *plan, v silence.Verdict, now time.Time) {
	if v.Wait > 0 {
		p.wakeIn(v.Wait)
	}
	for _, name := range v.Told {
		who, node := s.whereIs(name)
		p.tell(true, "LauncherSilent", fmt.Sprintf("silent-%s-%d", name, p.status.Generation), fault.T(
			"%s on node %s says nothing: its launcher has not been heard for %s.", "节点 %[2]s 上的 %[1]s 失去联系：其启动器已有 %[3]s 没有消息。", who, node, silence.After))
	}
	for _, name := range v.Gone {
		if len(p.fence) == mostFenced {
			return
		}
		s.giveUp(p, name, v.Spare, now)
	}
}

// giveUp fences a replica: its devices stay closed until its end is proven.
func (s *snapshot) giveUp(p *plan, name engine.Name, spare bool, now time.Time) {
	who, node := s.whereIs(name)
	heard := now.Add(-s.Silence[name])
	p.fence, p.commit, p.usage = append(p.fence, fencing{node, api.Hold{
		Replica: string(name), Owner: s.Task.Meta.ID, Name: s.Task.Meta.Name, Project: s.Task.Meta.Project,
		Devices: indexes(s.devicesOf(name)), Reason: api.HoldSilent, Heard: heard, Since: now,
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
func (s *snapshot) whereIs(name engine.Name) (who, node string) {
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
func (s *snapshot) devicesOf(name engine.Name) uint64 {
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

// indexes are the set bits.
func indexes(mask uint64) (out []int) {
	for bit := range 64 {
		if mask&(1<<bit) != 0 {
			out = append(out, bit)
		}
	}
	return out
}

// isFenced says that a member was given up in silence.
func (s *snapshot) isFenced(m *gang.Member) bool {
	_, fenced := s.Fenced[m.Name]
	return fenced
}

// hold makes the writes that keep the devices of those that are given up closed, and gives the nodes as they will be.
func (c *Controller) hold(ctx context.Context, list []fencing) (ops []store.Op, nodes []*api.Node, err error) {
	for _, f := range list {
		at := slices.IndexFunc(nodes, func(n *api.Node) bool { return n.Meta.Name == f.node })
		if at < 0 {
			o, err := c.cfg.Store.Get(ctx, api.Key{Kind: api.KindNode, Name: f.node}, 0)
			if fault.Is(err, fault.NotFound) {
				continue // it was deleted: there is nothing to keep closed
			}
			if err != nil {
				return nil, nil, err
			}
			at, nodes = len(nodes), append(nodes, store.Clone(o.(*api.Node)))
		}
		if n := nodes[at]; n.Hold(f.hold.Replica) == nil {
			f.hold.BootID = n.Status.BootID
			n.Status.Holds = append(slices.Clone(n.Status.Holds), f.hold)
		}
	}
	for _, n := range nodes {
		n.Meta.UpdatedAt = c.cfg.Clock.Now().UTC()
		ops = append(ops, store.Update(n))
	}
	return ops, nodes, nil
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

// heldChanged asks for turns of tasks whose replicas were given up on a node, or known to have ended. The lock is held.
func (c *Controller) heldChanged(old, now *api.Node) {
	was := map[string]bool{}
	if old != nil {
		for i := range old.Status.Holds {
			was[old.Status.Holds[i].Replica] = true
		}
	}
	for i := range now.Status.Holds {
		h := &now.Status.Holds[i]
		if key, ok := c.kept.keyOf(h.Owner); ok && !was[h.Replica] {
			c.loop.Add(key)
		}
	}
}
