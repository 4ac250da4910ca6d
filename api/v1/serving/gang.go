package serving

import (
	"fmt"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// ServiceRole is a part of a replica that stands on several machines: members that do the same, such as prefill and decode.
type ServiceRole struct {
	Name      string         `json:"name" maxLength:"63"`
	Members   int            `json:"members,omitempty" minimum:"1" maximum:"64" doc:"Each has a place of its own; 1 when absent."`
	Command   []string       `json:"command,omitempty" doc:"The template's, or its engine's, when absent."`
	Args      []string       `json:"args,omitempty" doc:"The template's when absent."`
	Env       []api.EnvVar   `json:"env,omitempty" doc:"Beside the template's."`
	Resources *api.Resources `json:"resources,omitempty" doc:"Of each member; the template's when absent."`
}

// maxMembers bounds a replica.
const maxMembers = 256

// Lead is the role whose first member answers.
func (t *ServiceTemplate) Lead() string {
	if len(t.Roles) == 0 {
		return roleName
	}
	return t.Roles[0].Name
}

// IsGang says that a replica has several members.
func (t *ServiceTemplate) IsGang() bool { return t.members() > 1 }

func (t *ServiceTemplate) members() (n int) {
	for _, r := range t.Roles {
		n += max(r.Members, 1)
	}
	return n
}

// roles are what so many replicas are.
func (t *ServiceTemplate) roles(service string, replicas int) (out []api.Role) {
	if len(t.Roles) == 0 {
		return []api.Role{t.role(service, replicas)}
	}
	for _, own := range t.Roles {
		r := t.role(service, replicas*max(own.Members, 1))
		r.Name = own.Name
		if len(own.Command) > 0 {
			r.Command = own.Command
		}
		if len(own.Args) > 0 {
			r.Args = own.Args
		}
		r.Env = slices.Concat(r.Env, own.Env)
		if own.Resources != nil {
			r.Resources = *own.Resources
		}
		out = append(out, r)
	}
	return out
}

// fillRoles gives each role what it does not say.
func (t *ServiceTemplate) fillRoles(service string) {
	t.Roles = slices.Clone(t.Roles)
	for i := range t.Roles {
		r := &t.Roles[i]
		if r.Members == 0 {
			r.Members = 1
		}
		if r.Resources == nil {
			continue
		}
		one := *t
		one.Roles, one.Resources = nil, *r.Resources
		task := one.asTask(service, 1)
		task.Default()
		filled := task.Spec.Roles[0].Resources
		r.Resources = &filled
	}
}

// gang checks the members of a replica.
func (f *faults) gang(at string, t *ServiceTemplate) {
	if len(t.Roles) > 8 || t.members() > maxMembers {
		f.add(at, "A replica has at most 8 roles and %d members.", "每个副本最多 8 个角色、%d 个成员。", maxMembers)
		return
	}
	taken := map[string]bool{}
	for i, r := range t.Roles {
		here := fmt.Sprintf("%s[%d]", at, i)
		if !api.IsName(r.Name) || taken[r.Name] {
			f.add(here+".name", "It must be a name of its own, such as prefill.", "应为唯一的名称，例如 prefill。")
		}
		taken[r.Name] = true
		f.count(here+".members", r.Members, 1, 64)
		if len(r.Command) > 0 && t.Engine == EngineSample {
			f.add(here+".command", "Engine sample brings its own command; leave it out, or choose engine custom.", "engine sample 自带启动命令：请去掉 command，或选择 engine: custom。")
		}
	}
}
