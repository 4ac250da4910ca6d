package hostengine

import (
	"time"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
)

// lease gives a new replica its address. One that runs inside another has that one's, and one whose gang
// an earlier version started stays with it on the machine's network: they could not reach each other.
func (e *Engine) lease(r engine.Replica) (record.Network, error) {
	if e.cfg.Network == nil || r.UID == 0 || r.Inside != "" || e.exposed(r.TaskID) > 0 {
		return record.Network{}, nil
	}
	return e.cfg.Network.Lease(r.UID, string(r.Name))
}

// renewAfter is how long a renewal is trusted: a replica is adopted and started in one go.
const renewAfter = 5 * time.Second

// renew sees to it that a replica's address and bridge are there before its launcher wants them.
func (e *Engine) renew(r *replica) error {
	if e.cfg.Network == nil || !r.network.Address.IsValid() || e.cfg.Clock.Now().Sub(r.renewed) < renewAfter {
		return nil
	}
	r.renewed = e.cfg.Clock.Now()
	return e.cfg.Network.Renew(r.uid, string(r.name), r.network)
}

func (e *Engine) release(name engine.Name, lease record.Network) {
	if e.cfg.Network == nil {
		return
	}
	if err := e.cfg.Network.Release(string(name), lease); err != nil {
		e.cfg.Log.Warn("an address could not be released; it is swept later", "replica", name, "error", err)
	}
}

// exposed counts the living replicas of a task, or of all with "", that an earlier version started on the
// machine's network although others have their own.
func (e *Engine) exposed(task string) (n int) {
	if e.cfg.Network == nil {
		return 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	list := e.replicas
	if task != "" {
		list = e.byTask[task]
	}
	for _, r := range list {
		if r.uid != 0 && r.inside == "" && !r.network.Address.IsValid() && r.obs.State != engine.StateExited && r.obs.State != engine.StateDone {
			n++
		}
	}
	return n
}

// Exposed is how many replicas of an earlier version still use the machine's network.
func (e *Engine) Exposed() int { return e.exposed("") }
