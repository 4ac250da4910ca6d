package work

import (
	"slices"
	"strconv"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/hold"
	"github.com/fermi-cluster/fermi/internal/control/fence"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/hearing"
)

// Launchers that say nothing. One that is silent is told of; after a while it is lost: a hold keeps its devices closed until its end
// is proven (control/fence), and the work goes on at another place. Work that has something of its own where it runs (Seen.Pinned) is
// never given up so: it is unreachable until it is heard again, or until an operator says that the machine is gone.

// GivenUp is a replica that was given up, and is not done as far as is known.
type GivenUp struct {
	engine.Observation
	Hold hold.Hold
}

// Unreachable is the reason of work whose launcher says nothing.
const Unreachable = "Unreachable"

// heed notes who was given up: for the work it has ended, whatever end it tells of by now.
func (c *Controller) heed(s *Seen, ob engine.Observation) engine.Observation {
	c.mu.Lock()
	n := c.named[ob.Node]
	c.mu.Unlock()
	if n == nil {
		return ob
	}
	h := n.Status.Holds.Of(string(ob.Name))
	if h == nil {
		return ob
	}
	s.Given = append(s.Given, GivenUp{ob, *h})
	ob.State, ob.Ready, ob.Exit = engine.StateDone, false, &engine.Exit{Code: -1, Reason: h.Reason, At: h.Heard}
	return ob
}

// silenceOf is how long the launcher of a replica that lives has said nothing.
func (c *Controller) silenceOf(ob engine.Observation) time.Duration {
	if ob.State == "" || ob.State == engine.StateExited || ob.State == engine.StateDone {
		return 0
	}
	silent, known := c.cfg.Hub.Silence(ob.Name)
	if !known && ob.State != engine.StateRunning {
		return 0
	}
	return silent
}

// isGiven says that a replica is among those that were given up.
func isGiven(list []GivenUp, name engine.Name) bool {
	return slices.ContainsFunc(list, func(g GivenUp) bool { return g.Name == name })
}

// lostOf is the member that was given up; nil: none was.
func lostOf(members []Member, list []GivenUp) *Member {
	for i := range members {
		if m := &members[i]; isGiven(list, m.Name) {
			return m
		}
	}
	return nil
}

// silentOf is the member that has been silent for the longest time; nil: all are heard.
func silentOf(members []Member) *Member {
	var most *Member
	for i := range members {
		if m := &members[i]; m.Silent >= hearing.SilentAfter && (most == nil || m.Silent > most.Silent) {
			most = m
		}
	}
	return most
}

// NodeName is where it stands; "": on a node that is gone.
func (m *Member) NodeName() string {
	if m.Node == nil {
		return m.Known.Node
	}
	return m.Node.Meta.Name
}

// SilentText says since when a member has not been heard.
func (m *Member) SilentText(now time.Time) fault.Text {
	return fault.T("Its node %s is silent since %s: nobody knows whether it still runs there.", "其节点 %s 自 %s 起失去联系，无法确认其是否仍在运行。",
		m.NodeName(), now.Add(-m.Silent).UTC().Format("15:04:05 UTC"))
}

// hush judges who says nothing. True: some are given up with this plan, and nothing else is done until that is written.
func (t *judgement) hush() bool {
	for _, g := range t.Given {
		t.plan.End = append(t.plan.End, g.Name)
	}
	for i := range t.Members {
		m := &t.Members[i]
		t.listen(m.Name, m.NodeName(), m.Devices, m.Silent, m.Known.State == engine.StateRunning && !m.Attached)
	}
	for _, o := range t.Others {
		t.listen(o.Name, o.Node, devicesOf(t.Members, o.Name), t.Silence[o.Name], false)
	}
	return len(t.plan.Fence) > 0
}

