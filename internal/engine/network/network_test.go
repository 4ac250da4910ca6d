package network

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/conf"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/test/foreign"
)

// open is an instance of its own, which leaves nothing behind.
func open(t *testing.T, pool string) *Network {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root makes networks")
	}
	if s, err := New(); err != nil {
		t.Skip("no network namespaces here:", err)
	} else {
		s.Close()
	}
	return openAt(t, t.TempDir(), pool)
}

func openAt(t *testing.T, dir, pool string) *Network {
	t.Helper()
	n, err := Open(Config{Dir: dir, Pool: pool, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.locked(func() error { return n.kernel.remove(n.prefix(), n.tableName()) }); err != nil {
			t.Error(err)
		}
		n.Close()
	})
	return n
}

// replica is a namespace with its lease.
type replica struct {
	*Space
	record.Network
}

func add(t *testing.T, n *Network, uid int, name string) replica {
	t.Helper()
	lease, err := n.Lease(uid, name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Make(lease)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return replica{s, lease}
}

// listen accepts on a port of the namespace and hangs up; nil is the machine's own.
func listen(t *testing.T, s *Space, at string) string {
	t.Helper()
	var l net.Listener
	if err := s.Do(func() (err error) {
		l, err = net.Listen("tcp4", at)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return foreign.HangUp(t, l)
}

// patient is for machines that do much else.
const patient = time.Minute

// reach is for who must not get there; where nobody answers it gives up soon.
func reach(s *Space, host, port string) error {
	return reachWithin(s, host, port, 500*time.Millisecond)
}

func reachWithin(s *Space, host, port string, most time.Duration) error {
	return s.Do(func() error {
		c, err := net.DialTimeout("tcp4", net.JoinHostPort(host, port), most)
		if err == nil {
			c.Close()
		}
		return err
	})
}

func TestWhoReachesWhom(t *testing.T) {
	n := open(t, conf.NetworkAuto)
	a1, a2, b := add(t, n, 1001, "a-1"), add(t, n, 1001, "a-2"), add(t, n, 1002, "b-1")
	other := open(t, conf.NetworkAuto)
	if n.Pool().Overlaps(other.Pool()) || n.id == other.id {
		t.Fatal("two instances share", n.Pool(), other.Pool())
	}
	c := add(t, other, 1001, "c-1")
	of := func(r replica) string { return r.Address.Addr().String() }
	p1, p2, pb, pc := listen(t, a1.Space, ":0"), listen(t, a2.Space, ":0"), listen(t, b.Space, ":0"), listen(t, c.Space, ":0")
	local := listen(t, nil, "127.0.0.1:0")
	wild := listen(t, nil, "0.0.0.0:0")
	api := listen(t, nil, n.API().String()+":0")
	number, _ := strconv.Atoi(api)
	if err := n.Admit(uint16(number)); err != nil {
		t.Fatal(err)
	}
	loopback := listen(t, a1.Space, "127.0.0.1:0")
	out, err := net.Dial("udp4", "192.0.2.200:9") // sends nothing
	if err != nil {
		t.Skip("no way out here:", err)
	}
	machine := out.LocalAddr().(*net.UDPAddr).IP.String()
	out.Close()
	for _, c := range []struct {
		what       string
		from       *Space
		host, port string
		open       bool
	}{
		{"itself", a1.Space, of(a1), p1, true},
		{"own loopback", a1.Space, "127.0.0.1", loopback, true},
		{"same project", a1.Space, of(a2), p2, true},
		{"same project, back", a2.Space, of(a1), p1, true},
		{"machine to replica", nil, of(a1), p1, true},
		{"machine to replica of another project", nil, of(b), pb, true},
		{"API", a1.Space, n.API().String(), api, true},
		{"API from the machine", nil, n.API().String(), api, true},
		{"other project", a1.Space, of(b), pb, false},
		{"other project, back", b.Space, of(a1), p1, false},
		{"other instance", a1.Space, of(c), pc, false},
		{"other instance, back", c.Space, of(a1), p1, false},
		{"other instance's API", c.Space, n.API().String(), api, false},
		{"the machine's loopback", a1.Space, "127.0.0.1", local, false},
		{"the machine's address", a1.Space, machine, wild, false},
		{"the gateway", a1.Space, a1.Gateway.String(), wild, false},
		{"another gateway", a1.Space, b.Gateway.String(), wild, false},
		{"another port at the API's address", a1.Space, n.API().String(), wild, false},
		{"metadata", a1.Space, "169.254.169.254", "80", false},
		{"metadata of another cloud", a1.Space, "100.100.100.200", "80", false},
		{"another's loopback", a2.Space, "127.0.0.1", loopback, false},
	} {
		most := 500 * time.Millisecond
		if c.open {
			most = patient
		}
		if err := reachWithin(c.from, c.host, c.port, most); (err == nil) != c.open {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	// Refused, not left without an answer.
	if err := reachWithin(a1.Space, "169.254.169.254", "80", patient); err == nil || isTimeout(err) {
		t.Error(err)
	}
}

// TestWayOut: the world is reached, with the machine's address, and does not reach in.
func TestWayOut(t *testing.T) {
	n := open(t, conf.NetworkAuto)
	r := add(t, n, 1001, "a-1")
	world, gate := outside(t)
	port := listen(t, world, ":0")
	if err := reachWithin(r.Space, gate[1], port, patient); err != nil {
		t.Error("the way out:", err)
	}
	inner := listen(t, r.Space, ":0")
	if err := world.Do(func() error {
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer h.Close()
		eth, err := h.LinkByName("eth0")
		if err != nil {
			return err
		}
		return h.RouteAdd(&netlink.Route{LinkIndex: eth.Attrs().Index, Gw: net.ParseIP(gate[0])})
	}); err != nil {
		t.Fatal(err)
	}
	if err := reach(world, r.Address.Addr().String(), inner); err == nil {
		t.Error("the world reaches a replica")
	}
	if err := reach(world, n.API().String(), "1"); !errors.Is(err, os.ErrDeadlineExceeded) && !isTimeout(err) {
		t.Error("the world hears of the API's address:", err)
	}
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

// outside is a namespace beside the machine, as another host is.
func outside(t *testing.T) (*Space, [2]string) {
	t.Helper()
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	name := "fmtest" + strconv.Itoa(os.Getpid()%100000)
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: "eth0", PeerNamespace: netlink.NsFd(s.file.Fd())}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if l, err := netlink.LinkByName(name); err == nil {
			_ = netlink.LinkDel(l)
		}
	})
	gate := [2]string{"198.51.100.1", "198.51.100.2"}
	l, err := netlink.LinkByName(name)
	if err == nil {
		err = errors.Join(netlink.AddrAdd(l, addrOf(netip.MustParsePrefix(gate[0]+"/24"))), netlink.LinkSetUp(l))
	}
	if err == nil {
		err = s.Do(func() error {
			h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
			if err != nil {
				return err
			}
			defer h.Close()
			l, err := h.LinkByName("eth0")
			if err != nil {
				return err
			}
			return errors.Join(h.AddrAdd(l, addrOf(netip.MustParsePrefix(gate[1]+"/24"))), h.LinkSetUp(l), awaitUp(h.LinkByIndex, l.Attrs().Index))
		})
	}
	if err == nil {
		err = awaitUp(netlink.LinkByIndex, l.Attrs().Index)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s, gate
}

// TestNothingIsLeft: the interfaces go with the namespace, a block with its last lease, all with the last replica.
func TestNothingIsLeft(t *testing.T) {
	n := open(t, conf.NetworkAuto)
	r := add(t, n, 1001, "a-1")
	if _, err := netlink.LinkByName(r.Link); err != nil {
		t.Fatal(err)
	}
	if err := n.Leave(); err != nil {
		t.Fatal(err)
	}
	if _, err := netlink.LinkByName(r.Bridge); err != nil {
		t.Error("a replica's bridge was removed under it:", err)
	}
	r.Close()
	waitGone(t, r.Link)
	if err := n.Release("somebody-else", r.Network); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(n.leaseFile(r.Address.Addr())); err != nil {
		t.Error("released by a stranger:", err)
	}
	if err := errors.Join(n.Release("a-1", r.Network), n.Sweep()); err != nil {
		t.Fatal(err)
	}
	if _, err := netlink.LinkByName(r.Bridge); err == nil {
		t.Error("the bridge is left")
	}
	if err := n.Leave(); err != nil {
		t.Fatal(err)
	}
	links, err := n.kernel.links()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if strings.HasPrefix(l.Attrs().Name, n.prefix()) {
			t.Error("left:", l.Attrs().Name)
		}
	}
}

func waitGone(t *testing.T, name string) {
	t.Helper()
	for end := time.Now().Add(patient); ; time.Sleep(5 * time.Millisecond) {
		if _, err := netlink.LinkByName(name); errors.As(err, &netlink.LinkNotFoundError{}) {
			return
		} else if time.Now().After(end) {
			t.Fatal(name, "is left", err)
		}
	}
}

// TestMadeAgain: a second server finds everything, what an administrator removed comes back, and the same
// pool is kept.
func TestMadeAgain(t *testing.T) {
	n := open(t, conf.NetworkAuto)
	a1, b := add(t, n, 1001, "a-1"), add(t, n, 1002, "b-1")
	port := listen(t, b.Space, ":0")
	if err := removeRules(n.tableName()); err != nil {
		t.Fatal(err)
	}
	if err := n.locked(n.ensure); err != nil {
		t.Fatal(err)
	}
	if err := reach(a1.Space, b.Address.Addr().String(), port); err == nil {
		t.Error("another project is reached")
	}
	again, err := Open(Config{Dir: n.cfg.Dir, Pool: conf.NetworkAuto, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if again.Pool() != n.Pool() || again.id != n.id {
		t.Error("another pool or name:", again.Pool(), again.id)
	}
	a2, err := again.Lease(1001, "a-2")
	if err != nil || a2.Address == a1.Address || a2.Bridge != a1.Bridge {
		t.Error(a2, err)
	}
	s, err := Make(a2)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	twice, err := Make(a2) // an earlier try of a launcher that was killed
	if err != nil {
		t.Fatal(err)
	}
	defer twice.Close()
	if err := reachWithin(twice, a1.Address.Addr().String(), listen(t, a1.Space, ":0"), patient); err != nil {
		t.Error(err)
	}
}

// TestManyBlocks: a project that has filled a block goes on in the next, and its replicas reach each other.
func TestManyBlocks(t *testing.T) {
	n := open(t, "10.213.0.0/22") // blocks of 13
	if n.shape != (shape{28, 64, 13}) {
		t.Fatal(n.shape)
	}
	first := add(t, n, 1001, "a-0")
	var last replica
	for i := 1; i < 13; i++ {
		if _, err := n.Lease(1001, "a-"+strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	last = add(t, n, 1001, "a-13")
	b := add(t, n, 1002, "b-1")
	if first.Bridge == last.Bridge || first.Bridge == b.Bridge || last.Bridge == b.Bridge {
		t.Fatal(first.Bridge, last.Bridge, b.Bridge)
	}
	if err := reachWithin(first.Space, last.Address.Addr().String(), listen(t, last.Space, ":0"), patient); err != nil {
		t.Error(err)
	}
	if err := reach(b.Space, last.Address.Addr().String(), listen(t, last.Space, ":0")); err == nil {
		t.Error("another project is reached")
	}
	seen := map[string]bool{}
	for {
		lease, err := n.Lease(1003, "c")
		if err != nil {
			break
		}
		if a := lease.Address.Addr().String(); seen[a] {
			t.Fatal("leased twice:", a)
		} else {
			seen[a] = true
		}
	}
	if len(seen) != (64-1-3)*13 {
		t.Error(len(seen))
	}
}

// TestRenew: a lease that a crash of the machine lost is there again.
func TestRenew(t *testing.T) {
	n := open(t, conf.NetworkAuto)
	lease, err := n.Lease(1001, "a-1")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(n.leaseFile(lease.Address.Addr())), n.Sweep()); err != nil {
		t.Fatal(err)
	}
	if err := n.Renew(1001, "a-1", lease); err != nil {
		t.Fatal(err)
	}
	s, err := Make(lease)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if again, err := n.Lease(1001, "a-2"); err != nil || again.Address == lease.Address || again.Bridge != lease.Bridge {
		t.Error(again, err)
	}
}

// TestStrangersSwept: the network of an instance whose folder was deleted is removed by the next one.
func TestStrangersSwept(t *testing.T) {
	n := open(t, conf.NetworkAuto)
	dir := filepath.Join(t.TempDir(), "gone")
	old := openAt(t, dir, conf.NetworkAuto)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := n.locked(n.establish); err != nil {
		t.Fatal(err)
	}
	if _, err := netlink.LinkByName(old.apiName()); err == nil {
		t.Error("it is left")
	}
}

// TestOtherFirewalls: a chain of somebody else that drops what it does not know lets our replicas through, as long as
// there are any.
func TestOtherFirewalls(t *testing.T) {
	n := open(t, conf.NetworkAuto)
	c, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	table := c.AddTable(&nftables.Table{Name: "ftest" + strconv.Itoa(os.Getpid()), Family: nftables.TableFamilyIPv4})
	t.Cleanup(func() {
		c.DelTable(table)
		_ = c.Flush()
	})
	policy := nftables.ChainPolicyDrop
	var chains []*nftables.Chain
	for name, hook := range map[string]*nftables.ChainHook{"in": nftables.ChainHookInput, "through": nftables.ChainHookForward} {
		chain := c.AddChain(&nftables.Chain{Name: name, Table: table, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: nftables.ChainPriorityFilter, Policy: &policy})
		c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: accept()}) // or this machine is cut off
		chains = append(chains, chain)
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	count := func() (out int) {
		for _, chain := range chains {
			rules, err := c.GetRules(table, chain)
			if err != nil {
				t.Fatal(err)
			}
			out += len(ownRules(rules, n.tableName())) // other instances on this machine have theirs
			if !slices.ContainsFunc(rules, func(r *nftables.Rule) bool { return len(r.UserData) == 0 }) {
				t.Error("the chain's own rule is gone")
			}
		}
		return out
	}
	for range 2 {
		if err := n.locked(n.ensure); err != nil || count() != 3 {
			t.Error(count(), err)
		}
	}
	if err := n.Leave(); err != nil || count() != 0 {
		t.Error(count(), err)
	}
}

func TestBorrow(t *testing.T) {
	n := open(t, conf.NetworkAuto)
	r := add(t, n, 1001, "a-1")
	s, err := Borrow(os.Getpid())
	if err != nil || s == nil {
		t.Fatal(s, err)
	}
	defer s.Close()
	var a, b syscall.Stat_t
	if err := errors.Join(syscall.Fstat(int(r.Descriptor()), &a), syscall.Fstat(int(s.Descriptor()), &b)); err != nil || a.Ino != b.Ino {
		t.Error(a.Ino, b.Ino, err)
	}
}

// BenchmarkMake is what one namespace costs a start.
func BenchmarkMake(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("only root makes networks")
	}
	n, err := Open(Config{Dir: b.TempDir(), Pool: conf.NetworkAuto, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Skip(err)
	}
	defer n.Close()
	defer func() { _ = n.locked(func() error { return n.kernel.remove(n.prefix(), n.tableName()) }) }()
	i := 0
	for b.Loop() {
		name := fmt.Sprint("r-", i)
		i++
		lease, err := n.Lease(1001, name)
		if err != nil {
			b.Fatal(err)
		}
		s, err := Make(lease)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		s.Close()
		_ = n.Release(name, lease)
		b.StartTimer()
	}
}
