package kinds

import (
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

// services are who keeps services and their replicas, where the program has them.
func services(cfg work.Config) []work.Keeper {
	if _, ok := api.InfoOf(serving.Kind); !ok {
		return nil
	}
	cfg.Log = cfg.Log.With("part", "serve")
	return []work.Keeper{serve.NewReplicas(cfg), serve.New(cfg, id.Default)}
}
