package placement

import (
	"slices"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/sched"
	"github.com/fermi-cluster/fermi/sched/cost"
)

// saveGrace is how long a task that is drained or moved has for a checkpoint.
const saveGrace = 2 * time.Minute

// MoveWish is where a running task is to go: into a zone, onto some nodes, away from others, or all of these.
type MoveWish struct {
	Zone    string
	Nodes   []string // none: any
	Away    []string
	Preview bool // only say what it would mean
}

func movedBy(w *sched.Workload, m planned, zones []api.ZonePart) api.Eviction {
	return api.Eviction{Reason: "Moved", Message: movedText(zones), Grace: api.Duration(saveGrace), To: assigned(w.Roles, m.to)}
}

func movedText(zones []api.ZonePart) fault.Text {
	names := zoneNames(zones)
	return fault.T("It moves to %s and goes on there.", "正在迁移到 %s，将在那里继续。", names)
}

// reasonMakesRoom is why a gang moves so that another finds room.
const reasonMakesRoom = "MakesRoom"

// evictionOf is what a gang is asked that the planner chose; p is its placement, nil where it is not seen yet.
func evictionOf(e sched.Eviction, p *api.Placement, in places) api.Eviction {
	out := api.Eviction{
		Reason: reasonPreempted, Grace: api.Duration(e.Grace),
		Message: fault.T("It gives way to another task (%s) and is placed again.", "为其他任务让出资源（%s），将重新调度。", e.Why),
	}
	if e.To == nil || p == nil {
		return out
	}
	out.Reason, out.Message = reasonMakesRoom, fault.T(
		"It moves to %[1]s so that another task finds room, and goes on there; it loses %[2]s of device time at most.", "为让其他任务有整块空位，正在迁移到 %[1]s 并将在那里继续；最多损失 %[2]s 卡时。",
		strings.Join(in.zonesOf(e.To), ", "), e.Lost.Round(time.Second))
	for i, slots := range e.To {
		out.To = append(out.To, api.RoleAssignment{Role: p.Spec.Roles[i].Role, Slots: slots})
	}
	return out
}

// wished is the task's workload with the rules of the wish. A zone that the task itself excludes
// leaves none.
func (p *preview) wished(wish MoveWish) (*sched.Workload, error) {
	w := demand(p.task, p.queues)
	if wish.Zone != "" {
		if len(w.Allow) > 0 && !slices.Contains(w.Allow, wish.Zone) {
			w.Deny = append(slices.Clone(w.Deny), wish.Zone)
		}
		w.Allow = []string{wish.Zone}
	}
	known := map[string]bool{}
	for number, n := range p.nodes {
		known[n.Meta.Name] = true
		if len(wish.Nodes) > 0 && !slices.Contains(wish.Nodes, n.Meta.Name) || slices.Contains(wish.Away, n.Meta.Name) {
			w.Avoid = append(w.Avoid, number)
		}
	}
	slices.Sort(w.Avoid)
	for _, name := range slices.Concat(wish.Nodes, wish.Away) {
		if !known[name] {
			return nil, fault.New(fault.Invalid, "NoSuchNode", fault.T("There is no node %q.", "不存在节点 %q。", name))
		}
	}
	return w, nil
}

// planned is a move that was looked for.
type planned struct {
	epoch  store.Epoch
	stands *api.Placement
	from   sched.Assignment
	to     sched.Assignment // nil: none
	why    sched.Explanation
	loss   sched.Loss
}

// move looks for the new place and, unless it is only a preview, reserves it.
func (p *preview) move(w *sched.Workload, wish MoveWish) (out planned, err error) {
	led := p.seat.with(func(m *model) {
		out, err = p.moveIn(m, w, wish)
		out.epoch = p.seat.epoch
	})
	if !led {
		return out, errNotLeading
	}
	return out, err
}

