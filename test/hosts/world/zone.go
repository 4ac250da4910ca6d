package world

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/engine/network"
)

// Addresses are of 198.18.0.0/15, which is set aside for tests of networks. Each world has 16 networks of 256 there: the first is cut into those
// of the uplinks, the others are the zones'.
const (
	pools      = 32
	bridge     = "zone"
	uplinkPeer = "uplink"
)

func addressOf(number, third, fourth int) netip.Addr {
	at := number*16 + third
	return netip.AddrFrom4([4]byte{198, byte(18 + at/256), byte(at % 256), byte(fourth)})
}

// zone is a router with a bridge, in a network namespace of its own.
type zone struct {
	name          string
	number, index int
	space         *network.Space
	uplink        string
	cuts          map[string]Way // interface of a host → what is dropped
}

func (z *zone) network() netip.Prefix { return netip.PrefixFrom(addressOf(z.number, z.index+1, 0), 24) }
func (z *zone) gateway() netip.Addr   { return addressOf(z.number, z.index+1, 1) }
func (z *zone) machine() netip.Addr   { return addressOf(z.number, 0, 4*z.index+1) }
func (z *zone) router() netip.Addr    { return addressOf(z.number, 0, 4*z.index+2) }

// newZone answers EEXIST if the number is another world's.
func newZone(number, index int, name string) (*zone, error) {
	z := &zone{name: name, number: number, index: index, uplink: fmt.Sprintf("fworld%dz%d", number, index), cuts: map[string]Way{}}
	var err error
	if z.space, err = network.New(); err != nil {
		return nil, err
	}
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: z.uplink}, PeerName: uplinkPeer, PeerNamespace: netlink.NsFd(z.space.Descriptor())}
	if err := netlink.LinkAdd(veth); err != nil {
		return nil, errors.Join(err, z.space.Close())
	}
	if err := z.furnish(); err != nil {
		return nil, errors.Join(err, z.remove())
	}
	return z, nil
}

func (z *zone) furnish() error {
	if err := z.space.Do(func() error {
		if err := settle(); err != nil {
			return err
		}
		// What comes from another zone comes by an interface of which the kernel knows no way back.
		for file, value := range map[string]string{"ip_forward": "1", "conf/all/rp_filter": "0", "conf/default/rp_filter": "0"} {
			if err := os.WriteFile(filepath.Join("/proc/sys/net/ipv4", file), []byte(value), 0); err != nil {
				return err
			}
		}
		if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridge}}); err != nil {
			return err
		}
		return errors.Join(raise(bridge, netip.PrefixFrom(z.gateway(), 24)), raise(uplinkPeer, netip.PrefixFrom(z.router(), 30)))
	}); err != nil {
		return err
	}
	if err := raise(z.uplink, netip.PrefixFrom(z.machine(), 30)); err != nil {
		return err
	}
	return route(z.uplink, z.network(), z.router())
}

// settle prepares a new namespace: it has a loopback and no IPv6.
func settle() error {
	for _, which := range []string{"all", "default"} {
		err := os.WriteFile(filepath.Join("/proc/sys/net/ipv6/conf", which, "disable_ipv6"), []byte("1"), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
}

// raise gives an interface of this thread's namespace its address and switches it on.
func raise(name string, at netip.Prefix) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	if err := netlink.AddrAdd(l, &netlink.Addr{IPNet: asNet(at)}); err != nil {
		return fmt.Errorf("address %s of %s: %w", at, name, err)
	}
	return netlink.LinkSetUp(l)
}

// route leads to a network; by a gateway unless it is zero.
func route(name string, to netip.Prefix, by netip.Addr) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	r := &netlink.Route{LinkIndex: l.Attrs().Index, Dst: asNet(to)}
	if by.IsValid() {
		r.Gw = by.AsSlice()
	} else {
		r.Scope = netlink.SCOPE_LINK
	}
	if err := netlink.RouteAdd(r); err != nil {
		return fmt.Errorf("route to %s: %w", to, err)
	}
	return nil
}

func asNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 32)}
}

// awaitUp waits until the kernel has switched on an interface of this thread's namespace: a packet before that is lost.
func awaitUp(name string) error {
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if l.Attrs().OperState == netlink.OperUp {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("interface %s stays %s", name, l.Attrs().OperState)
		}
	}
}

