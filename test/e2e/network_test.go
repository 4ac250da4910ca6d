package e2e

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/test/foreign"
	"github.com/fermi-cluster/fermi/test/harness"
)

// addressOf is a replica's own.
func addressOf(t *testing.T, dir string) string {
	t.Helper()
	var ends record.Link
	if ok, err := record.Read(dir, record.FileEndpoint, &ends); err != nil || !ok || !ends.Network.Address.IsValid() {
		t.Fatal(ok, err, ends.Network)
	}
	return ends.Network.Address.Addr().String()
}

// listenEverywhere is a service of the machine on all of its addresses; it gives one that is not the loopback's.
func listenEverywhere(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", ":0")
	if err != nil {
		t.Fatal(err)
	}
	port := foreign.HangUp(t, l)
	way, err := net.Dial("udp4", "192.0.2.200:9") // sends nothing
	if err != nil {
		t.Skip("this machine has only a loopback:", err)
	}
	defer way.Close()
	host, _, _ := net.SplitHostPort(way.LocalAddr().String())
	return net.JoinHostPort(host, port)
}

// interfaces are those of the cluster's network.
func interfaces(t *testing.T, w *world) (names []string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(w.Dir, "engine", "network", "instance.json"))
	var who struct{ ID string }
	if err == nil {
		err = json.Unmarshal(raw, &who)
	}
	list, lerr := net.Interfaces()
	if err != nil || lerr != nil || who.ID == "" {
		t.Fatal(err, lerr, string(raw))
	}
	for _, l := range list {
		if strings.HasPrefix(l.Name, "fermi"+who.ID) {
			names = append(names, l.Name)
		}
	}
	return names
}

// serves answers on a port until it is told to end; says prints what it hears there, again and again.
const (
	serves = `perl -MIO::Socket -e 'my $s = IO::Socket::INET->new(Listen => 9, LocalAddr => $ENV{AT}, ReuseAddr => 1) or die "no port"; $| = 1; print "serving\n"; while (my $c = $s->accept) { print $c "mine\n" }'`
	says   = `while :; do perl -MIO::Socket -e 'my $c = IO::Socket::INET->new(PeerAddr => $ENV{AT}, Timeout => 2); print $c ? <$c> : "nobody\n"'; perl -MIO::Socket -e 'print IO::Socket::INET->new(PeerAddr => substr($ENV{FERMI_SERVER}, 7), Timeout => 2) ? "API\n" : "no API\n"'; sleep 0.1; done`
)

// TestNetwork: tasks of a project reach each other and the API, also after the server was started anew; none has the
// machine's ports, and nothing is left when they have ended.
func TestNetwork(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes networks")
	}
	w := up(t, "--demo")
	with := func(name, script, at string) *api.TrainingTask {
		task := shell(name, 1, script)
		task.Spec.Roles[0].Env, task.Spec.Timeouts = []api.EnvVar{{Name: "AT", Value: at}}, &api.Timeouts{StopGrace: api.Duration(100 * time.Millisecond)}
		w.submit(task)
		w.phase(name, api.PhaseRunning)
		return task
	}
	_, port, _ := net.SplitHostPort(w.Addr)
	with("left", serves, "0.0.0.0:"+port) // the very port of the API
	w.logUntil("default", "left", "serving")
	dir, _, launcher, _ := w.processes(t, "default", "left")
	address := addressOf(t, dir)
	with("right", says, net.JoinHostPort(address, port))
	contains(t, w.logUntil("default", "right", "API\n"), "mine\n")
	if conn, err := net.Dial("tcp", net.JoinHostPort(address, port)); err != nil {
		t.Error("the machine does not reach a replica:", err)
	} else {
		conn.Close()
	}
	heard := func() int { return strings.Count(w.must("logs", "right"), "mine\n") }
	w.Kill()
	if conn, err := net.Dial("tcp", w.Addr); err == nil {
		conn.Close()
		t.Error("somebody has the API's port while the server is away")
	}
	w.start()
	before := heard()
	harness.Eventually(t, "they go on", func() bool {
		logs := w.must("logs", "right")
		last := strings.LastIndex(logs, "mine") // at first the log may have none: it comes again from where it was written
		return last >= 0 && heard() > before+3 && strings.Contains(logs[last:], "\nAPI\n")
	})
	if strings.Contains(w.must("logs", "right"), "nobody\n") {
		t.Error("the network was away with the server")
	}
	contains(t, w.must("describe", "node", "beijing-1-n01"), "isolated", "Replicas have addresses of network")

	pid, _ := strconv.Atoi(launcher)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.phase("left", api.PhaseFailed)
	w.must("train", "stop", "right")
	w.phase("right", api.PhaseStopped)
	harness.Eventually(t, "nothing of replicas is left", func() bool {
		leases, err := os.ReadDir(filepath.Join(w.Dir, "engine", "network", "addresses"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range interfaces(t, w) {
			if strings.Contains(name[10:], "v") {
				return false
			}
		}
		return len(leases) == 0
	})
	if err := w.Stop(); err != nil {
		t.Fatal(err)
	}
	if left := interfaces(t, w); len(left) > 0 {
		t.Error("left on the machine:", left)
	}
}

// TestNetworkOfTheHost: where the operator says so there is one network, and one tenant.
func TestNetworkOfTheHost(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root has a choice")
	}
	w := up(t, "--demo", "--network", "host")
	contains(t, w.must("describe", "node", "beijing-1-n01"), "single-tenant", "network is host")
	r := w.fermi("train", "run", "--no-code", "--", "sh", "-c", "echo address=$FERMI_ADDRESS.")
	contains(t, r.out, "address=.")
}

// TestNetworkGang: replicas of a task train over their own addresses, and those inside others over those of their hosts.
func TestNetworkGang(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes networks")
	}
	w := up(t, "--demo")
	task := shell("gang", 2, "")
	task.Spec.Roles[0].Command, task.Spec.Roles[0].Ranks = []string{"fermi", "sample", "train", "--steps", "40"}, 2
	w.submit(task)
	if done := w.phase("gang", api.PhaseCompleted); done.Status.Rendezvous.World != 4 || strings.HasPrefix(done.Status.Rendezvous.Lead, "127.") {
		t.Errorf("%+v", done.Status.Rendezvous)
	}
	for _, name := range []string{"env-a", "env-b"} {
		w.submit(shell(name, 1, `echo at $FERMI_ADDRESS; while :; do sleep 0.05; done`))
		w.phase(name, api.PhaseRunning)
	}
	guest := shell("guest", 2, "")
	guest.Spec.Inside, guest.Spec.Roles[0].Resources = []string{"env-a", "env-b"}, api.Resources{}
	guest.Spec.Roles[0].Command = []string{"fermi", "sample", "train", "--steps", "20"}
	w.submit(guest)
	done := w.phase("guest", api.PhaseCompleted)
	host, _, _ := net.SplitHostPort(done.Status.Rendezvous.Lead)
	contains(t, w.must("logs", "env-a")+w.must("logs", "env-b"), "at "+host)
}
