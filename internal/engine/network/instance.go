package network

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/conf"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/id"
)

// Config is what an instance needs.
type Config struct {
	// Dir holds the instance's name, its pool and its leases. Several servers may share it.
	Dir string
	// Pool is conf.NetworkAuto, or the addresses to use, such as 100.64.0.0/14.
	Pool string
	Log  *slog.Logger
	// Alive says whether a replica still exists; what it leased is kept as long. Nil: all are.
	Alive func(replica string) bool
}

// Network is the network of one instance on this machine. Safe for concurrent use.
type Network struct {
	plan
	cfg    Config
	kernel kernel

	mu     sync.Mutex
	lock   *os.File
	doors  []uint16 // ports of the API
	cursor map[int]int
}

// plan is how an instance calls what it has, and which addresses are what.
type plan struct {
	dir   string
	id    string
	pool  netip.Prefix
	shape shape
}

// identity is what an instance remembers.
type identity struct {
	ID   string       `json:"id"`
	Pool netip.Prefix `json:"pool"`
}

const (
	fileIdentity = "instance.json"
	fileLock     = "lock"
	dirBlocks    = "blocks"    // number → uid of the project
	dirAddresses = "addresses" // address → name of the replica

	// hostLock is held while a pool is chosen, so that two instances don't choose the same.
	hostLock = "/run/fermi-network.lock"

	namePrefix = "fermi"
	idLetters  = 5
	// ownAlias begins the alias of an instance's first interface; its folder follows.
	ownAlias = "fermi network "
)

