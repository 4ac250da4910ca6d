package serving

import (
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/api/v1/spot"
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
	Contract
	// Timeout, MaxConcurrency and MaxQueue are the gateway's to keep.
	Timeout        api.Duration      `json:"timeout,omitempty" doc:"How long a request may wait for the first byte of its answer; 60s when absent. A stream that has begun is never cut."`
	MaxConcurrency int               `json:"maxConcurrency,omitempty" minimum:"0" maximum:"100000" doc:"Requests that a replica works on at once; 64 when absent."`
	MaxQueue       int               `json:"maxQueue,omitempty" minimum:"0" maximum:"100000" doc:"Requests that wait for each replica beyond that; more are answered 429. 128 when absent."`
	Queue          string            `json:"queue,omitempty" doc:"The project's own when absent."`
	Priority       *int              `json:"priority,omitempty" doc:"1000, that of inference, when absent."`
	Autoscale      *ServiceAutoscale `json:"autoscale,omitempty" doc:"As many replicas as are needed; absent: as many as spec.replicas says."`
	Traffic        *ServiceTraffic   `json:"traffic,omitempty" doc:"How requests are shared among revisions."`
	Gateway        *ServiceGateway   `json:"gateway,omitempty" doc:"What gateways do for it beside carrying its requests."`
	Zones          []ServiceZone     `json:"zones,omitempty" maxItems:"32" doc:"Where its replicas stand and how requests are shared among zones; anywhere, all alike, when absent. Their replicas together are spec.replicas."`
	SLO            *SLO              `json:"slo,omitempty" doc:"What it promises: its error budget is shown."`
	Stop           bool              `json:"stop,omitempty" doc:"It shall not answer: its replicas end, its address stays its own."`
}

// ServiceTemplate is what replicas are made from.
type ServiceTemplate struct {
	Engine Engine `json:"engine,omitempty" enum:"custom,sample,onnxruntime,triton,mlserver,torchserve,tensorflow-serving,llama-cpp,vllm,sglang" doc:"What answers: custom (when absent), the command; sample, the small server inside this program; or a server that is installed where the replica runs."`
	// Model is for engines that load one.
	Model *ServiceModel `json:"model,omitempty" doc:"What it answers with: a version of a model, or an output of a task."`
	Parts
	Options *EngineOptions `json:"options,omitempty" doc:"What the engine is told; one that it has no word for is refused."`
	Image   string         `json:"image,omitempty" maxLength:"512" doc:"What it runs in; absent or host is the node's own system."`
	Command []string       `json:"command,omitempty" doc:"For engine custom: it listens on $PORT, on all addresses. For other engines but sample: the program that is run instead of the usual one, such as /opt/vllm/bin/vllm serve."`
	Args    []string       `json:"args,omitempty"`
	Env     []api.EnvVar   `json:"env,omitempty"`
	Given
	WorkingDir string         `json:"workingDir,omitempty" doc:"Relative to the code; the code's root when absent."`
	Code       *api.Code      `json:"code,omitempty"`
	Resources  api.Resources  `json:"resources,omitzero" doc:"Of each replica."`
	Port       int            `json:"port,omitempty" minimum:"0" maximum:"65535" doc:"That the command listens on; when absent it gets a free one as $PORT."`
	Health     *ServiceHealth `json:"health,omitempty" doc:"How a replica is asked whether it answers."`
	StopGrace  api.Duration   `json:"stopGrace,omitempty" doc:"How long a replica has to finish its requests after SIGTERM; 30s when absent."`
}

// Parts are what a replica is made of beside its engine and its model.
type Parts struct {
	Adapters []Adapter     `json:"adapters,omitempty" maxItems:"64" doc:"Small models (LoRA) on top of the model, each addressed as NAME:ADAPTER."`
	Roles    []ServiceRole `json:"roles,omitempty" maxItems:"8" doc:"Where one machine is not enough for a replica: the members of its gang, which are placed, started and started again together. The first member of the first role leads: it answers."`
}

// Given is what replicas are given beside their code, as tasks are, and the sort of nodes.
type Given struct {
	Spot    spot.Rule `json:"spot,omitempty" enum:"never,prefer,only" doc:"Nodes that may be taken away at short notice: never, prefer (while they have room) or only; as good as others when absent."`
	Balance bool      `json:"balance,omitempty" doc:"Each replica stands in the zone where most room for it is left; it says nothing where zones are given."`
	mount.Lists
	SecretFiles []api.SecretFile    `json:"secretFiles,omitempty" doc:"Values of secrets as files in $FERMI_SECRETS."`
	Credentials []api.CredentialRef `json:"credentials,omitempty"`
}

// ServiceModel is where a model comes from.
type ServiceModel struct {
	Name    string `json:"name,omitempty" maxLength:"40" doc:"A model of the project: its version is mounted read-only at /models/NAME, which is $FERMI_MODEL."`
	Version string `json:"version,omitempty" maxLength:"63" doc:"A number, an alias or a stage; latest when absent. The number that it means then is written here when the service is made or changed."`
	Task    string `json:"task,omitempty" doc:"A training task of the project whose output it is."`
	File    string `json:"file,omitempty" doc:"A file or folder of the task's outputs, or of the code; model.json for engine sample, the code itself for others when absent."`
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
	Canary    *CanaryStatus     `json:"canary,omitempty" doc:"Of a revision that has not taken over yet."`
	Scale     *ScaleStatus      `json:"scale,omitempty" doc:"What autoscaling decided."`
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
		Kind: Kind, Meta: &s.Meta, Queue: s.Spec.Queue, Priority: api.DefaultPriority(Kind), Roles: t.roles(s.Meta.Name, max(s.Spec.Replicas, 1)),
		Phase: s.Status.Phase, Stop: s.Spec.Stop || s.Meta.DeletedAt != nil, Parent: true,
		Ran:     api.Ran{Reason: s.Status.Reason, Message: s.Status.Message, StartedAt: s.Status.ReadyAt},
		Program: api.Program{Framework: api.FrameworkPlain, Code: t.Code, Credentials: t.Credentials, Needs: mount.Needs{Lists: mount.Lists{Datasets: t.Datasets, Models: t.Models}}},
	}
	if s.Spec.Priority != nil {
		w.Priority = *s.Spec.Priority
	}
	return w
}

// roleName is the role of a service's replicas.
const roleName = "server"

// DefaultFile is the model's where none is named.
const DefaultFile = "model.json"
