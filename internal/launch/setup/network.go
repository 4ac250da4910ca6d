package setup

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/network"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/launch/process"
)

// Place is the network that the ranks of all generations have: a namespace of the replica's own, that of the
// replica it runs inside, or, with no space, the machine's. What a launcher opens for its ranks is opened in it; the
// link, and what launchers hand each other, stays on the machine's.
type Place struct {
	Lease  record.Network // zero: the machine's
	Server string         // URL at which the API is open to the ranks; ""
	Host   string         // where others reach the machine, where the ranks are on its network because of them; else ""
	Space  *network.Space
}

// Settle begins to make the replica's network; the returned waits for it. It is begun as early as can be: ports are
// reserved in it, and a leader waits for those.
func (e *Enclosure) Settle(ends record.Link) (wait func() error) {
	own := ends.Network
	p := Place{Host: ends.Address, Server: own.Server}
	var err error
	var made sync.WaitGroup
	made.Go(func() {
		switch {
		case e.Home.Replica.Inside != "":
			p, err = e.joinHost()
		case own.Address.IsValid():
			p.Lease = own
			p.Space, err = network.Make(own)
		}
	})
	return func() error {
		made.Wait()
		if err != nil {
			return process.CantStart(process.CodeNotExecutable, err,
				"The node %s could not make a network for this replica (%v); see launcher.log on the node.",
				"节点 %s 无法为该副本创建网络（%v）；请查看节点上的 launcher.log。", e.Home.Replica.Node, err)
		}
		e.Place = p
		return nil
	}
}

// joinHost is the network of the replica that this one runs inside. Its launcher holds it; one of an earlier version
// holds none, and its processes are on the machine's.
func (e *Enclosure) joinHost() (p Place, err error) {
	dir := filepath.Join(filepath.Dir(e.Home.Dir), string(e.Home.Replica.Inside))
	var ends record.Link
	var host record.Process
	for file, v := range map[string]any{record.FileEndpoint: &ends, record.FileLauncher: &host} {
		if ok, err := record.Read(dir, file, v); err != nil || !ok {
			return Place{}, fmt.Errorf("%s of the replica to run inside: %w", file, errors.Join(err, errNotThere(ok)))
		}
	}
	if !ends.Network.Address.IsValid() {
		return Place{}, nil
	}
	if p.Space, err = network.Borrow(host.PID); err != nil {
		return Place{}, err
	}
	if now, err := record.Describe(host.PID); p.Space == nil || err != nil || now.StartTicks != host.StartTicks {
		return Place{}, errors.Join(errors.New("the replica to run inside has ended"), err, p.Space.Close())
	}
	p.Lease, p.Server = ends.Network, ends.Network.Server
	return p, nil
}

func errNotThere(ok bool) error {
	if ok {
		return nil
	}
	return os.ErrNotExist
}

// Address is where the ranks are reached; "": by the loopback, as far as the machine goes.
func (p Place) Address() string {
	if !p.Lease.Address.IsValid() {
		return ""
	}
	return p.Lease.Address.Addr().String()
}

// Reach is where ranks of other replicas reach these, on this machine or on others; "": by the loopback.
func (p Place) Reach() string { return cmp.Or(p.Address(), p.Host) }

// link is the interface by which ranks reach those of other replicas.
func (p Place) link() string {
	switch {
	case p.Address() != "":
		return network.Inner
	case p.Host != "":
		return interfaceOf(p.Host)
	}
	return "lo"
}

// interfaceOf is the machine's that has an address; the first that is up and not the loopback where it is none of its own, as behind NAT.
func interfaceOf(address string) string {
	list, _ := net.Interfaces()
	first := ""
	for _, i := range list {
		addresses, _ := i.Addrs()
		for _, a := range addresses {
			if n, ok := a.(*net.IPNet); ok && n.IP.Equal(net.ParseIP(address)) {
				return i.Name
			}
		}
		if first == "" && i.Flags&net.FlagUp != 0 && i.Flags&net.FlagLoopback == 0 {
			first = i.Name
		}
	}
	return cmp.Or(first, "lo")
}

