package cluster

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/truth"
)

// CapacityView is what there is of one device type; numbers of devices, parts of one included.
type CapacityView struct {
	Type     string  `json:"type"`
	Total    float64 `json:"total"`
	Used     float64 `json:"used"`
	Free     float64 `json:"free"`
	Cordoned float64 `json:"cordoned" doc:"Unused, on cordoned or unready nodes and devices."`
	Stranded float64 `json:"stranded" doc:"Free, but of no use to a task for a whole device: partly taken, or without CPU and memory."`
	Largest  int     `json:"largestGang" doc:"The most devices of one gang that would start now, up to eight to a replica."`
}

// Live is what the leader's memory knows of the cluster. Nil where this process has no such knowledge.
// All calls are quick and safe for concurrent use; Unavailable means: ask another replica.
type Live interface {
	// Capacity says what there is of each device type.
	Capacity(ctx context.Context) ([]CapacityView, error)
	// Shares says how every queue stands, Share how one does; nothing is used of one unknown.
	Shares(ctx context.Context) ([]api.QueueShare, error)
	Share(ctx context.Context, queue string) (api.QueueShare, error)
	// Outage says where the tasks of a zone would go if it were lost now.
	Outage(ctx context.Context, zone string) (api.Outage, error)
	// Drained says where the tasks of a node, or of NODE/DEVICE, would go if it were drained now.
	Drained(ctx context.Context, place string) (api.Outage, error)
}

// Devices says what there is of devices and which are in use.
type Devices struct {
	truth *truth.Truth
	live  Live
}

func NewDevices(t *truth.Truth, live Live) *Devices { return &Devices{truth: t, live: live} }

// Routes are about the devices of the whole cluster.
func (s *Devices) Routes(reg *rest.Schemas) []*rest.Route {
	return append(s.useRoutes(reg), &rest.Route{
		Method: http.MethodGet, Path: rest.Prefix + "/capacity", ID: "listCapacity", Summary: "What there is of each device type, and the largest gang that would start now.", Tag: "capacity",
		Data: rest.Object([]string{"items"}, map[string]*huma.Schema{"items": rest.ListOf(rest.SchemaOf[CapacityView](reg))}), Handle: s.listCapacity,
	})
}

func (s *Devices) listCapacity(ctx context.Context, _ *rest.Call) (*rest.Reply, error) {
	if s.live == nil {
		return nil, refuse.NoPlanner
	}
	items, err := s.live.Capacity(ctx)
	if err != nil {
		return nil, err
	}
	if items == nil {
		items = []CapacityView{}
	}
	return &rest.Reply{Data: map[string]any{"items": items}}, nil
}
