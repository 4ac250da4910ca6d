package placement

import (
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched"
)

// Outage says where each task of a zone would go if the zone were lost now. Fault Unavailable when
// this server does not lead.
func (d *Desk) Outage(zone string) (out api.Outage, err error) {
	if !d.seat.with(func(m *model) { out = m.outage(d.clock.Now(), zone) }) {
		return out, errNotLeading
	}
	return out, nil
}

func (m *model) outage(now time.Time, zone string) api.Outage {
	list, more := sched.Outage(now, m.cluster, m.queues, zone)
	out := api.Outage{Zone: zone, Items: make([]api.OutageTask, 0, len(list)), More: more}
	for _, r := range list {
		t := api.OutageTask{Replicas: r.Replicas, Lost: r.Lost, To: r.To, Reason: r.Why.Reason, Message: r.Why.Message, Action: r.Why.Action}
		if p := m.stands[r.ID]; p != nil {
			t.Project, t.Name = p.Meta.Project, p.OwnerName()
		}
		if len(r.To) > 0 {
			out.Move++
		} else {
			out.Wait++
		}
		out.Items = append(out.Items, t)
	}
	return out
}
