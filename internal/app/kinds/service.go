package kinds

import (
	"context"
	"encoding/json"
	"sync"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/control/serve"
	"github.com/fermi-cluster/fermi/internal/control/work"
	"github.com/fermi-cluster/fermi/internal/id"
)

// ShipServices registers inference services, their replicas and their endpoints. The server has a room of their own for
// them. It may be said again.
var ShipServices = sync.OnceFunc(func() {
	for _, row := range serving.Rows {
		api.Register(row)
	}
})

// Heard takes what a gateway reports, where the program has services.
func (c *Crew) Heard(ctx context.Context, r *serving.LoadReport) (*serving.LoadReply, error) {
	if c.Serve == nil {
		return nil, nil
	}
	return c.Serve.Heard(ctx, r)
}

// HeardAs is Heard of a report that came from another server.
func (c *Crew) HeardAs(ctx context.Context, body []byte) (*serving.LoadReply, error) {
	var r serving.LoadReport
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, err
	}
	return c.Heard(ctx, &r)
}

// services are who keeps services and their replicas, where the program has them.
func (c *Crew) services(cfg work.Config, far serve.Far) []work.Keeper {
	if _, ok := api.InfoOf(serving.Kind); !ok {
		return nil
	}
	cfg.Log = cfg.Log.With("part", "serve")
	c.Serve = serve.New(cfg, id.Default, far)
	return []work.Keeper{serve.NewReplicas(cfg), c.Serve}
}
