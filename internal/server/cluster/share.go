package cluster

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Routes say how queues stand.
func (s *Queues) Routes(reg *rest.Schemas) []*rest.Route {
	share := rest.SchemaOf[api.QueueShare](reg)
	return []*rest.Route{
		{
			Method: http.MethodGet, Path: rest.Prefix + "/shares", ID: "listShare", Tag: "shares",
			Summary: "What each queue may use, uses and is owed now.",
			Data:    rest.Object([]string{"items"}, map[string]*huma.Schema{"items": rest.ListOf(share)}), Handle: s.listShare,
		},
		{
			Method: http.MethodGet, Path: rest.Prefix + "/shares/{name}", ID: "getShare", Tag: "shares", Kind: api.KindQueue,
			Summary: "One queue, and who waits and runs in it and below it.", Data: share, Handle: s.getShare,
		},
	}
}

func (s *Queues) listShare(ctx context.Context, _ *rest.Call) (*rest.Reply, error) {
	if s.live == nil {
		return nil, refuse.NoPlanner
	}
	items, err := s.live.Shares(ctx)
	if err != nil {
		return nil, err
	}
	if items == nil {
		items = []api.QueueShare{}
	}
	return &rest.Reply{Data: map[string]any{"items": items}}, nil
}

func (s *Queues) getShare(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	if s.live == nil {
		return nil, refuse.NoPlanner
	}
	row := api.MustInfo(api.KindQueue)
	f, err := s.finder.Resolve(ctx, c, row, c.R.PathValue("name"))
	if err != nil {
		return nil, err
	}
	share, err := s.live.Share(ctx, f.Object.GetMeta().Name)
	if err != nil {
		return nil, err
	}
	asWritten(&share, f.Object.(*api.Queue))
	if err := s.nameTasks(ctx, c.Who, share.Waits); err != nil {
		return nil, err
	}
	if err := s.nameTasks(ctx, c.Who, share.Runs); err != nil {
		return nil, err
	}
	return &rest.Reply{Data: share}, nil
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
func (s *Queues) nameTasks(ctx context.Context, who *access.Caller, tasks []api.ShareTask) error {
	for i := range tasks {
		t := &tasks[i]
		o, err := store.WorkByID(ctx, s.truth, t.ID, 0)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		if err == nil {
			ok, err := s.judge.MayRead(ctx, who, o)
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
