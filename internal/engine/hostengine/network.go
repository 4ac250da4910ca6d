package hostengine

import (
	"cmp"
	"errors"
	"log/slog"
	"time"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/network"
	"github.com/fermi-cluster/fermi/internal/engine/record"
)

// addresses are where replicas are reached.
type addresses struct {
	network   *network.Network // nil: all use the machine's
	advertise string           // where other machines reach this one; "": nobody else does
	dirs      *folders
	index     *index
	clock     clock.Clock
	log       *slog.Logger
}

// lease gives a new replica its address. One that runs inside another has that one's, and one whose gang
// an earlier version started stays with it on the machine's network: they could not reach each other.
func (a *addresses) lease(r engine.Replica) (record.Network, error) {
	if a.network == nil || r.UID == 0 || r.Inside != "" || r.HostNetwork || a.index.exposed(r.TaskID) > 0 {
		return record.Network{}, nil
	}
	return a.network.Lease(r.UID, string(r.Name))
}

// renewAfter is how long a renewal is trusted: a replica is adopted and started in one go.
const renewAfter = 5 * time.Second

// renew sees to it that a replica's address and bridge are there before its launcher wants them.
func (a *addresses) renew(r *replica) error {
	if a.network == nil || !r.network.Address.IsValid() || a.clock.Now().Sub(r.renewed) < renewAfter {
		return nil
	}
	r.renewed = a.clock.Now()
	return a.network.Renew(r.uid, string(r.name), r.network)
}

func (a *addresses) release(name engine.Name, lease record.Network) {
	if a.network == nil {
		return
	}
	if err := a.network.Release(string(name), lease); err != nil {
		a.log.Warn("an address could not be released; it is swept later", "replica", name, "error", err)
	}
}

// loopback is where launchers of this machine reach each other, and where processes without an address of their own do.
const loopback = "127.0.0.1"

// of is where others reach a replica's processes: its own address, that of the replica it runs inside, or the
// machine's loopback.
func (a *addresses) of(r *replica) (string, error) {
	at := r.network
	if r.inside != "" && !at.Address.IsValid() {
		var ends record.Link // of one that was removed nothing is there
		if _, err := record.Read(a.dirs.of(r.inside), record.FileEndpoint, &ends); err != nil && !errors.Is(err, record.ErrTorn) {
			return "", err
		}
		at = ends.Network
	}
	if !at.Address.IsValid() {
		return cmp.Or(a.advertise, loopback), nil
	}
	return at.Address.Addr().String(), nil
}

// launcher is where others reach a replica's launcher.
func (a *addresses) launcher() string { return cmp.Or(a.advertise, loopback) }

// misses says that an earlier version started a replica on the machine's network although others have their own addresses.
func (a *addresses) misses(r *replica) bool {
	return a.network != nil && r.uid != 0 && r.inside == "" && !r.hostNetwork && !r.network.Address.IsValid()
}
