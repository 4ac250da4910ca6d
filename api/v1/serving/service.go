package serving

import (
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/fsm"
)

// The kinds' names.
const (
	Kind          api.Kind = "InferenceService"
	ReplicaKind   api.Kind = "ServiceReplica"
	EndpointsKind api.Kind = "ServiceEndpoints"
)

// ScopeInference is the scope of a token that asks services, and does nothing else.
const ScopeInference api.TokenScope = "inference"

// Rows are their rows in the table of kinds.
var Rows = []api.KindInfo{
	{
		Kind: Kind, Singular: "service", Plural: "inference-services", Aliases: []string{"services", "svc", "inferenceservice", "inferenceservices", "inference-service"},
		IDPrefix: "svc", Project: true, Users: true, Class: "inference", New: func() api.Object { return &InferenceService{} },
	},
	{
		Kind: ReplicaKind, Singular: "service-replica", Plural: "service-replicas", Aliases: []string{}, IDPrefix: "rep", Project: true, Class: "inference",
		New: func() api.Object { return &ServiceReplica{} },
	},
	{
		Kind: EndpointsKind, Singular: "service-endpoints", Plural: "service-endpoints", Aliases: []string{}, IDPrefix: "ep",
		New: func() api.Object { return &ServiceEndpoints{} },
	},
}

// InferenceService answers requests at /inference/NAME. Its replicas are work of their own (ServiceReplica): each has its
// place, starts and ends by itself, so that an update replaces one after the other.
type InferenceService struct {
	Meta   api.Meta      `json:"metadata"`
	Spec   ServiceSpec   `json:"spec"`
	Status ServiceStatus `json:"status,omitzero"`
}

// Kind is InferenceService.
func (*InferenceService) Kind() api.Kind { return Kind }

// GetMeta is the metadata.
func (s *InferenceService) GetMeta() *api.Meta { return &s.Meta }

// Engine is what answers.
type Engine string

// The engines.
const (
	EngineCustom Engine = "custom" // the command of the manifest
	EngineSample Engine = "sample" // the small server of this program
)

// Engines lists them.
var Engines = []Engine{EngineCustom, EngineSample}

// Protocol is what a service speaks.
type Protocol string

// The protocols. WebSocket and server-sent events also pass where the protocol is rest.
const (
	REST      Protocol = "rest"
	GRPC      Protocol = "grpc"
	WebSocket Protocol = "websocket"
)

// Protocols lists them.
var Protocols = []Protocol{REST, GRPC, WebSocket}

// ServiceSpec is the user's wish.
type ServiceSpec struct {
	Description string `json:"description,omitempty" maxLength:"4096"`
	Replicas    int    `json:"replicas,omitempty" explicit:"nonzero" minimum:"1" maximum:"1000" doc:"How many answer side by side; 1 when absent."`
	// Template is a revision: to change it replaces replicas.
	Template ServiceTemplate `json:"template" doc:"What its replicas are made from; each change of it is a revision."`
	Protocol Protocol        `json:"protocol,omitempty" enum:"rest,grpc,websocket" doc:"rest when absent."`
	// Timeout, MaxConcurrency and MaxQueue are the gateway's to keep.
	Timeout        api.Duration `json:"timeout,omitempty" doc:"How long a request may wait for the first byte of its answer; 60s when absent. A stream that has begun is never cut."`
	MaxConcurrency int          `json:"maxConcurrency,omitempty" minimum:"0" maximum:"100000" doc:"Requests that a replica works on at once; 64 when absent."`
	MaxQueue       int          `json:"maxQueue,omitempty" minimum:"0" maximum:"100000" doc:"Requests that wait for each replica beyond that; more are answered 429. 128 when absent."`
	Queue          string       `json:"queue,omitempty" doc:"The project's own when absent."`
	Priority       *int         `json:"priority,omitempty" doc:"1000, that of inference, when absent."`
	Stop           bool         `json:"stop,omitempty" doc:"It shall not answer: its replicas end, its address stays its own."`
}

// ServiceTemplate is what replicas are made from.
type ServiceTemplate struct {
	Engine Engine `json:"engine,omitempty" enum:"custom,sample" doc:"What answers: custom (when absent), the command; or sample, the small server inside this program."`
	// Model is for engines that load one.
	Model   *ServiceModel `json:"model,omitempty" doc:"What it answers with; for engine sample."`
	Image   string        `json:"image,omitempty" maxLength:"512" doc:"What it runs in; absent or host is the node's own system."`
	Command []string      `json:"command,omitempty" doc:"For engine custom. It listens on $PORT, on all addresses."`
	Args    []string      `json:"args,omitempty"`
	Env     []api.EnvVar  `json:"env,omitempty"`
	// SecretFiles and Credentials are as those of a task.
	SecretFiles []api.SecretFile    `json:"secretFiles,omitempty" doc:"Values of secrets as files in $FERMI_SECRETS."`
	Credentials []api.CredentialRef `json:"credentials,omitempty"`
	WorkingDir  string              `json:"workingDir,omitempty" doc:"Relative to the code; the code's root when absent."`
	Code        *api.Code           `json:"code,omitempty"`
	Resources   api.Resources       `json:"resources,omitzero" doc:"Of each replica."`
	Port        int                 `json:"port,omitempty" minimum:"0" maximum:"65535" doc:"That the command listens on; when absent it gets a free one as $PORT."`
	Health      *ServiceHealth      `json:"health,omitempty" doc:"How a replica is asked whether it answers."`
	StopGrace   api.Duration        `json:"stopGrace,omitempty" doc:"How long a replica has to finish its requests after SIGTERM; 30s when absent."`
}

