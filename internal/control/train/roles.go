package train

import (
	api "github.com/fermi-cluster/fermi/api/v1"
)

// renewRoles begins another attempt of the roles that restart by themselves: the task itself does.
func renewRoles(task *api.TrainingTask, status *api.TrainingTaskStatus) {
	for _, role := range task.Spec.Roles {
		if !role.Alone() {
			continue
		}
		r := status.Role(role.Name)
		if r == nil {
			status.Roles = append(status.Roles, api.RoleStatus{Name: role.Name})
			r = &status.Roles[len(status.Roles)-1]
		}
		r.Attempt++
		r.Rendezvous = nil
	}
}

// generations names what is open in all units.
func generations(status *api.TrainingTaskStatus) string {
	text := itoa(status.Generation)
	for i := range status.Roles {
		text += "-" + itoa(status.Roles[i].Generation)
	}
	return text
}
