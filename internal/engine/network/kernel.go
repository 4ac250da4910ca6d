package network

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// kernel is asked again where its answer was cut.
type kernel struct{ *netlink.Handle }

// ensure makes what is missing of what the instance needs; locked.
func (n *Network) ensure() error {
	blocks, err := n.blocks()
	if err != nil {
		return err
	}
	if err := n.ensureAPI(); err != nil {
		return fmt.Errorf("the API's address: %w", err)
	}
	for i := range blocks {
		if err := n.ensureBridge(i); err != nil {
			return err
		}
	}
	if err := n.ensureRules(blocks, n.doors); err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	// Last: from now on packets go from one interface to another, and the rules say which.
	return setSwitch("/proc/sys/net/ipv4/ip_forward", "1")
}

// ensureAPI makes the interface that has the API's address, and says whose the pool is.
func (n *Network) ensureAPI() error {
	l, err := n.kernel.LinkByName(n.apiName())
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		// A bridge that nothing is ever on: kernels that have bridges may lack dummies.
		empty := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: n.apiName()}}
		if err := n.kernel.LinkAdd(empty); err != nil {
			return err
		}
		l, err = n.kernel.LinkByName(n.apiName())
	}
	if err != nil {
		return err
	}
	if l.Attrs().Alias != n.alias() {
		if err := n.kernel.LinkSetAlias(l, n.alias()); err != nil {
			return err
		}
	}
	if err := noIPv6(n.apiName()); err != nil {
		return err
	}
	return n.kernel.settle(l, netip.PrefixFrom(n.API(), 32))
}

// settle gives an interface its one address and switches it on.
func (k kernel) settle(l netlink.Link, p netip.Prefix) error {
	addresses, err := k.addresses(l)
	if err != nil {
		return err
	}
	want, there := addrOf(p), false
	for _, a := range addresses {
		if a.IPNet.String() == want.IPNet.String() {
			there = true
		} else if err := k.AddrDel(l, &a); err != nil {
			return err
		}
	}
	if !there {
		if err := k.AddrAdd(l, want); err != nil {
			return err
		}
	}
	if l.Attrs().RawFlags&unix.IFF_UP != 0 {
		return nil
	}
	return k.LinkSetUp(l)
}

// ensureBridge makes the bridge of a block.
func (n *Network) ensureBridge(block int) error {
	name := n.bridgeName(block)
	l, err := n.kernel.LinkByName(name)
	if err == nil && l.Attrs().RawFlags&unix.IFF_UP != 0 {
		return nil // it is switched on last
	}
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name, HardwareAddr: hardware(n.gateway(block)), MTU: n.kernel.uplinkMTU()}}
		if err = n.kernel.LinkAdd(bridge); err == nil {
			l, err = n.kernel.LinkByName(name)
		}
	}
	if err != nil {
		return fmt.Errorf("bridge %s: %w", name, err)
	}
	// Who says to be somebody on another bridge, or on the machine, is not heard.
	if err := errors.Join(noIPv6(name), setSwitch(ipv4Switch(name, "rp_filter"), "1"), setSwitch(ipv4Switch(name, "send_redirects"), "0")); err != nil {
		return err
	}
	if err := n.kernel.settle(l, netip.PrefixFrom(n.gateway(block), n.shape.bits)); err != nil {
		return fmt.Errorf("bridge %s: %w", name, err)
	}
	return nil
}

// uplinkMTU is that of the way out, so that nothing has to be cut on it.
func (k kernel) uplinkMTU() int {
	routes, err := k.routes(unix.RT_TABLE_MAIN)
	if err != nil {
		return 0
	}
	for _, r := range routes {
		if r.Dst != nil && !r.Dst.IP.IsUnspecified() || r.LinkIndex == 0 {
			continue
		}
		if l, err := k.LinkByIndex(r.LinkIndex); err == nil {
			return min(max(l.Attrs().MTU, 1280), 9000)
		}
	}
	return 0
}

