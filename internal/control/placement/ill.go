package placement

import (
	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/card"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// illText says which device at fault makes a gang leave; where there is none, what was said stays.
func illText(p *api.Placement, nodes map[uint32]*api.Node, e api.Eviction) fault.Text {
	for _, r := range p.Spec.Roles {
		for _, s := range r.Slots {
			n := nodes[s.Node]
			if n == nil {
				continue
			}
			for i := range n.Status.Devices {
				h := &n.Status.Devices[i]
				if !h.Closed() || s.Devices&(1<<h.Device) == 0 {
					continue
				}
				if e.To != nil {
					return fault.T("Device %[2]d of node %[1]s is at fault (%[3]s); it saves and goes on elsewhere.", "节点 %[1]s 的加速卡 %[2]d 有故障（%[3]s），任务将保存并在别处继续。", n.Meta.Name, h.Device, h.Reason)
				}
				return fault.T("Device %[2]d of node %[1]s is at fault (%[3]s); it saves and waits for another place.", "节点 %[1]s 的加速卡 %[2]d 有故障（%[3]s），任务将保存并等待重新调度。", n.Meta.Name, h.Device, h.Reason)
			}
		}
	}
	return e.Message
}

// shut says that a place would have a device that takes no work any more: it was closed since the place was chosen.
func shut(roles []api.RoleAssignment, nodes map[uint32]*api.Node) bool {
	for _, r := range roles {
		for _, s := range r.Slots {
			if n := nodes[s.Node]; n != nil && card.Closed(n.Status.Devices)&s.Devices != 0 {
				return true
			}
		}
	}
	return false
}
