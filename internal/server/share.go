package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
)

// routes say how queues stand.
func (s *queues) routes(reg *schemas) []*route {
	share := schemaOf[api.QueueShare](reg)
	return []*route{
		{
			method: http.MethodGet, path: prefix + "/shares", id: "listShare", tag: "shares",
			summary: "What each queue may use, uses and is owed now.",
			data:    object([]string{"items"}, map[string]*huma.Schema{"items": listOf(share)}), handle: s.listShare,
		},
		{
			method: http.MethodGet, path: prefix + "/shares/{name}", id: "getShare", tag: "shares", kind: api.KindQueue,
			summary: "One queue, and who waits and runs in it and below it.", data: share, handle: s.getShare,
		},
	}
}

func (s *queues) listShare(ctx context.Context, _ *call) (*reply, error) {
	if s.live == nil {
		return nil, noPlanner
	}
	items, err := s.live.Shares(ctx)
	if err != nil {
		return nil, err
	}
	if items == nil {
		items = []api.QueueShare{}
	}
	return &reply{data: map[string]any{"items": items}}, nil
}

func (s *queues) getShare(ctx context.Context, c *call) (*reply, error) {
	if s.live == nil {
		return nil, noPlanner
	}
	row := api.MustInfo(api.KindQueue)
	f, err := s.finder.resolve(ctx, c, row, c.r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	share, err := s.live.Share(ctx, f.object.GetMeta().Name)
	if err != nil {
		return nil, err
	}
	asWritten(&share, f.object.(*api.Queue))
	if err := s.nameTasks(ctx, c.who, share.Waits); err != nil {
		return nil, err
	}
	if err := s.nameTasks(ctx, c.who, share.Runs); err != nil {
		return nil, err
	}
	return &reply{data: share}, nil
}

// asWritten shows what a queue may use as it was written, also when the planner has not heard of it yet.
func asWritten(share *api.QueueShare, q *api.Queue) {
	amounts := func(list map[string]int) map[string]float64 {
		if len(list) == 0 {
			return nil
		}
		out := map[string]float64{}
		for key, n := range list {
			out[key] = float64(n)
		}
		return out
	}
	share.Parent, share.Weight = q.Spec.Parent, max(q.Spec.Weight, 1)
	share.Guarantee, share.Limit = amounts(q.Spec.Guarantee), amounts(q.Spec.Limit)
}

// nameTasks gives tasks their names, as far as the caller may see them: of others only their size
// and turn are shown.
func (s *queues) nameTasks(ctx context.Context, who *caller, tasks []api.ShareTask) error {
	for i := range tasks {
		t := &tasks[i]
		o, err := store.WorkByID(ctx, s.truth, t.ID, 0)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		if err == nil {
			ok, err := s.judge.mayRead(ctx, who, o)
			if err != nil {
				return err
			}
			if ok {
				t.Project, t.Name = o.GetMeta().Project, o.GetMeta().Name
				continue
			}
		}
		t.ID, t.Message = "", fault.Text{} // the message may name others
	}
	return nil
}