// ServiceModel is where a model comes from.
type ServiceModel struct {
	Task string `json:"task,omitempty" doc:"A training task of the project whose output it is."`
	File string `json:"file,omitempty" doc:"Of the task's outputs, or of the code; model.json when absent."`
}

// ServiceHealth is how a replica is asked whether it answers.
type ServiceHealth struct {
	Path     string       `json:"path,omitempty" doc:"Asked with GET: 2xx and 3xx are good answers. Absent: it is enough that the port takes a connection."`
	Every    api.Duration `json:"every,omitempty" doc:"Time between two questions; 1s when absent."`
	Timeout  api.Duration `json:"timeout,omitempty" doc:"How long an answer may take; 2s when absent."`
	Failures int          `json:"failures,omitempty" minimum:"0" maximum:"100" doc:"Bad answers in a row after which it gets no more requests; 3 when absent."`
}

// PhaseDeploying is a service that has not answered yet.
const PhaseDeploying api.Phase = "Deploying"

// Phases is the table of allowed moves of a service.
var Phases = fsm.Table[api.Phase]{
	"":               {PhaseDeploying},
	PhaseDeploying:   {api.PhaseRunning, api.PhaseFailed, api.PhaseStopped},
	api.PhaseRunning: {api.PhaseFailed, api.PhaseStopped},
	api.PhaseFailed:  {PhaseDeploying, api.PhaseRunning, api.PhaseStopped},
	api.PhaseStopped: {PhaseDeploying},
}

// State says how well a running service stands.
type State string

// The states.
const (
	Healthy  State = "healthy"
	Degraded State = "degraded" // fewer replicas answer than are wanted
)

// ServiceStatus is what its controller saw.
type ServiceStatus struct {
	Phase   api.Phase  `json:"phase,omitempty" enum:"Deploying,Running,Stopped,Failed"`
	Health  State      `json:"health,omitempty" enum:"healthy,degraded" doc:"Of one that is Running: degraded while fewer replicas answer than are wanted."`
	Reason  string     `json:"reason,omitempty" doc:"Machine-readable: why it is in this phase."`
	Message fault.Text `json:"message,omitzero"`
	// Hash is that of Spec.Template, of the newest revision.
	Hash      string            `json:"hash,omitempty" doc:"Of what the replicas of the newest revision are made from."`
	Revision  int               `json:"revision,omitempty" doc:"The newest."`
	Revisions []ServiceRevision `json:"revisions,omitempty" doc:"The newest ten, oldest first."`
	Replicas  ServiceCount      `json:"replicas,omitzero"`
	Serial    int               `json:"serial,omitempty" doc:"Replicas made so far; it is in their names."`
	URL       string            `json:"url,omitempty" doc:"Path of its address at the gateway."`
	ReadyAt   *time.Time        `json:"readyAt,omitempty" doc:"When it first answered after its last start."`
}

// ServiceRevision is what replicas were made from.
type ServiceRevision struct {
	Number    int             `json:"number"`
	CreatedAt time.Time       `json:"createdAt"`
	Template  ServiceTemplate `json:"template"`
}

// ServiceCount is how many replicas are how far.
type ServiceCount struct {
	Wanted  int `json:"wanted"`
	Ready   int `json:"ready" doc:"That answer."`
	Updated int `json:"updated" doc:"Of the newest revision, that answer."`
	Total   int `json:"total" doc:"That exist, also those that start or end."`
}

// Workload is the view of all replicas together: what the door needs to know. Its phase is never Pending, so that
// nobody looks for a place for it; its replicas have places of their own.
func (s *InferenceService) Workload() api.Workload {
	t := &s.Spec.Template
	w := api.Workload{
		Kind: Kind, Meta: &s.Meta, Queue: s.Spec.Queue, Priority: api.DefaultPriority(Kind), Roles: []api.Role{t.role(max(s.Spec.Replicas, 1))},
		Phase: s.Status.Phase, Stop: s.Spec.Stop || s.Meta.DeletedAt != nil,
		Ran:     api.Ran{Reason: s.Status.Reason, Message: s.Status.Message, StartedAt: s.Status.ReadyAt},
		Program: api.Program{Framework: api.FrameworkPlain, Code: t.Code, Credentials: t.Credentials},
	}
	if s.Spec.Priority != nil {
		w.Priority = *s.Spec.Priority
	}
	return w
}

// roleName is the role of a service's replicas.
const roleName = "server"

// own is the command of an engine that brings its own.
var own = []string{"fermi", "sample", "serve"}

// role is what so many replicas are.
func (t *ServiceTemplate) role(replicas int) api.Role {
	r := api.Role{
		Name: roleName, Replicas: replicas, Resources: t.Resources, Image: t.Image, Command: t.Command, Args: t.Args, Env: t.Env,
		SecretFiles: t.SecretFiles, WorkingDir: t.WorkingDir, Standby: &api.Standby{Disabled: true},
	}
	if t.Engine == EngineSample {
		r.Command = own
		if t.Model != nil {
			file := t.Model.File
			if file == "" {
				file = DefaultFile
			}
			r.Command = append(append([]string{}, own...), "--model", file)
		}
	}
	return r
}

// DefaultFile is the model's where none is named.
const DefaultFile = "model.json"
