package launch

import (
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fermi-cluster/fermi/internal/conf"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/network"
	"github.com/fermi-cluster/fermi/internal/engine/record"
)

// leased is an address on a network of the test's own.
func leased(t *testing.T, replica string) record.Network {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root makes networks")
	}
	n, err := network.Open(network.Config{Dir: t.TempDir(), Pool: conf.NetworkAuto, Log: slog.New(slog.DiscardHandler), Alive: func(string) bool { return false }})
	if err != nil {
		t.Skip("no network here:", err)
	}
	lease, err := n.Lease(testUID, replica)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Release(replica, lease); err != nil {
			t.Error(err)
		}
		if err := n.Leave(); err != nil {
			t.Error(err)
		}
		n.Close()
	})
	return lease
}

// inNetwork gives a replica its address, as the engine does.
func (r *replica) inNetwork(lease record.Network) {
	r.w.t.Helper()
	var ends record.Link
	_, err := record.Read(r.dir, record.FileEndpoint, &ends)
	if ends.Network = lease; err == nil {
		err = record.Write(r.dir, record.FileEndpoint, ends)
	}
	if err != nil {
		r.w.t.Fatal(err)
	}
}

// TestNetworked: ranks see the replica's network alone, in which their ports are kept for them; a guest has its host's;
// nothing is left of it afterwards.
func TestNetworked(t *testing.T) {
	w := newWorld(t)
	const look = `echo "sees $(ls /sys/class/net | tr '\n' ' ')at $FERMI_ADDRESS"; test -n "$(ls /sys/fs/cgroup)" && echo groups
		getent hosts $(hostname) | sed 's/ .*//; s/^/named /'
		readlink /proc/self/ns/net; echo ready; `
	host := w.walled(nil, "sh", "-c", look+"sleep 1000")
	lease := leased(t, string(host.spec.Name))
	host.inNetwork(lease)
	address := lease.Address.Addr().String()
	life := host.launch()
	host.goes()
	eventually(t, "the host is ready", func() bool { return slices.Contains(host.lines(), "O:ready") })
	said, ok := w.server.hub.Ranks(host.spec.Name)
	if !ok || said.Address != address {
		t.Errorf("reported %q, leased %s", said.Address, address)
	}
	lines := host.lines()
	for _, want := range []string{"O:sees eth0 lo at " + address, "O:groups", "O:named " + address} {
		if !slices.Contains(lines, want) {
			t.Errorf("no %q in %q", want, lines)
		}
	}
	if own, err := os.Readlink("/proc/self/ns/net"); err != nil || slices.Contains(lines, "O:"+own) {
		t.Error("its network is the machine's", err)
	}
	taken := 0 // one may be by chance
	for _, port := range []int{said.Serve, said.Port} {
		l, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(port))
		if err != nil {
			taken++
			continue
		}
		l.Close()
	}
	if taken > 1 {
		t.Error("the ports of the replica are taken on the machine too")
	}

	guest := w.walled(func(s *engine.Replica) { s.Inside = host.spec.Name }, "sh", "-c", look)
	if exit := guest.run(); exit.Code != 0 {
		t.Errorf("%+v", exit)
	}
	space := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "O:net:[") })
	if got := guest.lines(); space < 0 || !slices.Contains(got, lines[space]) || !slices.Contains(got, "O:sees eth0 lo at "+address) {
		t.Errorf("the guest: %q, its host: %q", got, lines)
	}

	_ = life.cmd.Process.Kill()
	<-life.done
	host.killMarked()
	eventually(t, "the interface went with the last process", func() bool {
		_, err := net.InterfaceByName(lease.Link)
		return err != nil
	})
}

// TestNoNetwork: what can't be made is said, and nothing starts.
func TestNoNetwork(t *testing.T) {
	w := newWorld(t)
	r := w.walled(nil, "true")
	lease := leased(t, string(r.spec.Name))
	lease.Bridge = "fermi-nowhere"
	r.inNetwork(lease)
	r.launch()
	eventually(t, "it ends", r.has(record.FileExit))
	if exit := r.exit(); exit.Reason != engine.ReasonStartFailed || !strings.Contains(exit.Message, "could not make a network") || !strings.Contains(exit.Message, "无法为该副本创建网络") {
		t.Errorf("%+v", exit)
	}
}
