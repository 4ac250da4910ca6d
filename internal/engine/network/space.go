package network

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/engine/record"
)

// Space is the namespace of one replica. It is there as long as a process or a descriptor is. Nil is
// the machine's own. Safe for concurrent use.
type Space struct {
	file *os.File
}

// Inner is the replica's interface, as it sees it.
const Inner = "eth0"

// Make makes the namespace that a lease is for, with its interfaces, addresses and way out.
func Make(lease record.Network) (*Space, error) {
	s := &Space{}
	var within *netlink.Handle
	if err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("new network namespace: %w", err)
		}
		var err error
		if s.file, err = os.Open("/proc/thread-self/ns/net"); err != nil {
			return err
		}
		// Of IPv6 there is the loopback's ::1 and no more: eth0, which comes after this, has no address.
		if err := noIPv6("default"); err != nil {
			return err
		}
		within, err = netlink.NewHandle(unix.NETLINK_ROUTE)
		return err
	}); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	defer within.Close()
	if err := s.plug(within, lease); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// plug connects the namespace to its bridge.
func (s *Space) plug(within *netlink.Handle, lease record.Network) error {
	bridge, err := netlink.LinkByName(lease.Bridge)
	if err != nil {
		return fmt.Errorf("bridge %s: %w", lease.Bridge, err)
	}
	if err := s.addPair(bridge.Attrs(), lease); errors.Is(err, unix.EEXIST) {
		// Of an earlier try; the address is ours alone, and with it the name.
		if old, lerr := netlink.LinkByName(lease.Link); lerr == nil {
			_ = netlink.LinkDel(old)
		}
		err = s.addPair(bridge.Attrs(), lease)
		if err != nil {
			return fmt.Errorf("interface %s: %w", lease.Link, err)
		}
	} else if err != nil {
		return fmt.Errorf("interface %s: %w", lease.Link, err)
	}
	eth, err := within.LinkByName(Inner)
	if err != nil {
		return err
	}
	loopback := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: 1}}
	if err := within.LinkSetUp(loopback); err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	// The inner end first: the bridge takes a port at once that has a carrier when it is switched on.
	if err := within.LinkSetUp(eth); err != nil {
		return fmt.Errorf("%s: %w", Inner, err)
	}
	// An address that comes with each replica makes browsers on this machine drop what they load.
	outer, err := netlink.LinkByName(lease.Link)
	if err == nil {
		err = errors.Join(noIPv6(lease.Link), netlink.LinkSetUp(outer))
	}
	if err != nil {
		return fmt.Errorf("interface %s: %w", lease.Link, err)
	}
	if err := within.AddrAdd(eth, addrOf(lease.Address)); err != nil {
		return fmt.Errorf("address %s: %w", lease.Address, err)
	}
	if err := within.RouteAdd(&netlink.Route{LinkIndex: eth.Attrs().Index, Gw: net.IP(lease.Gateway.AsSlice())}); err != nil {
		return fmt.Errorf("way out: %w", err)
	}
	return errors.Join(
		awaitUp(within.LinkByIndex, eth.Attrs().Index), awaitUp(netlink.LinkByIndex, outer.Attrs().Index), awaitUp(netlink.LinkByIndex, bridge.Attrs().Index))
}

// awaitUp waits until the kernel has switched an interface on in earnest. A packet before that is lost,
// and is sent again only after a second.
func awaitUp(look func(int) (netlink.Link, error), index int) error {
	for end := time.Now().Add(upFor); ; time.Sleep(upEvery) {
		l, err := look(index)
		if err != nil {
			return err
		}
		if l.Attrs().OperState == netlink.OperUp {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("interface %s stays %s", l.Attrs().Name, l.Attrs().OperState)
		}
	}
}

const (
	upFor   = 10 * time.Second
	upEvery = 100 * time.Microsecond
)

// addPair makes both ends in one message: the outer on the bridge, the inner in the namespace.
func (s *Space) addPair(bridge *netlink.LinkAttrs, lease record.Network) error {
	req := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
	req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	mtu := nl.Uint32Attr(uint32(bridge.MTU))
	req.AddData(nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(lease.Link)))
	req.AddData(nl.NewRtAttr(unix.IFLA_MTU, mtu))
	req.AddData(nl.NewRtAttr(unix.IFLA_MASTER, nl.Uint32Attr(uint32(bridge.Index))))
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated("veth"))
	peer := info.AddRtAttr(nl.IFLA_INFO_DATA, nil).AddRtAttr(nl.VETH_INFO_PEER, nil)
	nl.NewIfInfomsgChild(peer, unix.AF_UNSPEC)
	peer.AddRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(Inner))
	peer.AddRtAttr(unix.IFLA_MTU, mtu)
	peer.AddRtAttr(unix.IFLA_ADDRESS, hardware(lease.Address.Addr()))
	peer.AddRtAttr(unix.IFLA_NET_NS_FD, nl.Uint32Attr(uint32(s.file.Fd())))
	req.AddData(info)
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// Borrow is the namespace that another process holds for its replica; nil: it holds none. The caller
// makes sure that the pid is still that process's afterwards.
func Borrow(pid int) (*Space, error) {
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return nil, err
	}
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		file := filepath.Join(dir, e.Name())
		if to, err := os.Readlink(file); err != nil || to == own || !strings.HasPrefix(to, "net:[") {
			continue
		}
		f, err := os.Open(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return &Space{file: f}, nil
	}
	return nil, nil
}

// Descriptor is what a process enters the namespace by; 0: there is none to enter.
func (s *Space) Descriptor() uintptr {
	if s == nil {
		return 0
	}
	return s.file.Fd()
}

// Close lets go of it.
func (s *Space) Close() error {
	if s == nil || s.file == nil {
		return nil
	}
	return s.file.Close()
}

// Do runs f in the namespace: sockets that it makes are the replica's for ever. f must make them itself,
// not by goroutines that it starts.
func (s *Space) Do(f func() error) error {
	if s == nil {
		return f()
	}
	return onThread(func() error {
		if err := unix.Setns(int(s.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network namespace: %w", err)
		}
		return f()
	})
}

// onThread runs f on a thread of its own, and brings it back to the machine's network. A thread that
// can't be brought back ends.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			done <- err
			return
		}
		defer home.Close()
		err = f()
		if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}

// New makes a namespace with nothing in it, to find out whether one can be made.
func New() (*Space, error) {
	s := &Space{}
	err := onThread(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("new network namespace: %w", err)
		}
		s.file, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}