func (p *preview) moveIn(m *model, w *sched.Workload, wish MoveWish) (out planned, err error) {
	id := p.task.Meta.ID
	w.Avoid = append(w.Avoid, m.dates.avoid(p.task, p.now)...)
	out.stands = m.stands[id]
	var held bool
	if out.from, held = m.cluster.Held(id); out.stands == nil || !held {
		return out, fault.New(fault.Conflict, "NotPlaced", fault.T("The task has no place that it could leave.", "该任务尚未放置，无法迁移。"))
	}
	if _, reserved := m.cluster.Reserved(id); reserved || out.stands.Spec.Evict != nil {
		return out, fault.New(fault.Conflict, "AlreadyLeaving", fault.T("The task is leaving its place already.", "该任务正在迁出。"))
	}
	if len(wish.Nodes)+len(wish.Away) == 0 && p.within(out.from, wish.Zone) {
		return out, fault.New(fault.Conflict, "AlreadyThere", fault.T("The task is in %s already.", "该任务已在 %s。", wish.Zone))
	}
	out.loss, _ = m.queues.Loss(p.now, id)
	w = sized(w, out.from)
	var ok bool
	if out.to, ok = sched.Elsewhere(m.cluster, m.queues, w); !ok {
		out.why = sched.ExplainElsewhere(m.cluster, m.queues, w)
		return out, nil
	}
	if !wish.Preview {
		err = m.cluster.Reserve(id, out.to)
	}
	return out, err
}

// told is a planned move in words and prices.
func (p *preview) told(w *sched.Workload, m planned) api.Move {
	out := api.Move{Fits: m.to != nil, Reason: m.why.Reason, Message: m.why.Message, Lost: lossOf(m.loss)}
	out.From = p.judge(p.parts(w, m.from)).PlacementOption
	out.From.Name = "current"
	if m.to != nil {
		to := p.judge(p.parts(w, m.to)).PlacementOption
		to.Name = cost.Planned
		out.To = &to
		out.Bytes = lacking(w.Data, to.Zones)
	}
	return out
}

// lacking is what some of these zones do not have yet; nil where nothing is known.
func lacking(data []sched.Datum, zones []api.ZonePart) *api.Bytes {
	if len(data) == 0 {
		return nil
	}
	sum := api.Bytes(0)
	for _, d := range data {
		for _, z := range zones {
			if !slices.Contains(d.Zones, z.Zone) {
				sum += d.Bytes
			}
		}
	}
	return &sum
}

func lossOf(l sched.Loss) api.MoveLoss {
	return api.MoveLoss{
		SinceSeconds: int64(l.Since / time.Second), RestartSeconds: int64(l.Restart / time.Second), Devices: l.Devices,
		DeviceSeconds: int64(l.Total / time.Second), Grace: api.Duration(saveGrace),
	}
}

// reserve gives a gang that must leave another place where its own rules allow one; nil: there is
// none now. The lock is held.
func (m *model) reserve(id string) []api.RoleAssignment {
	w, ok := m.queues.Running(id)
	if !ok {
		return nil
	}
	held, _ := m.cluster.Held(id)
	at, ok := sched.Elsewhere(m.cluster, m.queues, sized(w, held))
	if !ok || m.cluster.Reserve(id, at) != nil {
		return nil
	}
	return assigned(w.Roles, at)
}

// WouldAdmit are the running tasks that could move so that a waiting one starts: all of them, in any
// order. None where nothing of the kind helps, or this server does not lead.
func (d *Desk) WouldAdmit(taskID string) (out []api.TaskMove) {
	d.seat.with(func(m *model) { out = m.wouldAdmit(d.clock.Now(), taskID) })
	return out
}

func (m *model) wouldAdmit(now time.Time, taskID string) []api.TaskMove {
	found, ok := sched.Migrate(now, m.cluster, m.queues, taskID, m.shares.moves)
	if !ok {
		return nil
	}
	out := make([]api.TaskMove, 0, len(found.Moves))
	for _, mv := range found.Moves {
		p := m.stands[mv.ID]
		if p == nil {
			return nil // placed a moment ago, and not seen yet
		}
		out = append(out, api.TaskMove{
			Project: p.Meta.Project, Name: p.OwnerName(), From: m.namesOf(mv.From), To: m.namesOf(mv.To),
			DeviceSeconds: int64(mv.Lost / time.Second),
		})
	}
	return out
}
