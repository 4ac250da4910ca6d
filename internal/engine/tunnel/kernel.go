package tunnel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/fermi-cluster/fermi/internal/clock"
)

const (
	table = 5210 // our routing table
	// The rules before it, and that for it.
	priorityPast = 5209
	priorityOurs = 5210
	// Of two routes the one with the lower number counts.
	metricGood = 10
	metricBad  = 1000

	mtu       = 1420 // what is left of 1500 bytes, as WireGuard's own tools have it
	keepAlive = 25 * time.Second
	startIn   = 10 * time.Second
	lookPause = 20 * time.Millisecond
)

func host(a netip.Addr) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
}

func addrOf(n *net.IPNet) netip.Addr {
	if n == nil {
		return netip.Addr{}
	}
	a, _ := netip.AddrFromSlice(n.IP)
	return a.Unmap()
}

// routes are those of our table.
func routes() ([]netlink.Route, error) {
	list, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: table}, netlink.RT_FILTER_TABLE)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	return list, err
}

// bar gives addresses the route that ends nowhere.
func bar(addresses map[netip.Addr]bool) error {
	had, err := routes()
	if err != nil {
		return err
	}
	for a := range addresses {
		if slices.ContainsFunc(had, func(r netlink.Route) bool { return r.Type == unix.RTN_BLACKHOLE && addrOf(r.Dst) == a }) {
			continue
		}
		if err := netlink.RouteAdd(&netlink.Route{Dst: host(a), Type: unix.RTN_BLACKHOLE, Table: table, Priority: metricBad}); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("close the way to %s: %w", a, err)
		}
	}
	return nil
}

// route leads the open addresses into the interface, with this source; routes of addresses that are not closed go away.
func route(closed, open map[netip.Addr]bool, index int, from netip.Addr) error {
	had, err := routes()
	if err != nil {
		return err
	}
	there := map[netip.Addr]bool{}
	for _, r := range had {
		a := addrOf(r.Dst)
		bad := r.Type == unix.RTN_BLACKHOLE
		switch {
		case bad && closed[a]:
		case !bad && open[a] && r.LinkIndex == index && r.Src.Equal(net.IP(from.AsSlice())):
			there[a] = true
		default:
			if err := netlink.RouteDel(&r); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("remove the route to %s: %w", a, err)
			}
		}
	}
	for a := range open {
		if there[a] {
			continue
		}
		r := &netlink.Route{Dst: host(a), LinkIndex: index, Scope: netlink.SCOPE_LINK, Src: from.AsSlice(), Table: table, Priority: metricGood}
		if err := netlink.RouteReplace(r); err != nil {
			return fmt.Errorf("lead %s into the tunnel: %w", a, err)
		}
	}
	return nil
}

// rules have our table asked first, but for what is encrypted by itself.
func rules(w Wish, port int) error {
	var want []netlink.Rule
	if len(w.Peers) > 0 {
		past := func(change func(*netlink.Rule)) {
			r := *netlink.NewRule()
			r.Family, r.Priority, r.Table = netlink.FAMILY_V4, priorityPast, unix.RT_TABLE_MAIN
			change(&r)
			want = append(want, r)
		}
		exactly := func(port uint16) *netlink.RulePortRange { return netlink.NewRulePortRange(port, port) }
		past(func(r *netlink.Rule) { r.IPProto, r.Sport = unix.IPPROTO_UDP, exactly(uint16(port)) })
		for _, s := range w.Servers {
			past(func(r *netlink.Rule) { r.IPProto, r.Dst, r.Dport = unix.IPPROTO_TCP, host(s.Addr()), exactly(s.Port()) })
			past(func(r *netlink.Rule) { r.IPProto, r.Src, r.Sport = unix.IPPROTO_TCP, host(s.Addr()), exactly(s.Port()) })
		}
		ours := *netlink.NewRule()
		ours.Family, ours.Priority, ours.Table = netlink.FAMILY_V4, priorityOurs, table
		want = append(want, ours)
	}
	had, err := netlink.RuleList(netlink.FAMILY_V4)
	if err != nil {
		return fmt.Errorf("read the rules of routing: %w", err)
	}
	same := func(a, b netlink.Rule) bool {
		ports := func(p *netlink.RulePortRange) netlink.RulePortRange {
			if p == nil {
				return netlink.RulePortRange{}
			}
			return *p
		}
		return a.Priority == b.Priority && a.Table == b.Table && a.IPProto&0xff == b.IPProto&0xff && addrOf(a.Src) == addrOf(b.Src) && addrOf(a.Dst) == addrOf(b.Dst) &&
			ports(a.Sport) == ports(b.Sport) && ports(a.Dport) == ports(b.Dport)
	}
	for _, r := range want {
		if !slices.ContainsFunc(had, func(h netlink.Rule) bool { return same(h, r) }) {
			if err := netlink.RuleAdd(&r); err != nil && !errors.Is(err, unix.EEXIST) {
				return fmt.Errorf("add a rule of routing: %w", err)
			}
		}
	}
	for _, h := range had {
		if (h.Priority == priorityPast || h.Priority == priorityOurs) && !slices.ContainsFunc(want, func(r netlink.Rule) bool { return same(h, r) }) {
			h.Family = netlink.FAMILY_V4
			if err := netlink.RuleDel(&h); err != nil && !errors.Is(err, unix.ENOENT) {
				return fmt.Errorf("remove a rule of routing: %w", err)
			}
		}
	}
	return nil
}

