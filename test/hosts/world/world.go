package world

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Config is the shape of a world. The zero value is six hosts in two zones, a and b, 12 ms apart.
type Config struct {
	Zones []Zone
	// Link is between each two zones at the beginning.
	Link Link
}

// Zone is a group of hosts. They are named after it: zone b has b1, b2 and b3.
type Zone struct {
	Name  string
	Hosts int // 0: three
}

// Link is the way between two zones. The zero value is as fast as this machine.
type Link struct {
	RTT    time.Duration // added to a round trip, half of it each way
	Jitter time.Duration // a round trip takes up to this much more or less; packets stay in order
	Loss   float64       // 0 to 1: the share of packets that are lost, each way
	Rate   int64         // bytes a second, each way; 0: no bound
}

const (
	defaultHosts = 3
	defaultRTT   = 12 * time.Millisecond
	mostZones    = 14
	mostHosts    = 200 // of a zone
)

// World is a set of hosts. Its methods end the test if they can't do what they say; they are safe for concurrent use where they name
// different hosts.
type World struct {
	t      testing.TB
	number int    // of its addresses; no two worlds have the same
	mark   string // in the names of its folders and groups
	dir    string
	tree   groups
	zones  []*zone
	hosts  []*Host
	ways   map[[2]string]*way // from zone → to zone
}

// New makes a world and boots all hosts. It is removed when the test ends. Who is not root skips the test.
func New(t testing.TB, cfg Config) *World {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("hosts are namespaces with interfaces: this needs root")
	}
	if !ready {
		t.Fatal("call world.Main from TestMain: the first process of each host is the test binary")
	}
	sweep(t)
	w := &World{t: t, ways: map[[2]string]*way{}}
	t.Cleanup(w.remove)
	w.must("make a world", w.make(cfg))
	return w
}

func (w *World) make(cfg Config) error {
	if len(cfg.Zones) == 0 {
		cfg.Zones = []Zone{{Name: "a"}, {Name: "b"}}
		if cfg.Link == (Link{}) {
			cfg.Link.RTT = defaultRTT
		}
	}
	if len(cfg.Zones) > mostZones {
		return fmt.Errorf("%d zones; at most %d are possible", len(cfg.Zones), mostZones)
	}
	born, err := bornAt(os.Getpid())
	if err != nil {
		return err
	}
	w.mark = fmt.Sprintf("%s%d-%s", markPrefix, os.Getpid(), born)
	if w.dir, err = os.MkdirTemp("", w.mark+"-"); err != nil {
		return err
	}
	if w.tree, err = findGroups(filepath.Base(w.dir)); err != nil {
		return err
	}
	if err := w.makeZones(cfg); err != nil {
		return err
	}
	for _, z := range w.zones {
		for _, other := range w.zones {
			if z != other {
				way, err := connect(z, other, cfg.Link)
				if err != nil {
					return fmt.Errorf("from zone %s to zone %s: %w", z.name, other.name, err)
				}
				w.ways[[2]string{z.name, other.name}] = way
			}
		}
	}
	for _, way := range w.ways {
		way.run(w.ways[[2]string{way.to.name, way.from.name}].file)
	}
	return w.makeHosts(cfg)
}

// makeZones takes the first number whose addresses nobody uses.
func (w *World) makeZones(cfg Config) error {
	for number := range pools {
		first, err := newZone(number, 0, cfg.Zones[0].Name)
		if errors.Is(err, unix.EEXIST) {
			continue
		}
		if err != nil {
			return fmt.Errorf("zone %s: %w", cfg.Zones[0].Name, err)
		}
		w.number, w.zones = number, []*zone{first}
		for i, z := range cfg.Zones[1:] {
			next, err := newZone(number, i+1, z.Name)
			if err != nil {
				return fmt.Errorf("zone %s: %w", z.Name, err)
			}
			w.zones = append(w.zones, next)
		}
		return nil
	}
	return fmt.Errorf("%d worlds exist on this machine; no addresses are left", pools)
}

func (w *World) makeHosts(cfg Config) error {
	for i, z := range cfg.Zones {
		count := cmp.Or(z.Hosts, defaultHosts)
		if count > mostHosts {
			return fmt.Errorf("zone %s has %d hosts; at most %d are possible", z.Name, count, mostHosts)
		}
		for n := range count {
			w.hosts = append(w.hosts, &Host{w: w, name: z.Name + strconv.Itoa(n+1), zone: w.zones[i], number: n})
		}
	}
	for _, h := range w.hosts {
		if err := h.furnish(); err != nil {
			return fmt.Errorf("host %s: %w", h.name, err)
		}
		if err := h.boot(); err != nil {
			return fmt.Errorf("host %s: %w", h.name, err)
		}
	}
	return nil
}

