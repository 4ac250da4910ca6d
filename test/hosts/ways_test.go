package hosts

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/way"
	"github.com/fermi-cluster/fermi/api/v1/where"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
	"github.com/fermi-cluster/fermi/test/hosts/world"
)

const tunnelPort = 7074

var bothZones = where.Split{"local": where.Exactly(1), "far": where.Exactly(1)}

// eavesdropper is somebody on the line between two zones.
type eavesdropper struct {
	between [2]netip.Addr

	mu     sync.Mutex
	mark   int
	sealed int
	plain  []string // packets between the two machines that WireGuard did not send
}

func (e *eavesdropper) look(p []byte) {
	if len(p) < 24 || p[0]>>4 != 4 {
		return
	}
	from, to := netip.AddrFrom4([4]byte(p[12:16])), netip.AddrFrom4([4]byte(p[16:20]))
	e.mu.Lock()
	defer e.mu.Unlock()
	if bytes.Contains(p, []byte("MARK-OF-THE-TEST")) {
		e.mark++
	}
	if e.between != [2]netip.Addr{from, to} && e.between != [2]netip.Addr{to, from} {
		return
	}
	ihl := int(p[0]&15) * 4
	if len(p) < ihl+4 {
		return
	}
	ports := [2]uint16{binary.BigEndian.Uint16(p[ihl:]), binary.BigEndian.Uint16(p[ihl+2:])}
	if p[9] == unix.IPPROTO_UDP && ports == [2]uint16{tunnelPort, tunnelPort} {
		e.sealed++
	} else {
		e.plain = append(e.plain, fmt.Sprintf("protocol %d, %s:%d to %s:%d", p[9], from, ports[0], to, ports[1]))
	}
}

// forget begins anew.
func (e *eavesdropper) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mark, e.sealed, e.plain = 0, 0, nil
}

func (e *eavesdropper) saw() (mark, sealed int, plain []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mark, e.sealed, e.plain
}

// ways has a zone say how it reaches others.
func (l *lab) ways(zone string, ways map[string]way.Way) {
	l.t.Helper()
	harness.Eventually(l.t, "zone "+zone+" takes its ways", func() bool {
		o, err := l.cl.Get(l.t.Context(), api.KindZone, "", zone)
		if err != nil {
			return false
		}
		z := o.(*api.Zone)
		z.Spec.Ways = ways
		_, err = l.cl.Update(l.t.Context(), z, false)
		if err != nil {
			l.t.Log(err)
		}
		return err == nil
	})
}

func (l *lab) marked(name string, split where.Split) {
	l.t.Helper()
	script, err := os.ReadFile("testdata/marked.py")
	if err != nil {
		l.t.Fatal(err)
	}
	l.submit(name, 2, func(task *api.TrainingTask) {
		task.Spec.Framework = "pytorch-ddp"
		task.Spec.Topology = &api.Topology{Mode: api.TopologySpread}
		task.Spec.Zones = &api.ZoneRules{MaxLatency: api.Duration(50 * time.Millisecond), Split: split}
	}, "python3", "-c", string(script))
}

// hasGate says that a host drops what comes in plain from some others. Its packet filter is read as the agent reads it: there need be no nft program.
func (l *lab) hasGate(name string) (has bool) {
	l.t.Helper()
	if err := l.w.Host(name).Do(func() error {
		c, err := nftables.New()
		if err != nil {
			return err
		}
		tables, err := c.ListTables()
		has = slices.ContainsFunc(tables, func(t *nftables.Table) bool { return t.Name == "fermi-tunnel" })
		return err
	}); err != nil {
		l.t.Fatal(err)
	}
	return has
}

// reaches says that a host can open a connection to the agent of another.
func (l *lab) reaches(from, to string) bool {
	cmd := l.w.Host(from).Command("python3", "-c", "import socket,sys; socket.create_connection((sys.argv[1], 7073), 3)", l.w.Host(to).Addr().String())
	return cmd.Run() == nil
}

// killTunnel ends WireGuard on a host where it is a process; where it is the kernel's the interface is taken away.
func (l *lab) killTunnel(host string) {
	l.t.Helper()
	h := l.w.Host(host)
	for _, pid := range h.Processes() {
		raw, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if args := strings.Split(string(raw), "\x00"); len(args) > 2 && args[1] == "agent" && args[2] == "tunnel" {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil {
				l.t.Fatal(err)
			}
		}
	}
	_ = h.Command("ip", "link", "del", "wgfermi").Run()
	harness.Eventually(l.t, "the tunnel of "+host+" is gone", func() bool { return h.Command("ip", "link", "show", "wgfermi").Run() != nil })
}