func addrOf(p netip.Prefix) *netlink.Addr {
	a, _ := netlink.ParseAddr(p.String())
	return a
}

func ipv4Switch(link, name string) string {
	return filepath.Join("/proc/sys/net/ipv4/conf", link, name)
}

// noIPv6 keeps an interface from having IPv6 addresses; on a kernel without IPv6 none has.
func noIPv6(link string) error {
	err := setSwitch(filepath.Join("/proc/sys/net/ipv6/conf", link, "disable_ipv6"), "1")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// setSwitch writes only what is not so: the kernel's files may be read-only and right.
func setSwitch(file, value string) error {
	now, err := os.ReadFile(file)
	if err == nil && strings.TrimSpace(string(now)) == value {
		return nil
	}
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(value), 0)
}

// remove deletes all interfaces and rules of an instance.
func (k kernel) remove(prefix, table string) error {
	links, err := k.links()
	if err != nil {
		return err
	}
	var errs []error
	for _, l := range links {
		if strings.HasPrefix(l.Attrs().Name, prefix) {
			if err := k.LinkDel(l); err != nil && !errors.Is(err, unix.ENODEV) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(append(errs, removeRules(table))...)
}

// sweepStrangers removes what instances left whose folders are gone: nobody else will. One that has
// replicas is left alone, because its folder may only be out of our sight.
func (n *Network) sweepStrangers() {
	links, err := n.kernel.links()
	if err != nil {
		return
	}
	for _, l := range links {
		name := l.Attrs().Name
		dir := folderOf(l.Attrs().Alias)
		if len(name) != len(namePrefix)+idLetters+1 || !strings.HasPrefix(name, namePrefix) || !strings.HasSuffix(name, "a") || strings.HasPrefix(name, n.prefix()) || dir == "" {
			continue
		}
		prefix := strings.TrimSuffix(name, "a")
		if _, err := os.Stat(filepath.Join(dir, fileIdentity)); !errors.Is(err, fs.ErrNotExist) || hasVeth(links, prefix+"v") {
			continue
		}
		n.cfg.Log.Info("removing the network of an instance that is gone", "folder", dir)
		if err := n.kernel.remove(prefix, "fermi_"+strings.TrimPrefix(prefix, namePrefix)); err != nil {
			n.cfg.Log.Warn("the network of an instance that is gone could not be removed", "folder", dir, "error", err)
		}
	}
}

func hasVeth(links []netlink.Link, prefix string) bool {
	for _, l := range links {
		if strings.HasPrefix(l.Attrs().Name, prefix) {
			return true
		}
	}
	return false
}

// blocks are those that are taken: number → uid of the project.
func (n *Network) blocks() (map[int]int, error) {
	dir := filepath.Join(n.cfg.Dir, dirBlocks)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	out := map[int]int{}
	for _, e := range entries {
		i, err := strconv.Atoi(e.Name())
		text, lerr := os.Readlink(filepath.Join(dir, e.Name()))
		uid, uerr := strconv.Atoi(text)
		if errors.Join(err, lerr, uerr) == nil && i > 0 && i < n.shape.blocks {
			out[i] = uid
		}
	}
	return out, nil
}

// whole asks again when the kernel's answer was cut by a change.
func whole[T any](ask func() ([]T, error)) (list []T, err error) {
	for range 20 {
		if list, err = ask(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return list, err
}

func (k kernel) links() ([]netlink.Link, error) { return whole(k.LinkList) }

func (k kernel) addresses(l netlink.Link) ([]netlink.Addr, error) {
	return whole(func() ([]netlink.Addr, error) { return k.AddrList(l, unix.AF_INET) })
}

func (k kernel) routes(table int) ([]netlink.Route, error) {
	return whole(func() ([]netlink.Route, error) {
		return k.RouteListFiltered(unix.AF_INET, &netlink.Route{Table: table}, netlink.RT_FILTER_TABLE)
	})
}
