package placement

import (
	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched"
)

// Outage says where each task of a zone would go if the zone were lost now. Fault Unavailable when
// this server does not lead.
func (c *Controller) Outage(zone string) (api.Outage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		return api.Outage{}, errNotLeading
	}
	list, more := sched.Outage(c.cfg.Clock.Now(), c.m.cluster, c.m.queues, zone)
	out := api.Outage{Zone: zone, Items: make([]api.OutageTask, 0, len(list)), More: more}
	for _, r := range list {
		t := api.OutageTask{Replicas: r.Replicas, Lost: r.Lost, To: r.To, Reason: r.Why.Reason, Message: r.Why.Message, Action: r.Why.Action}
		if p := c.m.stands[r.ID]; p != nil {
			t.Project, t.Name = p.Meta.Project, p.OwnerName()
		}
		if len(r.To) > 0 {
			out.Move++
		} else {
			out.Wait++
		}
		out.Items = append(out.Items, t)
	}
	return out, nil
}
