package train

import (
	"context"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/diagnose"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// recentFaults are those of the restart window.
func (s *seen) recentFaults(p *plan, now time.Time) []api.PastFault {
	_, window := s.limits()
	return slices.DeleteFunc(slices.Clone(p.status.Faults), func(f api.PastFault) bool { return now.Sub(f.At) >= window })
}

// remember keeps a failure for those to come, with where it was.
func (s *seen) remember(p *plan, now time.Time, fail *api.ReplicaFailure) {
	f := api.PastFault{
		At: now, Generation: p.status.Generation, Role: fail.Role, Node: fail.Node, Cause: fail.Cause, Fingerprint: fail.Fingerprint, Step: fail.Step,
	}
	for i := range s.members {
		if m := &s.members[i]; string(m.name) == fail.Replica {
			f.Rack, f.Leaf, f.Zone = m.rack, m.leaf, m.zone
			f.Planned = m.closed && fail.Reason == engine.ReasonLauncherLost
		}
	}
	list := append(s.recentFaults(p, now), f)
	p.status.Faults = list[max(0, len(list)-api.MaxPastFaults):]
}

// repeats says that the program failed in this way, at this step, before: in whatever order others came between.
func (s *seen) repeats(p *plan, now time.Time, fail *api.ReplicaFailure) bool {
	return fail.Fingerprint != "" && slices.ContainsFunc(s.recentFaults(p, now), func(f api.PastFault) bool {
		return f.Fingerprint == fail.Fingerprint && f.Step == fail.Step && (f.Generation != p.status.Generation || f.Role != fail.Role)
	})
}

// troubled is the smallest place that had a fault of a machine before the newest one, which was one too; "": none had.
func (s *seen) troubled(p *plan, now time.Time) (kind string) {
	kind, _ = troubledIn(s.recentFaults(p, now))
	return kind
}

// troubledIn is the same of a list, with the newest fault.
func troubledIn(list []api.PastFault) (kind string, last api.PastFault) {
	if len(list) == 0 || !ofPlace(&list[len(list)-1]) {
		return "", last
	}
	last = list[len(list)-1]
	for _, kind := range api.Places {
		if slices.ContainsFunc(list[:len(list)-1], func(f api.PastFault) bool {
			return ofPlace(&f) && f.Generation != last.Generation && last.In(kind) != "" && f.In(kind) == last.In(kind)
		}) {
			return kind, last
		}
	}
	return "", last
}

func ofPlace(f *api.PastFault) bool {
	return !f.Planned && slices.ContainsFunc(rules(), func(r *diagnose.Rule) bool { return r.ID == f.Cause && r.Place })
}

// inside says that a member is where the newest fault was not the first; status says which those were.
func inside(status *api.TrainingTaskStatus, m *member) bool {
	kind, last := troubledIn(status.Faults)
	at := api.PastFault{Node: m.node, Rack: m.rack, Leaf: m.leaf, Zone: m.zone}
	return kind != "" && at.In(kind) == last.In(kind)
}

// tellPlace says that a place is avoided from now on.
func (p *plan) tellPlace(kind string) {
	name := p.status.Faults[len(p.status.Faults)-1].In(kind)
	if name == "" || kind == "node" {
		return
	}
	p.tell(true, "PlaceAtFault", "avoid-"+itoa(p.status.Generation), placeAtFault(kind, name))
}

func placeAtFault(kind, name string) fault.Text {
	return fault.T("Two faults in %s %s within the window; a place without it is looked for.", "窗口内 %s %s 发生两次故障，正在寻找不含它的位置。", kind, name)
}

// tellKept says that there was no place outside of where two faults were.
func (p *plan) tellKept(generation int) {
	kind, last := troubledIn(p.status.Faults)
	if kind == "" || last.Generation != generation {
		return
	}
	p.tell(true, "PlaceKept", "kept-"+itoa(generation), fault.T(
		"Two faults in %s %s within the window, but nothing outside of it could be had: it goes on there.", "窗口内 %s %s 发生两次故障，但其外没有可用位置：任务仍在其中继续。", kind, last.In(kind)))
}

// swapping says that a move away was asked for, and counted.
func swapping(p *plan) bool { return p.status.Reason == "Swapping" }

// away asks once for a place without the faulty node, or without more of what it is part of; true: wait for it.
func (s *seen) away(p *plan, now time.Time, recent []time.Time, fail *api.ReplicaFailure) bool {
	wide := s.troubled(p, now)
	if fail.Action != string(diagnose.Swap) && wide == "" {
		return false
	}
	if s.stay {
		p.tellKept(p.status.Generation)
		return false
	}
	p.swap, p.wake = shun{node: fail.Node, kinds: []string{"node"}}, swapAgain
	if wide != "" && wide != "node" {
		p.swap.kinds = []string{wide, "node"}
	}
	if swapping(p) {
		return true
	}
	p.status.Restarts = append(recent, now)
	p.status.Reason, p.commit = "Swapping", true
	p.status.Message = fault.T("Node %s is at fault; another place is looked for.", "节点 %s 有故障，正在寻找其他位置。", fail.Node)
	p.tell(true, "NodeAtFault", "swap-"+itoa(p.status.Generation), nodeAtFault(fail))
	if name := p.status.Faults[len(p.status.Faults)-1].In(wide); name != "" && wide != "node" {
		p.status.Message = placeAtFault(wide, name)
	}
	p.tellPlace(wide)
	return true
}

func nodeAtFault(fail *api.ReplicaFailure) fault.Text {
	return fault.T("Node %s is at fault (%s). Look at it, and cordon it: fermi node cordon %s.", "节点 %s 有故障（%s）。请检查并隔离：fermi node cordon %s。", fail.Node, fail.Cause, fail.Node)
}

// shun is a node, and how much of what it is part of shall be kept away from: the first kind that leaves a place counts.
type shun struct {
	node  string
	kinds []string
}

// swapAgain is when the move is asked for again, should nothing have been heard of it.
const swapAgain = 5 * time.Second

// swap has the task leave; where it can't, that is remembered, and it starts again where it is.
func (c *Controller) swap(ctx context.Context, task *api.TrainingTask, from shun) {
	err := fault.New(fault.Unavailable, "NoPlanner", fault.T("Tasks don't move here.", "此处任务不迁移。"))
	for _, kind := range from.kinds {
		if c.cfg.Away == nil {
			break
		}
		moved := c.cfg.Away(ctx, task, from.node, kind)
		if moved == nil || fault.ReasonOf(moved) == "AlreadyLeaving" { // asked before, and on its way
			return
		}
		err = fault.From(moved)
	}
	c.cfg.Log.Info("no other place for a task whose node is at fault", "task", task.Meta.ID, "node", from.node, "reason", err.Reason)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loop != nil {
		c.stays[task.Meta.ID] = task.Status.Generation
		c.loop.Add(api.KeyOf(task))
	}
}

func (c *Controller) staysIn(task *api.TrainingTask) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	g, ok := c.stays[task.Meta.ID]
	return ok && g == task.Status.Generation
}
