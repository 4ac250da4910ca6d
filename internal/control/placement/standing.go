package placement

import (
	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/placement/past"
)

// standing is who stands where, by the placements that are written. The model's owner locks it.
type standing struct {
	stands map[string]*api.Placement  // by task id
	on     map[uint32]map[string]bool // node → ids of tasks that stand on it
	doubts map[string]*api.Placement  // by task id: as it was before a write that may have reserved a place
	lost   map[string]bool            // ids of tasks that look for others in the stead of lost replicas
	had    past.Reads                 // by task id: what of its data was there
}

func newStanding() standing {
	return standing{stands: map[string]*api.Placement{}, on: map[uint32]map[string]bool{}, doubts: map[string]*api.Placement{}, lost: map[string]bool{}, had: past.Reads{}}
}

// stand files a placement under its nodes, or takes it out.
func (s *standing) stand(p *api.Placement, stands bool) {
	if stands {
		s.stands[p.Spec.TaskID] = p
	} else {
		delete(s.stands, p.Spec.TaskID)
	}
	delete(s.lost, p.Spec.TaskID)
	if stands && p.Spec.Lost != nil {
		s.lost[p.Spec.TaskID] = true
	}
	for _, r := range p.Spec.Roles {
		for _, at := range r.Slots {
			if !stands {
				delete(s.on[at.Node], p.Spec.TaskID)
				continue
			}
			if s.on[at.Node] == nil {
				s.on[at.Node] = map[string]bool{}
			}
			s.on[at.Node][p.Spec.TaskID] = true
		}
	}
}

func uses(p *api.Placement, number uint32, devices uint64) bool {
	for _, r := range p.Spec.Roles {
		for _, s := range r.Slots {
			if s.Node == number && (devices == everything || s.Devices&devices != 0) {
				return true
			}
		}
	}
	return false
}
