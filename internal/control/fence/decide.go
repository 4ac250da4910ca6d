package fence

import (
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/hold"
	"github.com/fermi-cluster/fermi/internal/engine"
)

// decide is the holds of a node as they shall be; there are the replicas on it that are not done.
func decide(n *api.Node, there []engine.Observation, now time.Time) (holds hold.List) {
	for _, h := range n.Status.Holds {
		i := slices.IndexFunc(there, func(o engine.Observation) bool { return string(o.Name) == h.Replica })
		if i < 0 {
			continue
		}
		rebooted := h.BootID != "" && n.Status.BootID != "" && h.BootID != n.Status.BootID
		h.Released = h.Released || rebooted || n.Spec.Lost || there[i].State == engine.StateExited
		holds = append(holds, h)
	}
	if !n.Spec.Lost {
		return holds
	}
	for _, o := range there {
		if o.State != engine.StateExited && n.Status.Holds.Of(string(o.Name)) == nil {
			holds = append(holds, hold.Hold{
				Replica: string(o.Name), Owner: o.TaskID, Reason: hold.Lost, Heard: now, Since: now, BootID: n.Status.BootID, Released: true,
			})
		}
	}
	return holds
}
