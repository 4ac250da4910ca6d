package gang

import (
	"math/bits"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// Terms is what task and placement say of all members.
type Terms struct {
	Task      *api.TrainingTask
	Placement *api.Placement // nil: none
}

// Elastic says that replicas come and go while the task runs.
func (t *Terms) Elastic() bool { return t.Task.Spec.Elastic() || t.Reserves() }

// Reserves says that the task has spares, or could have.
func (t *Terms) Reserves() bool { return t.Task.Spec.Spares() > 0 }

// Peered says that launchers keep each other's states.
func (t *Terms) Peered() bool { return t.Task.Spec.PeerMemory() && !t.Elastic() && !t.Inside() }

// Replaces says that a lost launcher is replaced alone, in the same attempt.
func (t *Terms) Replaces() bool { return t.Elastic() || t.Peered() }

// Inside says that the place is borrowed.
func (t *Terms) Inside() bool { return t.Placement != nil && len(t.Placement.Spec.Inside) > 0 }

// lender is whose replica a member runs inside; zero: none't.
func (t *Terms) lender(index int) api.Lender {
	if !t.Inside() || index >= len(t.Placement.Spec.Inside) {
		return api.Lender{}
	}
	return t.Placement.Spec.Inside[index]
}

// roleAt is a role as it stands in a slot: inside an environment it has the devices that are there.
func (t *Terms) roleAt(role *api.Role, slot api.Slot) *api.Role {
	if !t.Inside() {
		return role
	}
	there := *role
	there.Resources.Accelerators.Count = bits.OnesCount64(slot.Devices)
	return &there
}

// RanksAt is how many processes a member has, or how many of them its launcher starts.
func (t *Terms) RanksAt(name string, slot api.Slot, count func(api.Framework, *api.Role) int) int {
	for i := range t.Task.Spec.Roles {
		if r := &t.Task.Spec.Roles[i]; r.Name == name {
			return max(count(t.Task.Spec.Framework, t.roleAt(r, slot)), 1)
		}
	}
	return 1
}

// Alone is the role if it starts again by itself, and "" for the others.
func (t *Terms) Alone(role string) string {
	if t.Task.Status.Role(role) == nil {
		return ""
	}
	return role
}

// Leaves says that all of the task's processes were told to end.
func (t *Terms) Leaves() bool {
	return t.Task.Spec.Stop || t.Placement == nil || t.Placement.Spec.Evict != nil
}
