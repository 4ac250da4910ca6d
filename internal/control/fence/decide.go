package fence

import (
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/hold"
	"github.com/fermi-cluster/fermi/internal/engine"
)

// decide is the holds of a node as they shall be; live are the replicas there that have not ended.
func decide(n *api.Node, live []engine.Observation, now time.Time) (holds hold.List) {
	lives := func(name string) bool {
		return slices.ContainsFunc(live, func(o engine.Observation) bool { return string(o.Name) == name })
	}
	for _, h := range n.Status.Holds {
		if !lives(h.Replica) {
			continue
		}
		rebooted := h.BootID != "" && n.Status.BootID != "" && h.BootID != n.Status.BootID
		h.Released = h.Released || rebooted || n.Spec.Lost
		holds = append(holds, h)
	}
	if !n.Spec.Lost {
		return holds
	}
	for _, o := range live {
		if n.Status.Holds.Of(string(o.Name)) == nil {
			holds = append(holds, hold.Hold{
				Replica: string(o.Name), Owner: o.TaskID, Reason: hold.Lost, Heard: now, Since: now, BootID: n.Status.BootID, Released: true,
			})
		}
	}
	return holds
}