// device is the interface, made where it is not there, with its address and switched on.
func (t *Tunnel) device(ctx context.Context) (index int, err error) {
	l, err := netlink.LinkByName(Interface)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		l, err = t.makeDevice(ctx)
	}
	if err != nil {
		return 0, err
	}
	// With the machine's own address, so that what is forwarded from replicas has one that the other end takes.
	own := host(t.cfg.Address)
	had, err := netlink.AddrList(l, netlink.FAMILY_V4)
	if err != nil {
		return 0, err
	}
	found := false
	for _, a := range had {
		if addrOf(a.IPNet) == t.cfg.Address {
			found = true
		} else if err := netlink.AddrDel(l, &a); err != nil {
			return 0, err
		}
	}
	if !found {
		if err := netlink.AddrAdd(l, &netlink.Addr{IPNet: own}); err != nil && !errors.Is(err, unix.EEXIST) {
			return 0, fmt.Errorf("address of %s: %w", Interface, err)
		}
	}
	if l.Attrs().MTU != mtu {
		if err := netlink.LinkSetMTU(l, mtu); err != nil {
			return 0, err
		}
	}
	return l.Attrs().Index, netlink.LinkSetUp(l)
}

// makeDevice is the kernel's own WireGuard, else a process.
func (t *Tunnel) makeDevice(ctx context.Context) (netlink.Link, error) {
	err := netlink.LinkAdd(&netlink.Wireguard{LinkAttrs: netlink.LinkAttrs{Name: Interface}})
	switch {
	case err == nil, errors.Is(err, unix.EEXIST):
		return netlink.LinkByName(Interface)
	case !errors.Is(err, unix.EOPNOTSUPP):
		return nil, fmt.Errorf("make %s: %w", Interface, err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	log, err := os.OpenFile(filepath.Join(t.cfg.Dir, fileLog), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(t.cfg.Exe, "agent", CommandName)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = "/", []string{"PATH=" + os.Getenv("PATH")}, null, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // reaps it, while this agent lives
	for late := clock.Real.After(startIn); ; {
		if l, err := netlink.LinkByName(Interface); err == nil && answers() {
			return l, nil
		}
		select {
		case err := <-ended:
			said, _ := os.ReadFile(filepath.Join(t.cfg.Dir, fileLog))
			return nil, fmt.Errorf("the process for %s has ended: %w: %s", Interface, errors.Join(err, errors.New("see "+fileLog)), said[:min(len(said), 300)])
		case <-late:
			_ = cmd.Process.Kill()
			return nil, fmt.Errorf("the process for %s did not come up", Interface)
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-clock.Real.After(lookPause):
		}
	}
}

// answers says that the interface can be configured.
func answers() bool {
	c, err := wgctrl.New()
	if err != nil {
		return false
	}
	defer c.Close()
	_, err = c.Device(Interface)
	return err == nil
}

// configure gives WireGuard its key and peers. What is so already is left alone: it would end conversations.
func (t *Tunnel) configure(peers []Peer) error {
	c, err := wgctrl.New()
	if err != nil {
		return err
	}
	defer c.Close()
	now, err := c.Device(Interface)
	if err != nil {
		return fmt.Errorf("look at %s: %w", Interface, err)
	}
	change := wgtypes.Config{}
	if now.PrivateKey != t.key {
		change.PrivateKey = &t.key
	}
	if now.ListenPort != t.cfg.Port {
		change.ListenPort = &t.cfg.Port
	}
	wanted := map[wgtypes.Key]bool{}
	for _, p := range peers {
		if p.Key == "" {
			continue
		}
		key, err := wgtypes.ParseKey(p.Key)
		if err != nil {
			return fmt.Errorf("the key of %s: %w", p.At, err)
		}
		wanted[key] = true
		alive, nets := keepAlive, []net.IPNet{}
		for _, a := range p.Addresses {
			nets = append(nets, *host(a))
		}
		i := slices.IndexFunc(now.Peers, func(have wgtypes.Peer) bool { return have.PublicKey == key })
		if i >= 0 && sameNets(now.Peers[i].AllowedIPs, nets) && (t.told[key] == p.At || t.told[key] == netip.AddrPort{}) {
			t.told[key] = p.At
			continue // where it is WireGuard finds out by itself
		}
		t.told[key] = p.At
		change.Peers = append(change.Peers, wgtypes.PeerConfig{
			PublicKey: key, Endpoint: net.UDPAddrFromAddrPort(p.At), PersistentKeepaliveInterval: &alive, ReplaceAllowedIPs: true, AllowedIPs: nets,
		})
	}
	for _, have := range now.Peers {
		if !wanted[have.PublicKey] { // first: an address goes to one peer at a time
			change.Peers = slices.Insert(change.Peers, 0, wgtypes.PeerConfig{PublicKey: have.PublicKey, Remove: true})
		}
	}
	if change.PrivateKey == nil && change.ListenPort == nil && len(change.Peers) == 0 {
		return nil
	}
	if err := c.ConfigureDevice(Interface, change); err != nil {
		return fmt.Errorf("configure %s: %w", Interface, err)
	}
	return nil
}

func sameNets(a, b []net.IPNet) bool {
	text := func(list []net.IPNet) (out []string) {
		for _, n := range list {
			out = append(out, n.String())
		}
		slices.Sort(out)
		return out
	}
	return slices.Equal(text(a), text(b))
}

// removeDevice takes the interface away; its process ends with it.
func removeDevice() error {
	l, err := netlink.LinkByName(Interface)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return err
	}
	return netlink.LinkDel(l)
}