// plainPacket has b1 send to a2 in plain, by a rule of routing that goes before ours: it is on the line, and a2 takes only what is encrypted.
func (l *lab) plainPacket(e *eavesdropper) {
	l.t.Helper()
	const port = "9999"
	one, other := l.w.Host("a2"), l.w.Host("b1")
	heard := filepath.Join(one.Disk(), "heard")
	listener := one.Command("python3", "-c", "import socket,sys\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.bind(('',"+port+"))\nf=open(sys.argv[1],'ab',0)\nwhile True: f.write(s.recv(100)+b'\\n')", heard)
	if err := listener.Start(); err != nil {
		l.t.Fatal(err)
	}
	defer func() {
		_ = listener.Process.Kill()
		_ = listener.Wait()
	}()
	send := func(text string) {
		if out, err := other.Command("python3", "-c", "import socket,sys; socket.socket(socket.AF_INET,socket.SOCK_DGRAM).sendto(sys.argv[2].encode(),(sys.argv[1],"+port+"))", one.Addr().String(), text).CombinedOutput(); err != nil {
			l.t.Logf("%v %s", err, out)
		}
	}
	has := func(text string) bool {
		raw, _ := os.ReadFile(heard)
		return strings.Contains(string(raw), text)
	}
	harness.Eventually(l.t, "a packet comes through the tunnel", func() bool { send("first"); return has("first") })
	past := []string{"pref", "100", "ipproto", "udp", "dport", port, "lookup", "main"}
	if out, err := other.Command("ip", append([]string{"rule", "add"}, past...)...).CombinedOutput(); err != nil {
		l.t.Fatalf("%v %s", err, out)
	}
	harness.Eventually(l.t, "packets are on the line in plain", func() bool {
		send("in plain")
		_, _, plain := e.saw()
		return len(plain) > 2
	})
	if out, err := other.Command("ip", append([]string{"rule", "del"}, past...)...).CombinedOutput(); err != nil {
		l.t.Fatalf("%v %s", err, out)
	}
	harness.Eventually(l.t, "a packet comes through the tunnel again", func() bool { send("last"); return has("last") })
	if has("in plain") {
		l.t.Error("a2 took a packet that was not encrypted")
	}
	e.forget()
}