// listen judges one launcher by how long it has said nothing.
func (t *judgement) listen(name engine.Name, node string, devices uint64, silent time.Duration, apart bool) {
	switch {
	case silent == 0 && apart:
		t.wakeIn(hearing.SilenceLimit) // nobody tells when it becomes silent
	case silent == 0:
	case silent < hearing.SilentAfter:
		t.wakeIn(hearing.SilentAfter - silent)
	case t.Pinned: // it comes back, or an operator says that it is gone
		t.wakeIn(hearing.SilenceLimit)
	case silent < hearing.LostAfter:
		t.wakeIn(hearing.LostAfter - silent)
	default:
		t.plan.Fence, t.plan.Usage = append(t.plan.Fence, fence.Given{Node: node, Hold: hold.Hold{
			Replica: string(name), Owner: t.View.Meta.ID, Name: t.View.Meta.Name, Project: t.View.Meta.Project,
			Devices: fence.Devices(devices), Reason: hold.Silent, Heard: t.now.Add(-silent), Since: t.now,
		}}), true
		t.tell(true, "SilentLost", "fenced-"+string(name), fault.T(
			"Its node %[1]s is lost: its launcher has not been heard for %[2]s. Its devices there stay closed until it is known to have ended; if the machine is gone, say so: fermi node lost %[1]s.",
			"其节点 %[1]s 已丢失：启动器已有 %[2]s 没有消息。在确认其结束之前，其加速卡保持关闭；若该机器已不在，请执行：fermi node lost %[1]s。", node, silent.Round(time.Second)))
	}
}

// devicesOf are those that a replica of an earlier attempt has: its successor's, which is not started before it ended.
func devicesOf(members []Member, name engine.Name) uint64 {
	for i := range members {
		m := &members[i]
		if strings.HasPrefix(string(name), strings.TrimSuffix(string(m.Name), strconv.Itoa(m.Attempt))) {
			return m.Devices
		}
	}
	return 0
}

func (t *judgement) wakeIn(d time.Duration) {
	if t.plan.Wake == 0 || d < t.plan.Wake {
		t.plan.Wake = d
	}
}

// reach says whether its launchers are heard, as soon as that changes.
func (t *judgement) reach() {
	switch m := silentOf(t.Members); {
	case t.status.Phase != api.PhaseRunning: // it is being started, or about to be
	case m != nil && t.status.Reason != Unreachable:
		t.note(Unreachable, m.SilentText(t.now))
		t.tell(true, Unreachable, "silent-"+strconv.Itoa(int(t.now.Unix())), t.status.Message)
	case m == nil && t.status.Reason == Unreachable:
		t.note("Started", running)
		t.tell(false, "Reachable", "heard-"+strconv.Itoa(int(t.now.Unix())), fault.T("It is heard again.", "已恢复联系。"))
	}
}

// running is the message of work all of whose processes run.
var running = fault.T("All its processes run.", "全部进程已运行。")

// leaveLost gives up a place of which a part is closed because nobody knows whether who was there has ended: the work waits for another. It
// costs no restart. What has something of its own there waits for somebody's word.
func (t *judgement) leaveLost(m *Member) {
	if !t.EndAll(&t.plan) {
		t.note("NodeLost", fault.T("Its node %s is lost; waiting for the other processes to end.", "其节点 %s 已丢失，正在等待其余进程结束。", m.NodeName()))
		return
	}
	if t.Pinned {
		t.finish(api.PhaseFailed, 1, "NodeLost", fault.T("Its node %s was declared lost.", "其节点 %s 已被确认丢失。", m.NodeName()))
		return
	}
	t.plan.Usage, t.plan.Leave = true, true
	t.status.Replicas, t.status.Zones = api.ReplicaCount{}, nil
	t.to(api.PhasePending, "NodeLost", fault.T("Its node %s is lost; waiting for another place.", "其节点 %s 已丢失，等待重新调度。", m.NodeName()))
	t.tell(true, "NodeLost", "lost-"+string(m.Name), t.status.Message)
}
