package gang

import (
	"time"

	"github.com/fermi-cluster/fermi/internal/engine"
)

// Hush is who says nothing.
type Hush struct {
	// Silence is for how long, by replica; absent: it speaks, or can't yet.
	Silence map[engine.Name]time.Duration
	// Fenced are replicas that were given up in silence and are not done, as far as is known: for the task they have
	// ended, their nodes keep their devices closed while they live, and they are told to stop for as long as they are seen.
	Fenced map[engine.Name]engine.Observation
}

// heed notes how long a replica has said nothing. One that was given up is from then on one that has ended.
func (o *Observer) heed(g *Gang, ob engine.Observation) engine.Observation {
	if n := o.nodeNamed(ob.Node); n != nil {
		if h := n.Status.Holds.Of(string(ob.Name)); h != nil {
			if g.Fenced == nil {
				g.Fenced = map[engine.Name]engine.Observation{}
			}
			g.Fenced[ob.Name] = ob
			ob.State, ob.Ready = engine.StateDone, false
			ob.Exit = &engine.Exit{Code: -1, Reason: h.Reason, At: h.Heard} // whatever end it tells of by now
			return ob
		}
	}
	if ob.State == engine.StateExited || ob.State == engine.StateDone {
		return ob
	}
	silent, known := o.hub.Silence(ob.Name)
	if silent > 0 && (known || ob.State == engine.StateRunning) {
		if g.Silence == nil {
			g.Silence = map[engine.Name]time.Duration{}
		}
		g.Silence[ob.Name] = silent
	}
	return ob
}
