package devenv

import (
	"strconv"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/quota"
)

// countedStorage is what an environment counts as that names no storage.
const countedStorage = api.Bytes(50 << 30)

// Need is what an environment takes of its owner's and its project's quota.
type Need struct {
	Running, Devices int
	Storage          api.Bytes
}

// Runs says that it runs, or waits to.
func (e *DevEnvironment) Runs() bool {
	return e.Meta.DeletedAt == nil && (Moves{e}).Asked() || !e.Spec.Stop && e.Meta.DeletedAt == nil && (!e.Status.Phase.Finished() || e.IsDue())
}

// Needs is what e takes.
func Needs(e *DevEnvironment) (n Need) {
	if n.Storage = e.Spec.Storage; n.Storage == 0 {
		n.Storage = countedStorage
	}
	if e.Runs() {
		n.Running, n.Devices = 1, e.Spec.Resources.Accelerators.Count
	}
	return n
}

// Covers says that what takes n may as well take o.
func (n Need) Covers(o Need) bool {
	return o.Running <= n.Running && o.Devices <= n.Devices && o.Storage <= n.Storage
}

// Excess is the bound that would be gone over; What is "" where none would.
type Excess struct{ What, Limit, Used, Wants string }

// Uses says that an environment takes some of what is short.
func (x Excess) Uses(e *DevEnvironment) bool {
	n := Needs(e)
	return x.What == "running" && n.Running > 0 || x.What == "devices" && n.Devices > 0 || x.What == "storage"
}

// Over is the first bound of q that others and wants together go over.
func Over(q quota.Environments, others []*DevEnvironment, wants Need) Excess {
	var used Need
	for _, e := range others {
		n := Needs(e)
		used.Running, used.Devices, used.Storage = used.Running+n.Running, used.Devices+n.Devices, used.Storage+n.Storage
	}
	switch {
	case q.Running > 0 && wants.Running > 0 && used.Running+wants.Running > q.Running:
		return Excess{"running", strconv.Itoa(q.Running), strconv.Itoa(used.Running), strconv.Itoa(wants.Running)}
	case q.Devices > 0 && wants.Devices > 0 && used.Devices+wants.Devices > q.Devices:
		return Excess{"devices", strconv.Itoa(q.Devices), strconv.Itoa(used.Devices), strconv.Itoa(wants.Devices)}
	case q.Storage > 0 && used.Storage+wants.Storage > q.Storage:
		return Excess{"storage", q.Storage.String(), used.Storage.String(), wants.Storage.String()}
	}
	return Excess{}
}
