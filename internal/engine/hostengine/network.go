package hostengine

import (
	"cmp"
	"errors"
	"time"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
)

// lease gives a new replica its address. One that runs inside another has that one's, and one whose gang
// an earlier version started stays with it on the machine's network: they could not reach each other.
func (e *Engine) lease(r engine.Replica) (record.Network, error) {
	if e.cfg.Network == nil || r.UID == 0 || r.Inside != "" || r.HostNetwork || e.exposed(r.TaskID) > 0 {
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

// loopback is where launchers of this machine reach each other, and where processes without an address of their own do.
const loopback = "127.0.0.1"

// addressOf is where others reach a replica's processes: its own address, that of the replica it runs inside, or the
// machine's loopback.
func (e *Engine) addressOf(r *replica) (string, error) {
	network := r.network
	if r.inside != "" && !network.Address.IsValid() {
		var ends record.Link // of one that was removed nothing is there
		if _, err := record.Read(e.folder(r.inside), record.FileEndpoint, &ends); err != nil && !errors.Is(err, record.ErrTorn) {
			return "", err
		}
		network = ends.Network
	}
	if !network.Address.IsValid() {
		return cmp.Or(e.cfg.Advertise, loopback), nil
	}
	return network.Address.Addr().String(), nil
}

// isExposed says that an earlier version started it on the machine's network although others have their own.
func (e *Engine) isExposed(r *replica) bool {
	return e.cfg.Network != nil && r.uid != 0 && r.inside == "" && !r.hostNetwork && !r.network.Address.IsValid()
}

// exposed counts the living replicas of a task, or of all with "", that isExposed names.
func (e *Engine) exposed(task string) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, of := range e.old {
		if task == "" || of == task {
			n++
		}
	}
	return n
}