// TestEncrypted: what two machines of zones send each other is read on the line, until an operator wants it encrypted; then nothing of it is, whatever sends it, and what comes in plain all the same is not taken: while all is well, while the
// agent is dead, and while WireGuard is dead too, which closes the way. Work that can't be encrypted waits and says so. Undone, nothing is left.
func TestEncrypted(t *testing.T) {
	l := newLabOf(t, world.Config{Zones: []world.Zone{{Name: "a", Hosts: 2}, {Name: "b", Hosts: 1}}, Link: world.Link{RTT: 2 * time.Millisecond}})
	l.twoZones([]string{"a2", "b1"})
	l.only("a2", "b1")
	e := &eavesdropper{between: [2]netip.Addr{l.w.Host("a2").Addr(), l.w.Host("b1").Addr()}}
	l.w.Watch("a", "b", e.look)

	l.marked("open", bothZones)
	l.phase("open", api.PhaseCompleted)
	if mark, sealed, _ := e.saw(); mark == 0 || sealed > 0 {
		t.Fatalf("nobody asked for it, and: mark seen %d times, %d encrypted packets", mark, sealed)
	}

	l.ways("local", map[string]way.Way{"far": {Encrypted: true}})
	for _, name := range []string{"a2", "b1"} {
		harness.Eventually(t, "the way of "+name+" is led into the tunnel", func() bool {
			routes, err := l.w.Host(name).Command("ip", "route", "show", "table", "5210").Output()
			return err == nil && bytes.Contains(routes, []byte("dev wgfermi"))
		})
	}
	harness.Eventually(t, "the machines reach each other again", func() bool { return l.reaches("a2", "b1") && l.reaches("b1", "a2") })
	e.forget()
	l.marked("sealed", bothZones)
	l.phase("sealed", api.PhaseCompleted)
	mark, sealed, plain := e.saw()
	if mark > 0 || len(plain) > 0 || sealed == 0 {
		t.Errorf("mark seen %d times, %d encrypted packets, in plain: %v", mark, sealed, plain)
	}
	if logs := l.logs("sealed"); !strings.Contains(logs, "heard MARK-OF-THE-TEST") || !strings.Contains(logs, "sum 3.0 on b1") || !strings.Contains(logs, "Socket") {
		t.Errorf("%s", logs)
	}

	l.plainPacket(e)

	// The agent's death changes nothing; that of WireGuard closes the way.
	l.kill(l.agents["b1"])
	e.forget()
	listener := l.w.Host("b1").Command("python3", "-c", "import socket,time; s=socket.create_server(('0.0.0.0',7073)); print('up',flush=True); time.sleep(600)")
	out, err := listener.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	if !l.reaches("a2", "b1") {
		t.Error("with a dead agent the tunnel is dead too")
	}
	l.killTunnel("b1")
	if l.reaches("b1", "a2") || l.reaches("a2", "b1") {
		t.Error("without WireGuard the machines reach each other: in plain")
	}
	if _, _, plain := e.saw(); len(plain) > 0 {
		t.Errorf("in plain: %v", plain)
	}
	if err := listener.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = listener.Wait()
	l.agent("b1", "")
	l.until("b1", "ready again", func(n *api.Node) bool { return n.Status.Ready })
	l.marked("again", bothZones)
	l.phase("again", api.PhaseCompleted)
	if mark, _, plain := e.saw(); mark > 0 || len(plain) > 0 {
		t.Errorf("mark seen %d times, in plain: %v", mark, plain)
	}

	// The server's own node has no agent: a gang with it waits, and says why.
	list, err := l.cl.List(t.Context(), api.KindNode, client.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	own := ""
	for _, o := range list.Items {
		if n := o.(*api.Node); n.Spec.Agent == nil {
			own = n.Meta.Name
		}
	}
	l.only(own, "b1")
	l.marked("waits", bothZones)
	harness.Eventually(t, "it is said why it waits", func() bool {
		events, err := l.cl.Events(t.Context(), client.EventOptions{Kind: api.KindTrainingTask, Project: "default", Name: "waits"})
		return err == nil && slices.ContainsFunc(events, func(e client.Event) bool { return e.Reason == "WayNotEncrypted" })
	})
	if err := l.cl.Stop(t.Context(), "default", "waits"); err != nil {
		t.Fatal(err)
	}
	l.phase("waits", api.PhaseStopped)

	l.ways("local", nil)
	for _, name := range []string{"a2", "b1"} {
		harness.Eventually(t, "nothing is left on "+name, func() bool {
			rules, err := l.w.Host(name).Command("ip", "rule").Output()
			routes, _ := l.w.Host(name).Command("ip", "route", "show", "table", "5210").Output()
			return err == nil && !strings.Contains(string(rules), "5210") && !l.hasGate(name) && len(bytes.TrimSpace(routes)) == 0 && l.w.Host(name).Command("ip", "link", "show", "wgfermi").Run() != nil
		})
	}
	harness.Eventually(t, "the machines reach each other in plain", func() bool { return l.reaches("a2", "b1") })
}

// TestWay: work over two machines uses the network that the zone names, with its interface; a machine that has no address there says so.
func TestWay(t *testing.T) {
	l := newLab(t, 4)
	for i, name := range []string{"a2", "a3"} {
		script := fmt.Sprintf("ip link add fast link eth0 type macvlan mode bridge && ip addr add 10.77.0.%d/24 dev fast && ip link set fast up", i+2)
		if out, err := l.w.Host(name).Command("/bin/sh", "-c", script).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
	}
	for _, name := range []string{"a2", "a3", "a4"} {
		l.join(name)
	}
	l.ways("local", map[string]way.Way{"local": {Network: "10.77.0.0/24"}})
	l.only("a2", "a3")
	l.marked("fast", nil)
	l.phase("fast", api.PhaseCompleted)
	if logs := l.logs("fast"); !strings.Contains(logs, "by 10.77.0.") || !strings.Contains(logs, " fast ") || strings.Contains(logs, "Socket") {
		t.Errorf("%s", logs)
	}
	l.only("a2", "a4")
	l.marked("nowhere", nil)
	harness.Eventually(t, "it is said that a4 has no address there", func() bool {
		task := l.task("nowhere")
		if task.Status.Phase == api.PhaseCompleted {
			t.Fatal("it went by another network")
		}
		raw, err := json.Marshal(task.Status)
		return err == nil && bytes.Contains(raw, []byte("10.77.0.0/24"))
	})
}
