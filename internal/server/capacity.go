package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
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

func (s *Server) capacityRoutes(reg *schemas) []*route {
	return []*route{{
		method: http.MethodGet, path: prefix + "/capacity", id: "listCapacity", summary: "What there is of each device type, and the largest gang that would start now.", tag: "capacity",
		data: object([]string{"items"}, map[string]*huma.Schema{"items": listOf(schemaOf[CapacityView](reg))}), handle: s.listCapacity,
	}}
}

func (s *Server) listCapacity(ctx context.Context, _ *call) (*reply, error) {
	if s.Live == nil {
		return nil, noPlanner
	}
	items, err := s.Live.Capacity(ctx)
	if err != nil {
		return nil, err
	}
	if items == nil {
		items = []CapacityView{}
	}
	return &reply{data: map[string]any{"items": items}}, nil
}