// names is /etc/hosts of every host.
func (w *World) names() string {
	var out strings.Builder
	out.WriteString("127.0.0.1 localhost\n")
	for _, h := range w.hosts {
		fmt.Fprintf(&out, "%s %s\n", h.Addr(), h.name)
	}
	return out.String()
}

// Host finds a host by its name.
func (w *World) Host(name string) *Host {
	w.t.Helper()
	for _, h := range w.hosts {
		if h.name == name {
			return h
		}
	}
	w.t.Fatalf("there is no host %s", name)
	return nil
}

// Hosts are those of a zone; of all zones if it is "".
func (w *World) Hosts(zone string) []*Host {
	var out []*Host
	for _, h := range w.hosts {
		if zone == "" || h.zone.name == zone {
			out = append(out, h)
		}
	}
	return out
}

// Link changes the way between two zones, in both directions. A link with a loss of 1 is cut.
func (w *World) Link(a, b string, l Link) {
	w.t.Helper()
	w.OneWay(a, b, l)
	w.OneWay(b, a, l)
}

// OneWay changes the way from one zone to another alone.
func (w *World) OneWay(from, to string, l Link) {
	w.t.Helper()
	way := w.ways[[2]string{from, to}]
	if way == nil {
		w.t.Fatalf("there is no way from zone %s to zone %s", from, to)
	}
	w.must("change the way from "+from+" to "+to, way.set(l))
}

// Watch shows every packet between two zones, in both directions, as somebody on the line sees them, from now on. look is called by two goroutines and must not keep the packet.
func (w *World) Watch(a, b string, look func(packet []byte)) {
	w.t.Helper()
	for _, pair := range [][2]string{{a, b}, {b, a}} {
		way := w.ways[pair]
		if way == nil {
			w.t.Fatalf("there is no way from zone %s to zone %s", pair[0], pair[1])
		}
		way.watcher.Store(&look)
	}
}

// Machine is the address at which hosts of a zone reach the test itself.
func (w *World) Machine(zone string) netip.Addr {
	w.t.Helper()
	for _, z := range w.zones {
		if z.name == zone {
			return z.machine()
		}
	}
	w.t.Fatalf("there is no zone %s", zone)
	return netip.Addr{}
}

func (w *World) must(what string, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%s: %v", what, err)
	}
}

// remove takes everything away. It is safe for a world that is not whole.
func (w *World) remove() {
	var errs []error
	for _, h := range w.hosts {
		errs = append(errs, h.off())
	}
	for _, way := range w.ways {
		way.close()
	}
	for _, z := range w.zones {
		errs = append(errs, z.remove())
	}
	errs = append(errs, w.tree.remove())
	if w.dir != "" {
		errs = append(errs, os.RemoveAll(w.dir))
	}
	if err := errors.Join(errs...); err != nil {
		w.t.Errorf("something of the world is left: %v", err)
	}
}

// markPrefix begins the names of folders and control groups; the id and the start of their process follow.
const markPrefix = "fermi-world-"

// sweep removes what runs left that were killed. Their interfaces went with their processes; a frozen host, control groups and folders stay.
func sweep(t testing.TB) {
	t.Helper()
	if err := sweepGroups(isLeft); err != nil {
		t.Fatalf("remove the hosts of an earlier run: %v", err)
	}
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), markPrefix+"*"))
	for _, dir := range dirs {
		if isLeft(filepath.Base(dir)) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatalf("remove the folder of an earlier run: %v", err)
			}
		}
	}
}

// isLeft says that the process in a name is gone.
func isLeft(name string) bool {
	rest, ours := strings.CutPrefix(name, markPrefix)
	parts := strings.Split(rest, "-")
	if !ours || len(parts) != 3 {
		return false
	}
	pid, err := strconv.Atoi(parts[0])
	if err != nil {
		return false
	}
	born, err := bornAt(pid)
	return err != nil || born != parts[1]
}

// bornAt tells processes with one id apart: when it started, in ticks since the boot.
func bornAt(pid int) (string, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return "", err
	}
	// The name, in brackets, may have anything in it.
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if len(fields) < 20 {
		return "", errors.New("stat is cut")
	}
	return fields[19], nil
}
