package harness

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"sync"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/engine/network"
)

// A server that tasks shall reach can't be on this machine's loopback: as root every replica has a network of its own.
// Outside is a network namespace beside the machine, as another host is; the machine and its replicas reach it. An
// ordinary user's tasks are on the machine's network, and it is the loopback.
type outside struct {
	space   *network.Space // nil: the machine's own
	address string
}

// theOutside is this process's; the kernel removes it with the process.
var theOutside = sync.OnceValues(func() (*outside, error) {
	if os.Geteuid() != 0 {
		return &outside{address: "127.0.0.1"}, nil
	}
	space, err := network.New()
	if err != nil {
		return nil, err
	}
	for range 20 {
		at := netip.AddrFrom4([4]byte{192, 168, byte(200 + rand.IntN(50)), byte(4 * rand.IntN(63))})
		name := fmt.Sprintf("ftest%d", rand.IntN(1_000_000_000))
		if err = connect(space, name, at); err == nil {
			return &outside{space, at.Next().Next().String()}, nil
		}
	}
	return nil, err
})

// connect gives the machine the first, and the namespace the second address of four.
func connect(space *network.Space, name string, at netip.Addr) error {
	routes, err := netlink.RouteList(nil, unix.AF_INET)
	if err != nil {
		return err
	}
	for _, r := range routes {
		if ones := 0; r.Dst != nil && r.Dst.Contains(at.AsSlice()) {
			if ones, _ = r.Dst.Mask.Size(); ones > 0 {
				return errors.New("in use")
			}
		}
	}
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: "eth0", PeerNamespace: netlink.NsFd(space.Descriptor())}); err != nil {
		return err
	}
	if err := raise(name, at.Next()); err != nil {
		return err
	}
	return space.Do(func() error {
		if err := raise("eth0", at.Next().Next()); err != nil {
			return err
		}
		lo, err := netlink.LinkByName("lo")
		if err == nil {
			err = netlink.LinkSetUp(lo)
		}
		return err
	})
}

func raise(name string, at netip.Addr) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return errors.Join(netlink.AddrAdd(l, &netlink.Addr{IPNet: &net.IPNet{IP: at.AsSlice(), Mask: net.CIDRMask(30, 32)}}), netlink.LinkSetUp(l))
}

// OutsideAddress is a free address there.
func OutsideAddress(t testing.TB) string {
	t.Helper()
	l := ListenOutside(t)
	defer l.Close()
	return l.Addr().String()
}

// ListenOutside listens where tasks and the machine reach it.
func ListenOutside(t testing.TB) net.Listener {
	t.Helper()
	var l net.Listener
	DoOutside(t, func(address string) (err error) {
		l, err = net.Listen("tcp", net.JoinHostPort(address, "0"))
		return err
	})
	return l
}

// DoOutside runs f there: sockets that it opens and processes that it starts are outside.
func DoOutside(t testing.TB, f func(address string) error) {
	t.Helper()
	o, err := theOutside()
	if err == nil {
		err = o.space.Do(func() error { return f(o.address) })
	}
	if err != nil {
		t.Fatal(err)
	}
}

// ServeOutside answers HTTP there, until the test ends.
func ServeOutside(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Listener.Close()
	s.Listener = ListenOutside(t)
	s.Start()
	t.Cleanup(s.Close)
	return s
}
