package serving

import (
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// ServiceReplica is one replica of a service: work of its own, made and ended by the service's controller.
type ServiceReplica struct {
	Meta   api.Meta             `json:"metadata"`
	Spec   ServiceReplicaSpec   `json:"spec"`
	Status ServiceReplicaStatus `json:"status,omitzero"`
}

// Kind is ServiceReplica.
func (*ServiceReplica) Kind() api.Kind { return ReplicaKind }

// GetMeta is the metadata.
func (r *ServiceReplica) GetMeta() *api.Meta { return &r.Meta }

// ServiceReplicaSpec is the controller's wish.
type ServiceReplicaSpec struct {
	Service   string          `json:"service" doc:"Name of the service."`
	ServiceID string          `json:"serviceId"`
	Revision  int             `json:"revision"`
	Zone      string          `json:"zone,omitempty" doc:"The only zone that it may stand in; any when absent."`
	Template  ServiceTemplate `json:"template" doc:"What it is made from."`
	Queue     string          `json:"queue"`
	Priority  int             `json:"priority"`
	// DrainAt is set when it gets no more requests; it ends a moment later.
	DrainAt *time.Time `json:"drainAt,omitempty" doc:"Since when it gets no more requests."`
}

// ServiceReplicaStatus is what its controller saw.
type ServiceReplicaStatus struct {
	Phase      api.Phase        `json:"phase,omitempty"`
	Reason     string           `json:"reason,omitempty" doc:"Machine-readable: why it is in this phase."`
	Message    fault.Text       `json:"message,omitzero"`
	Attempt    int              `json:"attempt,omitempty" doc:"Starts so far."`
	Restarts   []time.Time      `json:"restarts,omitempty"`
	PlacedAt   *time.Time       `json:"placedAt,omitempty"`
	StartedAt  *time.Time       `json:"startedAt,omitempty"`
	FinishedAt *time.Time       `json:"finishedAt,omitempty"`
	Replicas   api.ReplicaCount `json:"replicas,omitzero"`
	ExitCode   *int             `json:"exitCode,omitempty"`
	Zones      []string         `json:"zones,omitempty"`
	Node       string           `json:"node,omitempty"`
	Answers
}

// Answers is whether a replica answers, as its launcher finds beside it, and where.
type Answers struct {
	Ready   bool       `json:"ready,omitempty" doc:"It answers."`
	ReadyAt *time.Time `json:"readyAt,omitempty" doc:"Since when it answers."`
	Address string     `json:"address,omitempty" doc:"host:port, while it answers."`
	Via     *Via       `json:"via,omitempty" doc:"On a machine that joined: the agent that passes requests on to that address."`
	Why     string     `json:"why,omitempty" doc:"Why it does not answer, as its launcher was told."`
}

// Workload is the replica's view.
func (r *ServiceReplica) Workload() api.Workload {
	t, s := &r.Spec.Template, &r.Status
	w := api.Workload{
		Kind: ReplicaKind, Meta: &r.Meta, Queue: r.Spec.Queue, Priority: r.Spec.Priority, Roles: t.roles(r.Spec.Service, 1),
		Phase: s.Phase, Attempt: s.Attempt, Stop: r.Meta.DeletedAt != nil,
		Ran:     api.Ran{Reason: s.Reason, Message: s.Message, PlacedAt: s.PlacedAt, StartedAt: s.StartedAt, FinishedAt: s.FinishedAt, Zones: s.Zones},
		Program: api.Program{Framework: api.FrameworkPlain, Code: t.Code, Credentials: t.Credentials, Needs: mount.Needs{Lists: mount.Lists{Datasets: t.Datasets, Models: t.Models}}},
	}
	if w.Wish.Zones = t.zones(); r.Spec.Zone != "" {
		w.Wish.Zones = &api.ZoneRules{Allow: []string{r.Spec.Zone}, Spot: t.Spot}
	}
	return w
}

// ServiceEndpoints are where the replicas of a service answer: one small object, all that a gateway needs to know, written
// when that changes. It has the service's name and belongs to the whole cluster, so that no two services share an address.
type ServiceEndpoints struct {
	Meta api.Meta             `json:"metadata"`
	Spec ServiceEndpointsSpec `json:"spec"`
}

// Kind is ServiceEndpoints.
func (*ServiceEndpoints) Kind() api.Kind { return EndpointsKind }

// GetMeta is the metadata.
func (e *ServiceEndpoints) GetMeta() *api.Meta { return &e.Meta }

// ServiceEndpointsSpec is the road to a service.
type ServiceEndpointsSpec struct {
	ServiceID string `json:"serviceId"`
	Project   string `json:"project" doc:"Whose service it is: only who may read the project's work reaches it."`
	Contract
	Timeout        api.Duration      `json:"timeout,omitempty"`
	MaxConcurrency int               `json:"maxConcurrency,omitempty"`
	MaxQueue       int               `json:"maxQueue,omitempty"`
	Gateway        *ServiceGateway   `json:"gateway,omitempty"`
	Engine         Engine            `json:"engine,omitempty" doc:"Whose own waiting requests and cache are weighed where questions go to who has seen their beginning."`
	Adapters       []string          `json:"adapters,omitempty" doc:"Names of what its model answers with beside itself: NAME:ADAPTER."`
	Slow           api.Duration      `json:"slow,omitempty" doc:"Answers that begin later count as slow; none when absent."`
	Stopped        bool              `json:"stopped,omitempty"`
	Road           Road              `json:"road,omitzero" doc:"How requests are shared among revisions; zero: all alike."`
	Replicas       []ServiceEndpoint `json:"replicas,omitempty" doc:"Those that answer, by name."`
}

// ServiceEndpoint is one replica that answers.
type ServiceEndpoint struct {
	Replica  string `json:"replica"`
	Address  string `json:"address"`
	Revision int    `json:"revision"`
	Zone     string `json:"zone,omitempty"`
	Via      *Via   `json:"via,omitempty" doc:"On a machine that joined: the agent that passes requests on to that address."`
}

// Via is the way to a replica on a machine that joined. Its address counts on that machine alone.
type Via struct {
	Node    string `json:"node"`
	Agent   string `json:"agent" doc:"host:port of the node's agent."`
	Replica string `json:"replica" doc:"What the agent knows it as."`
}