// The files of the replica that stand for the machine's in its network.
const (
	fileNames     = "hosts"
	fileResolvers = "resolv.conf"
)

// The machine's own, and where its resolver keeps those that it asks itself.
const (
	machineNames     = "/etc/hosts"
	machineResolvers = "/etc/resolv.conf"
)

var upstreamResolvers = []string{"/run/systemd/resolve/resolv.conf", "/run/NetworkManager/no-stub-resolv.conf", "/run/NetworkManager/resolv.conf"}

// Name writes the files by which names are found in the replica's network.
func (p Place) Name(dir string, r engine.Replica) (note string, err error) {
	if p.Address() == "" {
		return "", nil
	}
	machine, err := os.Hostname()
	if err != nil {
		return "", err
	}
	known, _ := os.ReadFile(machineNames)
	names := hostsFile(string(known), p.Address(), machine, r.Role+"-"+fmt.Sprint(r.Index))
	own, _ := os.ReadFile(machineResolvers)
	resolvers, found := string(own), reachable(string(own))
	for _, file := range upstreamResolvers {
		if found {
			break
		}
		if text, err := os.ReadFile(file); err == nil && reachable(string(text)) {
			resolvers, found = string(text), true
		}
	}
	if !found && strings.Contains(resolvers, "nameserver") {
		note = "the name server of this machine is the machine itself, whose services replicas can't reach: names are not found; name another one in " + machineResolvers
	}
	for file, text := range map[string]string{fileNames: names, fileResolvers: resolvers} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	return note, nil
}

// files are what the wall puts in the place of the machine's.
func (p Place) files(dir string) map[string]string {
	if p.Address() == "" {
		return nil
	}
	return map[string]string{machineNames: filepath.Join(dir, fileNames), machineResolvers: filepath.Join(dir, fileResolvers)}
}

// Resolver is the first name server that a replica in this folder reaches, once it is named; "": the machine's own, or none.
func Resolver(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, fileResolvers)) // written by Name
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) >= 2 && words[0] == "nameserver" && !loopbackIP(words[1]) {
			return net.JoinHostPort(words[1], "53")
		}
	}
	return ""
}

// hostsFile is the machine's without what it says of itself: its name is the replica's here, and so is its own.
func hostsFile(known, address string, names ...string) string {
	var b strings.Builder
	b.WriteString("127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n")
	fmt.Fprintf(&b, "%s %s\n", address, strings.Join(names, " "))
	for line := range strings.Lines(known) {
		words := strings.Fields(strings.SplitN(line, "#", 2)[0])
		if len(words) < 2 || loopbackIP(words[0]) {
			continue
		}
		others := words[:1:1]
		for _, name := range words[1:] {
			if name != names[0] && !strings.HasPrefix(name, names[0]+".") {
				others = append(others, name)
			}
		}
		if len(others) > 1 {
			b.WriteString(strings.Join(others, " ") + "\n")
		}
	}
	return b.String()
}

func loopbackIP(text string) bool {
	ip := net.ParseIP(text)
	return ip == nil || ip.IsLoopback()
}

// ofMachine says that an address is the machine's own, where replicas reach no service.
func ofMachine(text string) bool {
	if loopbackIP(text) {
		return true
	}
	addresses, _ := net.InterfaceAddrs()
	return slices.ContainsFunc(addresses, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(net.ParseIP(text))
	})
}

// reachable says that some name server is not the machine itself.
func reachable(resolvers string) bool {
	for line := range strings.Lines(resolvers) {
		if words := strings.Fields(line); len(words) >= 2 && words[0] == "nameserver" && !ofMachine(strings.SplitN(words[1], "%", 2)[0]) {
			return true
		}
	}
	return false
}
