package train

import (
	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/save"
	"github.com/fermi-cluster/fermi/internal/link"
)

// orderFor is what a member is told about the open generation. A launcher holds on after a failure
// only while there are restarts left; otherwise it need not wait for us to end.
func (s *snapshot) orderFor(i int, status *api.TrainingTaskStatus, hold bool) link.Generation {
	r, generation := status.Rendezvous, status.Generation
	if own := status.Role(s.Members[i].Role); own != nil {
		r, generation = own.Rendezvous, own.Generation
	}
	var origin *link.Origin
	if o := r.Origin; o != nil {
		origin = &link.Origin{TaskID: o.TaskID, Name: o.Name}
	}
	g := link.Generation{
		Number:     int64(generation),
		Hold:       hold,
		Every:      save.Every(status),
		Membership: link.Membership{FirstRank: s.Members[i].First, World: r.World, Group: s.Members[i].Group, Groups: s.Members[i].Groups, Lead: r.Lead, Table: r.Members, Ports: r.Ports, Hosts: r.Hosts},
		States:     link.States{Origin: origin, Restore: r.Restore},
	}
	s.Introduce(i, &g)
	return g
}