// patience is how long the kernel may take for something that it does in milliseconds.
const patience = 30 * time.Second

// plug connects the namespace of a host: port is the bridge's end, eth0 the host's.
func (z *zone) plug(port string, space *network.Space, at netip.Addr) error {
	b := at.As4()
	hardware := net.HardwareAddr{0x02, 0xfd, b[0], b[1], b[2], b[3]} // the same after each boot, as a machine's
	if err := z.space.Do(func() error {
		zoneBridge, err := netlink.LinkByName(bridge)
		if err != nil {
			return err
		}
		return netlink.LinkAdd(&netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: port, MasterIndex: zoneBridge.Attrs().Index},
			PeerName:  network.Inner, PeerHardwareAddr: hardware, PeerNamespace: netlink.NsFd(space.Descriptor()),
		})
	}); err != nil {
		return fmt.Errorf("interface %s: %w", port, err)
	}
	if err := space.Do(func() error {
		if err := settle(); err != nil {
			return err
		}
		return raise(network.Inner, netip.PrefixFrom(at, 24))
	}); err != nil {
		return err
	}
	if err := z.switchPort(port, true); err != nil {
		return err
	}
	if err := space.Do(func() error {
		if err := awaitUp(network.Inner); err != nil {
			return err
		}
		return route(network.Inner, netip.PrefixFrom(netip.IPv4Unspecified(), 0), z.gateway())
	}); err != nil {
		return err
	}
	return z.space.Do(func() error { return errors.Join(awaitUp(port), awaitUp(bridge)) })
}

// switchPort is the plug of a host: pulled out, nothing goes either way and the host sees it.
func (z *zone) switchPort(port string, on bool) error {
	return z.space.Do(func() error {
		l, err := netlink.LinkByName(port)
		if err != nil {
			return err
		}
		if on {
			return netlink.LinkSetUp(l)
		}
		return netlink.LinkSetDown(l)
	})
}

// unplug removes a host's interface, both ends.
func (z *zone) unplug(port string) error {
	err := z.space.Do(func() error {
		l, err := netlink.LinkByName(port)
		if errors.As(err, &netlink.LinkNotFoundError{}) {
			return nil
		}
		if err != nil {
			return err
		}
		return netlink.LinkDel(l)
	})
	return errors.Join(err, z.cut(port, 0))
}

// cut writes the rules of the bridge: what comes from, or goes to, these interfaces is dropped. They hold for every protocol, and whatever the host
// does to itself.
func (z *zone) cut(port string, which Way) error {
	if z.cuts[port] == which {
		return nil
	}
	if z.cuts[port] = which; which == 0 {
		delete(z.cuts, port)
	}
	c, err := nftables.New(nftables.WithNetNSFd(int(z.space.Descriptor())))
	if err != nil {
		return err
	}
	table := &nftables.Table{Name: "cut", Family: nftables.TableFamilyBridge}
	c.AddTable(table)
	c.DelTable(table)
	c.AddTable(table)
	for _, side := range []struct {
		name string
		hook *nftables.ChainHook
		key  expr.MetaKey
		way  Way
	}{
		{"from", nftables.ChainHookPrerouting, expr.MetaKeyIIFNAME, Out},
		{"to", nftables.ChainHookPostrouting, expr.MetaKeyOIFNAME, In},
	} {
		priority := nftables.ChainPriority(0)
		chain := c.AddChain(&nftables.Chain{Name: side.name, Table: table, Type: nftables.ChainTypeFilter, Hooknum: side.hook, Priority: &priority})
		for name, dropped := range z.cuts {
			if dropped&side.way == 0 {
				continue
			}
			padded := make([]byte, unix.IFNAMSIZ)
			copy(padded, name)
			c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
				&expr.Meta{Key: side.key, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: padded},
				&expr.Verdict{Kind: expr.VerdictDrop},
			}})
		}
	}
	return c.Flush()
}

// remove takes the uplink away; the namespace goes with its last descriptor.
func (z *zone) remove() error {
	var err error
	if l, lerr := netlink.LinkByName(z.uplink); lerr == nil {
		err = netlink.LinkDel(l)
	}
	return errors.Join(err, z.space.Close())
}
