package launch

import (
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
)

// Orders is where the orders of a launcher come from: what to run, who leads, and who is to stop; and where it keeps the go that it was given.
// The replica's folder is one (orderbook); a pod or a far host has no folder of ours, and gets them another way. orderstest says what each must
// do. Several goroutines ask.
type Orders interface {
	// Spec is what is to run, and how a server is reached. It is asked first, and once. Without it nothing starts.
	Spec() (engine.Replica, record.Link, error)
	// Said is the newest go that was kept; false: none ever was, so that nothing can have started.
	Said() (record.Go, bool, error)
	// Keep keeps a go. It is durable when Keep returns; nothing starts by it before.
	Keep(said record.Go) error
	Stops
}

// Stops are the orders to stop.
type Stops interface {
	// Epoch is that of the current leader. With an error nobody's stop counts, until it can be told.
	Epoch() (int64, error)
	// Stop is the order of the leader of an epoch; false: it gave none. An error: there is one that can't be read.
	Stop(epoch int64) (record.Stop, bool, error)
	// AnyStop says that some leader, of whatever epoch, gave one.
	AnyStop() bool
}