// Open makes the instance's pool, its API address and its rules, or finds them. What it makes stays
// when the process ends, because replicas do.
func Open(cfg Config) (*Network, error) {
	if os.Geteuid() != 0 {
		return nil, ErrNotRoot
	}
	for _, dir := range []string{cfg.Dir, filepath.Join(cfg.Dir, dirBlocks), filepath.Join(cfg.Dir, dirAddresses)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	lock, err := os.OpenFile(filepath.Join(cfg.Dir, fileLock), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	n := &Network{plan: plan{dir: cfg.Dir}, cfg: cfg, kernel: kernel{handle}, lock: lock, cursor: map[int]int{}}
	if err := n.locked(n.establish); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

// Close lets go of the descriptors; nothing that was made is removed.
func (n *Network) Close() {
	n.kernel.Close()
	_ = n.lock.Close()
}

// ErrNotRoot says that only root can make networks.
var ErrNotRoot = errors.New("not root")

// Pool is all addresses of the instance.
func (p plan) Pool() netip.Prefix { return p.pool }

// API is the address at which replicas reach the server.
func (p plan) API() netip.Addr { return p.pool.Addr().Next() }

// locked runs f while no other server of this folder does.
func (n *Network) locked(f func() error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := flock(n.lock); err != nil {
		return err
	}
	defer unix.Flock(int(n.lock.Fd()), unix.LOCK_UN)
	return f()
}

func flock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// establish finds or chooses who we are, then makes what is missing; locked.
func (n *Network) establish() error {
	host, err := os.OpenFile(hostLock, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer host.Close()
	if err := flock(host); err != nil {
		return err
	}
	var who identity
	data, err := os.ReadFile(filepath.Join(n.cfg.Dir, fileIdentity))
	if err == nil {
		err = json.Unmarshal(data, &who)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read %s: %w", fileIdentity, err)
	}
	if err != nil || len(who.ID) != idLetters {
		who = identity{ID: id.Default.Random(idLetters)}
	}
	n.id = who.ID
	n.sweepStrangers()
	pool, err := n.choose(who.Pool)
	if err != nil {
		return err
	}
	n.pool, n.shape = pool, shapeOf(pool)
	if pool != who.Pool {
		if err := n.remember(identity{who.ID, pool}); err != nil {
			return err
		}
	}
	return n.ensure()
}

func (n *Network) remember(who identity) error {
	data, err := json.Marshal(who)
	if err != nil {
		return err
	}
	file := filepath.Join(n.cfg.Dir, fileIdentity)
	return errors.Join(os.WriteFile(file+".new", append(data, '\n'), 0o600), os.Rename(file+".new", file))
}

// ranges are where a pool is looked for, in this order; each is cut into pools of poolBits.
var ranges = []netip.Prefix{netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12")}

const poolBits = 14

// choose is the pool of before, the one that was asked for, or one that nothing here uses.
func (n *Network) choose(before netip.Prefix) (netip.Prefix, error) {
	used, pools, err := n.used()
	if err != nil {
		return netip.Prefix{}, err
	}
	used = append(used, pools...)
	clash := func(p netip.Prefix) bool {
		return slices.ContainsFunc(used, func(u netip.Prefix) bool { return u.Overlaps(p) })
	}
	if n.cfg.Pool != conf.NetworkAuto {
		p, ok := conf.ParseNetwork(n.cfg.Pool)
		if !ok {
			return p, fmt.Errorf("%q is no network for replicas", n.cfg.Pool)
		}
		if p != before && clash(p) {
			return p, fault.New(fault.Conflict, "NetworkInUse", fault.T("Addresses of network %s are in use on this machine.", "本机已在使用 network %s 中的地址。", p)).
				WithHint(fault.T("Give another network, or auto.", "请换一个 network，或设为 auto。"))
		}
		return p, nil
	}
	leases, err := os.ReadDir(filepath.Join(n.cfg.Dir, dirAddresses))
	if err != nil {
		return netip.Prefix{}, err
	}
	if before.IsValid() && (!clash(before) || len(leases) > 0) {
		return before, nil
	}
	for _, r := range ranges {
		if r == ranges[0] && slices.ContainsFunc(used, func(u netip.Prefix) bool { return r.Overlaps(u) && !fromPool(u, pools) }) {
			continue // an overlay network is there, and takes the whole range for its own
		}
		for i := range 1 << (max(poolBits, r.Bits()) - r.Bits()) {
			if p := part(r, max(poolBits, r.Bits()), i); !clash(p) {
				return p, nil
			}
		}
	}
	return netip.Prefix{}, fault.New(fault.Conflict, "NoNetwork", fault.T("No addresses are free for the replicas' network: all private ranges are in use on this machine.", "没有可用于副本网络的地址：本机已使用所有私有网段。")).
		WithHint(fault.T("Give network as CIDR, such as 10.200.0.0/16.", "请以 CIDR 指定 network，例如 10.200.0.0/16。"))
}

// fromPool says that addresses are of another instance's pool, or all of it.
func fromPool(u netip.Prefix, pools []netip.Prefix) bool {
	return slices.ContainsFunc(pools, func(p netip.Prefix) bool { return p.Bits() <= u.Bits() && p.Contains(u.Addr()) })
}

// used are the addresses and routes of this machine that are not ours, and the pools of other instances.
func (n *Network) used() (out, pools []netip.Prefix, err error) {
	links, err := n.kernel.links()
	if err != nil {
		return nil, nil, err
	}
	own := map[int]bool{}
	for _, l := range links {
		a := l.Attrs()
		if strings.HasPrefix(a.Name, n.prefix()) {
			own[a.Index] = true
		} else if pool, ok := poolOf(a.Alias); ok {
			pools = append(pools, pool)
		}
	}
	addresses, err := n.kernel.addresses(nil)
	if err != nil {
		return nil, nil, err
	}
	for _, a := range addresses {
		if !own[a.LinkIndex] && a.IPNet != nil {
			out = append(out, prefixOf(a.IPNet))
		}
	}
	routes, err := n.kernel.routes(unix.RT_TABLE_UNSPEC)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range routes {
		if p := prefixOf(r.Dst); r.Dst != nil && p.IsValid() && p.Bits() > 8 && !own[r.LinkIndex] {
			out = append(out, p)
		}
	}
	return out, pools, nil
}

func prefixOf(n *net.IPNet) netip.Prefix {
	if n == nil {
		return netip.Prefix{}
	}
	a, ok := netip.AddrFromSlice(n.IP.To4())
	ones, _ := n.Mask.Size()
	if !ok {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(a, ones).Masked()
}

// alias is what the first interface says of its instance: pool and folder.
func (p plan) alias() string { return ownAlias + p.pool.String() + " " + p.dir }

func poolOf(alias string) (netip.Prefix, bool) {
	rest, ok := strings.CutPrefix(alias, ownAlias)
	text, _, _ := strings.Cut(rest, " ")
	p, err := netip.ParsePrefix(text)
	return p, ok && err == nil
}

func folderOf(alias string) string {
	rest, _ := strings.CutPrefix(alias, ownAlias)
	_, dir, _ := strings.Cut(rest, " ")
	return dir
}

// prefix begins the names of all our interfaces. A name has at most 15 letters.
func (p plan) prefix() string          { return namePrefix + p.id }
func (p plan) apiName() string         { return p.prefix() + "a" }
func (p plan) bridgePrefix() string    { return p.prefix() + "b" }
func (p plan) bridgeName(b int) string { return p.bridgePrefix() + strconv.Itoa(b) }
func (p plan) vethName(a netip.Addr) string {
	return p.prefix() + "v" + strconv.FormatUint(uint64(number(a)-number(p.pool.Addr())), 36)
}
func (p plan) tableName() string { return "fermi_" + p.id }

// shape is how a pool is cut into blocks. A bridge has at most 1,023 ports, so a block has at most as
// many addresses; block 0 has the API's and is nobody's.
type shape struct {
	bits   int // of a block
	blocks int
	hosts  int // addresses of a block for replicas
}

func shapeOf(pool netip.Prefix) shape {
	bits := 22
	if pool.Bits() > 16 {
		bits = min(pool.Bits()+6, 28)
	}
	return shape{bits: bits, blocks: 1 << (bits - pool.Bits()), hosts: 1<<(32-bits) - 3}
}

// part is part i of a prefix that is cut into parts of bits.
func part(p netip.Prefix, bits, i int) netip.Prefix {
	return netip.PrefixFrom(address(number(p.Addr())+uint32(i)<<(32-bits)), bits)
}

func (p plan) block(i int) netip.Prefix { return part(p.pool, p.shape.bits, i) }
func (p plan) gateway(i int) netip.Addr { return p.block(i).Addr().Next() }
func (p plan) blockOf(a netip.Addr) int {
	return int((number(a) - number(p.pool.Addr())) >> (32 - p.shape.bits))
}

func number(a netip.Addr) uint32 { b := a.As4(); return binary.BigEndian.Uint32(b[:]) }
func address(v uint32) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], v)
	return netip.AddrFrom4(b)
}

// hardware is the address of the interface with an IP address: always the same, so that no neighbour
// remembers a wrong one after the address has got a new owner.
func hardware(a netip.Addr) net.HardwareAddr {
	b := a.As4()
	return net.HardwareAddr{0x02, 0xfe, b[0], b[1], b[2], b[3]}
}
