package devenv

import (
	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/steady"
)

// Kind is the kind's name.
const Kind api.Kind = "DevEnvironment"

// Role is the name of its one role.
const Role = "env"

// Row is its row in the table of kinds.
var Row = api.KindInfo{
	Kind: Kind, Singular: "environment", Plural: "dev-environments", Aliases: []string{"env", "envs", "environments", "devenvironment", "devenvironments", "dev-environment"},
	IDPrefix: "env", Project: true, Phased: true, Users: true, Class: "environment",
	New: func() api.Object { return &DevEnvironment{} },
}

// DevEnvironment is a machine to work on: a home folder that stays, and processes around it while it runs.
type DevEnvironment struct {
	Meta   api.Meta      `json:"metadata"`
	Spec   Spec          `json:"spec"`
	Status steady.Status `json:"status,omitzero"`
}

// Type says what an environment is for.
type Type string

// The types.
const (
	Notebook  Type = "notebook"
	Training  Type = "training"
	Inference Type = "inference"
	Custom    Type = "custom"
)

// Types are all of them, in the order in which they are shown.
var Types = []Type{Notebook, Training, Inference, Custom}

// Spec is the user's wish.
type Spec struct {
	Description string `json:"description,omitempty" maxLength:"4096"`
	Type        Type   `json:"type,omitempty" enum:"notebook,training,inference,custom" doc:"What it is for; custom when absent."`
	Image       string `json:"image,omitempty" maxLength:"512" doc:"What it runs in; host, or nothing, is the node's own system."`
	// Resources may change between stop and start, like all that follows but the zone.
	Resources   api.Resources    `json:"resources,omitzero" doc:"At most 8 accelerators, 128 cores and 1Ti of memory."`
	Storage     api.Bytes        `json:"storage,omitempty" explicit:"nonzero" doc:"What its home may hold; beyond it the environment is stopped with DiskLimitExceeded. No bound of its own when absent, at most 2Ti."`
	Env         []api.EnvVar     `json:"env,omitempty"`
	SecretFiles []api.SecretFile `json:"secretFiles,omitempty" doc:"Values of secrets as files in $FERMI_SECRETS."`
	// Command is what runs beside the shells. Without one the environment only waits for them.
	Command []string           `json:"command,omitempty" doc:"What is started with it, in its home; the environment ends with it. Nothing when absent: it runs until it is stopped."`
	Restart *api.RestartPolicy `json:"restartPolicy,omitempty" doc:"How often the command is started again when it fails; 3 times an hour when absent."`
	Zone    string             `json:"zone,omitempty" doc:"Where it runs; chosen at the first start when absent. Its home stays there."`
	Queue   string             `json:"queue,omitempty" doc:"The project's own when absent."`
	// Priority is not above what the project may have.
	Priority *int `json:"priority,omitempty" doc:"Larger wins; that of environments, 400, when absent."`
	Shared   bool `json:"shared,omitempty" doc:"Members of its project may enter it; otherwise only its owner may."`
	// Stop and Starts are written by the verbs stop and start.
	Stop   bool `json:"stop,omitempty" doc:"It shall not run."`
	Starts int  `json:"starts,omitempty" minimum:"0" doc:"Counts the calls of start; larger than it was asks for another start."`
}

// Kind is DevEnvironment.
func (*DevEnvironment) Kind() api.Kind { return Kind }

// GetMeta is the metadata.
func (e *DevEnvironment) GetMeta() *api.Meta { return &e.Meta }

// hold is what runs where the user named nothing: it waits for the end.
var hold = []string{"fermi", "hold"}

// Hold is the argument of the program that makes it wait.
const Hold = "hold"

// role is its one role, as the rest of the house sees it.
func (e *DevEnvironment) role() api.Role {
	s := &e.Spec
	r := api.Role{
		Name: Role, Replicas: 1, Ranks: 1, Resources: s.Resources, Image: s.Image, Command: s.Command, Env: s.Env, SecretFiles: s.SecretFiles,
		Standby: &api.Standby{Disabled: true},
	}
	if len(r.Command) == 0 {
		r.Command = hold
	}
	return r
}

// Workload is the view.
func (e *DevEnvironment) Workload() api.Workload {
	w := api.Workload{
		Kind: Kind, Meta: &e.Meta, Queue: e.Spec.Queue, Priority: api.DefaultPriority(Kind), Roles: []api.Role{e.role()}, Stop: e.Spec.Stop || e.Meta.DeletedAt != nil,
		Wish: api.Wish{Fixed: true},
	}
	if e.Spec.Zone != "" {
		w.Wish.Zones = &api.ZoneRules{Allow: []string{e.Spec.Zone}}
	} else if len(e.Status.Zones) == 1 && e.Status.Attempt > 0 { // its home is there
		w.Wish.Zones = &api.ZoneRules{Allow: e.Status.Zones}
	}
	if e.Spec.Priority != nil {
		w.Priority = *e.Spec.Priority
	}
	e.Status.Show(&w)
	return w
}

// IsShared says that members of its project may enter it.
func (e *DevEnvironment) IsShared() bool { return e.Spec.Shared }

// IsDue says that somebody asked for a start after it had ended.
func (e *DevEnvironment) IsDue() bool {
	return e.Status.Phase.Finished() && !e.Spec.Stop && e.Meta.DeletedAt == nil && e.Spec.Starts > e.Status.Starts
}
