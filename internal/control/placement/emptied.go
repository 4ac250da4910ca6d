package placement

import (
	"strconv"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/sched"
)

// Drained says where each task would go if a node, or one device of it (NODE/DEVICE), were drained now: one after the other,
// as a drain does it. Nothing changes. Fault Unavailable when this server does not lead.
func (d *Desk) Drained(place string) (out api.Outage, err error) {
	if !d.seat.with(func(m *model) { out, err = m.drained(place) }) {
		return out, errNotLeading
	}
	return out, err
}

func (m *model) drained(place string) (api.Outage, error) {
	name, index, one := strings.Cut(place, "/")
	number, ok := m.nodes[name]
	node := m.in[number]
	if !ok || node == nil {
		return api.Outage{}, fault.New(fault.NotFound, "NotFound", fault.T("There is no node %q.", "没有节点 %q。", name))
	}
	next := store.Clone(node)
	next.Spec.Cordoned, next.Spec.Drain = true, true
	if one {
		device, err := strconv.Atoi(index)
		if err != nil || device < 0 || device >= len(node.Spec.Devices) {
			return api.Outage{}, fault.New(fault.Invalid, "NoSuchDevice", fault.T("%s has no device %s.", "%s 没有编号为 %s 的卡。", name, index))
		}
		next.Spec.Cordoned, next.Spec.CordonedDevices = node.Spec.Cordoned, append(next.Spec.CordonedDevices, device)
	}
	m.setNode(next)
	defer m.setNode(node)
	out := api.Outage{Zone: node.Spec.Zone, Node: place, Items: []api.OutageTask{}}
	for _, p := range m.leavers() {
		if !uses(p, number, m.drains[number]) {
			continue
		}
		if _, moves := m.cluster.Reserved(p.Spec.TaskID); !moves {
			defer m.cluster.Unreserve(p.Spec.TaskID)
		}
		out.Items = append(out.Items, m.leaver(p, number))
	}
	for i := range out.Items {
		if len(out.Items[i].To) > 0 {
			out.Move++
		}
	}
	out.Wait = len(out.Items) - out.Move
	return out, nil
}

// leaver says what becomes of one that has to leave, and holds its next place so that nobody else is promised it.
func (m *model) leaver(p *api.Placement, from uint32) api.OutageTask {
	t := api.OutageTask{Project: p.Meta.Project, Name: p.OwnerName()}
	for _, r := range p.Spec.Roles {
		t.Replicas += len(r.Slots)
		for _, s := range r.Slots {
			if s.Node == from {
				t.Lost++
			}
		}
	}
	to := m.reserve(p.Spec.TaskID)
	for _, r := range to {
		for _, s := range r.Slots {
			if n := m.in[s.Node]; n != nil {
				if t.To == nil {
					t.To = map[string]int{}
				}
				t.To[n.Spec.Zone]++
			}
		}
	}
	if to == nil {
		if w, ok := m.queues.Running(p.Spec.TaskID); ok {
			held, _ := m.cluster.Held(p.Spec.TaskID)
			why := sched.ExplainElsewhere(m.cluster, m.queues, sized(w, held))
			t.Reason, t.Message = why.Reason, why.Message
		}
	}
	return t
}
