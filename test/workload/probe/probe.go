package probe

import (
	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/work"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Kind is the kind's name.
const Kind api.Kind = "Probe"

// Probe is the object.
type Probe struct {
	Meta   api.Meta    `json:"metadata"`
	Spec   Spec        `json:"spec"`
	Status work.Status `json:"status,omitzero"`
}

// Spec is the user's wish.
type Spec struct {
	Role     api.Role           `json:"role"`
	Queue    string             `json:"queue,omitempty"`
	Priority *int               `json:"priority,omitempty"`
	Restart  *api.RestartPolicy `json:"restartPolicy,omitempty"`
	Note     string             `json:"note,omitempty" doc:"The only thing that may change."`
}

// Kind is Probe.
func (*Probe) Kind() api.Kind { return Kind }

// GetMeta is the metadata.
func (p *Probe) GetMeta() *api.Meta { return &p.Meta }

// Default fills what was left out.
func (p *Probe) Default() {
	r := &p.Spec.Role
	if r.Name == "" {
		r.Name = "probe"
	}
	r.Replicas = max(r.Replicas, 1)
	if r.Resources.CPU == 0 {
		r.Resources.CPU = 100
	}
	if r.Resources.Memory == 0 {
		r.Resources.Memory = 64 << 20
	}
}

// Validate refuses a probe without a command.
func (p *Probe) Validate() []fault.Field {
	if len(p.Spec.Role.Command) == 0 {
		return []fault.Field{{Path: "spec.role.command", Message: fault.T("Say what it runs.", "请写明要运行的命令。")}}
	}
	return nil
}

// Workload is the view.
func (p *Probe) Workload() api.Workload {
	w := api.Workload{
		Kind: Kind, Meta: &p.Meta, Queue: p.Spec.Queue, Priority: api.DefaultPriority(Kind), Roles: []api.Role{p.Spec.Role}, Stop: p.Meta.DeletedAt != nil,
	}
	if p.Spec.Priority != nil {
		w.Priority = *p.Spec.Priority
	}
	p.Status.Show(&w)
	return w
}
