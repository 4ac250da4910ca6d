package orphan

import (
	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
)

// plan is what to do with what one gone owner left.
type plan struct {
	stop, remove []engine.Name
	drop         bool // delete the placement
	again        bool // a removal is told by nobody
}

// decide ends replicas, removes those that have handed over, and gives the place up behind them.
func decide(replicas []engine.Observation, placed bool) plan {
	var p plan
	running := false
	for _, o := range replicas {
		switch o.State {
		case engine.StateDone:
			p.remove = append(p.remove, o.Name)
		case engine.StateExited: // hands over
		default:
			p.stop = append(p.stop, o.Name)
			running = true
		}
	}
	p.drop = placed && !running
	p.again = len(p.remove) > 0
	return p
}

// isWork says that an id is of work that the table knows.
func isWork(id string) bool {
	kind, ok := api.KindOfID(id)
	return ok && api.MustInfo(kind).Class != ""
}
