package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
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

// clusterLive is what the leader's memory knows of the cluster. Nil where this process has no such knowledge.
// All calls are quick and safe for concurrent use; Unavailable means: ask another replica.
type clusterLive interface {
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

// devices says what there is of devices and which are in use.
type devices struct {
	truth *truth
	live  clusterLive
}

func newDevices(t *truth, live clusterLive) *devices { return &devices{truth: t, live: live} }

// routes are about the devices of the whole cluster.
func (s *devices) routes(reg *schemas) []*route {
	return append(s.useRoutes(reg), &route{
		method: http.MethodGet, path: prefix + "/capacity", id: "listCapacity", summary: "What there is of each device type, and the largest gang that would start now.", tag: "capacity",
		data: object([]string{"items"}, map[string]*huma.Schema{"items": listOf(schemaOf[CapacityView](reg))}), handle: s.listCapacity,
	})
}

func (s *devices) listCapacity(ctx context.Context, _ *call) (*reply, error) {
	if s.live == nil {
		return nil, noPlanner
	}
	items, err := s.live.Capacity(ctx)
	if err != nil {
		return nil, err
	}
	if items == nil {
		items = []CapacityView{}
	}
	return &reply{data: map[string]any{"items": items}}, nil
}
