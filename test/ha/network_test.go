package ha

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// network is one bridge; each host on it is a network namespace.
type network struct {
	t      *testing.T
	id     string
	subnet string // "10.231.7."
	hosts  []*host
}

// host is a namespace with one address.
type host struct {
	n    *network
	name string // of the namespace
	dev  string // its end at the bridge
	ip   string
}

// nowhere is the hardware address of nobody: what is sent there is lost, silently, as behind a cut cable.
const nowhere = "02:00:00:00:00:01"

func newNetwork(t *testing.T, id int) *network {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this suite makes network namespaces: run it as root")
	}
	n := &network{t: t, id: fmt.Sprintf("fh%04x", id&0xffff), subnet: fmt.Sprintf("10.231.%d.", id%250+1)}
	t.Cleanup(n.remove)
	n.ip("link", "add", n.id, "type", "bridge")
	n.ip("addr", "add", n.subnet+"1/24", "dev", n.id)
	n.ip("link", "set", n.id, "up")
	return n
}

// ip runs the command of that name; what fails here fails the suite, with its words.
func (n *network) ip(args ...string) {
	n.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		n.t.Fatalf("this machine can't make network namespaces: ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func (n *network) remove() {
	for _, h := range n.hosts {
		_ = exec.Command("ip", "netns", "del", h.name).Run()
		_ = exec.Command("ip", "link", "del", h.dev).Run()
	}
	_ = exec.Command("ip", "link", "del", n.id).Run()
}

func (n *network) host(number int) *host {
	n.t.Helper()
	h := &host{n: n, name: fmt.Sprintf("%s-%d", n.id, number), dev: fmt.Sprintf("%sv%d", n.id, number), ip: fmt.Sprintf("%s%d", n.subnet, number)}
	n.hosts = append(n.hosts, h)
	n.ip("netns", "add", h.name)
	n.ip("link", "add", h.dev, "type", "veth", "peer", "name", "eth0", "netns", h.name)
	n.ip("link", "set", h.dev, "master", n.id, "up")
	n.ip("-n", h.name, "addr", "add", h.ip+"/24", "dev", "eth0")
	n.ip("-n", h.name, "link", "set", "eth0", "up")
	n.ip("-n", h.name, "link", "set", "lo", "up")
	return h
}

// wrap makes a command run in the namespace.
func (h *host) wrap() []string { return []string{"ip", "netns", "exec", h.name} }

// unplug cuts the host off from everybody.
func (h *host) unplug() { h.n.ip("link", "set", h.dev, "down") }
func (h *host) plug()   { h.n.ip("link", "set", h.dev, "up") }

// cut loses every packet between two hosts, both ways.
func cut(a, b *host) {
	a.n.ip("-n", a.name, "neigh", "replace", b.ip, "lladdr", nowhere, "dev", "eth0", "nud", "permanent")
	a.n.ip("-n", b.name, "neigh", "replace", a.ip, "lladdr", nowhere, "dev", "eth0", "nud", "permanent")
}

func heal(a, b *host) {
	a.n.ip("-n", a.name, "neigh", "del", b.ip, "dev", "eth0")
	a.n.ip("-n", b.name, "neigh", "del", a.ip, "dev", "eth0")
}
