package hostengine

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fermi-cluster/fermi/internal/conf"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/network"
	"github.com/fermi-cluster/fermi/internal/engine/record"
)

func (h *house) leases() int {
	h.t.Helper()
	list, err := os.ReadDir(filepath.Join(h.dir, "network", "addresses"))
	if err != nil {
		h.t.Fatal(err)
	}
	return len(list)
}

func (h *house) networkOf(r engine.Replica) record.Network {
	h.t.Helper()
	var ends record.Link
	if ok, err := record.Read(filepath.Join(h.dir, "replicas", string(r.Name)), record.FileEndpoint, &ends); !ok || err != nil {
		h.t.Fatal(ok, err)
	}
	return ends.Network
}

// TestAddresses: each replica of a project has its own, until it is removed; after a crash of the machine too. A guest
// has none, and the gang of an earlier version stays together on the machine's network.
func TestAddresses(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes networks")
	}
	h := newHouse(t)
	n, err := network.Open(network.Config{Dir: filepath.Join(h.dir, "network"), Pool: conf.NetworkAuto, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Skip("no network here:", err)
	}
	t.Cleanup(func() {
		list, _ := os.ReadDir(filepath.Join(h.dir, "network", "addresses"))
		for _, l := range list {
			_ = os.Remove(filepath.Join(h.dir, "network", "addresses", l.Name()))
		}
		if err := n.Leave(); err != nil {
			t.Error(err)
		}
		n.Close()
	})
	old := replicaOf(taskName(), 0, nil, sleeper...)
	old.UID = 64991
	e, close := h.open()
	h.start(e, old)
	close()

	e, close = h.openOn(n)
	if e.index.exposed("") != 1 {
		t.Error("of an earlier version:", e.index.exposed(""))
	}
	late := replicaOf(old.TaskID, 1, nil, sleeper...)
	a, b := replicaOf(taskName(), 0, nil, sleeper...), replicaOf(taskName(), 0, nil, sleeper...)
	guest := replicaOf(taskName(), 0, nil, sleeper...)
	for _, r := range []*engine.Replica{&late, &a, &b, &guest} {
		r.UID = 64991
	}
	b.UID++
	guest.Inside = a.Name
	plain := replicaOf(taskName(), 0, nil, sleeper...) // the machine's owner's, without a wall
	for _, r := range []engine.Replica{late, a, b, guest, plain} {
		h.start(e, r)
	}
	for _, r := range []engine.Replica{late, guest, plain} {
		if got := h.networkOf(r); got.Address.IsValid() {
			t.Errorf("%s has %s", r.Name, got.Address)
		}
	}
	first, second := h.networkOf(a), h.networkOf(b)
	if !first.Address.IsValid() || first.Bridge == second.Bridge || first.Address == second.Address || h.leases() != 2 {
		t.Error(first, second, h.leases())
	}
	for r, want := range map[engine.Name]string{
		a.Name: first.Address.Addr().String(), b.Name: second.Address.Addr().String(), guest.Name: first.Address.Addr().String(), late.Name: loopback, plain.Name: loopback,
	} {
		if o, _ := e.Replica(r); o.Address != want || o.LauncherAddress != loopback {
			t.Errorf("%s is reached at %q, its launcher at %q; want %q", r, o.Address, o.LauncherAddress, want)
		}
	}
	eventually(t, "the node says that some are on the machine's network", func() bool {
		list, whole := e.Nodes()
		return whole && strings.Contains(list[0].Status.Message.EN, "earlier version started")
	})
	close()

	// The machine was cut off: the folders are durable, a lease may be lost.
	if err := os.Remove(filepath.Join(h.dir, "network", "addresses", first.Address.Addr().String())); err != nil {
		t.Fatal(err)
	}
	e, close = h.openOn(n)
	defer close()
	if h.leases() != 2 {
		t.Error("a lease was not renewed:", h.leases())
	}
	for _, r := range []engine.Replica{guest, b} {
		if err := e.Stop(t.Context(), r.Name, 0); err != nil {
			t.Fatal(err)
		}
		h.await(e, r, engine.StateDone)
		if err := e.Remove(t.Context(), r.Name); err != nil {
			t.Error(err)
		}
	}
	if h.leases() != 1 {
		t.Error("a lease outlived its replica:", h.leases())
	}
}
