package kinds

import (
	"sync"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/asset"
)

// ShipAssets registers datasets, models and their versions. The server has a room of their own for them. It may be said again.
var ShipAssets = sync.OnceFunc(func() {
	for _, row := range asset.Rows {
		api.Register(row)
	}
})
