package sched

import (
	"maps"
	"slices"
	"strconv"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/spot"
	"github.com/fermi-cluster/fermi/api/v1/where"
	"github.com/fermi-cluster/fermi/sched/cache"
	"github.com/fermi-cluster/fermi/sched/gang"
	"github.com/fermi-cluster/fermi/sched/site"
)

// What there is, and what is asked for.
type (
	Node     = site.Node
	Sort     = site.Sort
	Zone     = site.Zone
	Host     = site.Host
	Need     = gang.Need
	Role     = gang.Role
	Topology = gang.Topology
	Datum    = gang.Datum
	// Assignment is where a gang stands.
	Assignment = gang.Assignment
)

// WholeDevice is a device's capacity in thousandths.
const WholeDevice = gang.WholeDevice

// Workload is a gang: all of its roles at once or nothing.
type Workload struct {
	ID       string // sorts by age
	Queue    string
	Priority int
	Roles    []Role
	Allow    []string // zones; empty is all
	Deny     []string

	User, Name string // who asked, and what its repetitions share: expected times are learned by these
	Submitted  time.Time
	Expected   time.Duration // 0: unknown
	Deadline   time.Time     // zero: none
	// Defer lets it wait for the cheapest or the cleanest hours, see Window; it needs Expected.
	Defer api.Deferral
	Wish
	// Displaced says that it stood and an operator emptied its node: it goes before all others of its priority in its queue.
	Displaced bool

	Preemptible    bool
	LastCheckpoint time.Time
	RestartCost    time.Duration

	Topology Topology
	// Split says how many replicas may stand in each zone; they are dealt to the zones in order of name, roles in order.
	Split where.Split
	// MaxLatency bounds the round trip between any two zones of the gang; 0 is what synchronous
	// training bears, see distance.Far.
	MaxLatency time.Duration
	// OneRegion keeps all zones of the gang in one region.
	OneRegion bool
	// Survive lets the gang stand only so that the loss of any one zone leaves what keeps says of
	// each role. Such a gang has a fixed size.
	Survive bool
	Nodes
	// Data is what the gang reads; other zones than its own have to fetch it first.
	Data []Datum
}

// Running is a gang that stands.
type Running struct {
	Workload *Workload
	At       Assignment
	Since    time.Time
}

// Replicas counts the gang.
func (w *Workload) Replicas() int {
	n := 0
	for i := range w.Roles {
		n += w.Roles[i].Replicas
	}
	return n
}

// choices is the most of its roles.
func (w *Workload) choices() int {
	n := 1
	for i := range w.Roles {
		n = max(n, w.Roles[i].Need.Choices())
	}
	return n
}

// shape is the wish without queue and priority: equal shapes fit or fail together.
func (w *Workload) shape() string {
	b := make([]byte, 0, 128)
	number := func(n int64, end byte) { b = append(strconv.AppendInt(b, n, 10), end) }
	for i := range w.Roles {
		r := &w.Roles[i]
		number(int64(r.Replicas), '*')
		number(int64(r.Min), '-')
		number(int64(r.Max), ':')
		number(int64(r.Need.CPU), '/')
		number(int64(r.Need.Memory), '/')
		number(int64(r.Need.Disk), '/')
		number(int64(r.Need.Devices), '.')
		number(int64(r.Need.Part()), ' ')
		b = append(b, r.Need.Spot...)
		for k := range r.Need.Choices() {
			b = append(append(b, gang.Fold(r.Need.Choice(k))...), '|')
		}
		b = append(b, ';')
	}
	texts := func(mark byte, list []string) {
		for _, s := range list {
			b = strconv.AppendQuote(append(b, mark), s)
		}
	}
	texts('+', w.Allow)
	texts('-', w.Deny)
	for _, z := range sortedKeys(w.Split) {
		texts('s', []string{z})
		number(int64(w.Split[z].Least), '.')
		number(int64(w.Split[z].Most), ' ')
	}
	for _, d := range w.Data {
		number(int64(d.Bytes), 'd')
		texts('@', d.Zones)
	}
	for _, n := range w.Avoid {
		number(int64(n), '!')
	}
	if w.Only != "" {
		texts('=', []string{w.Only})
	}
	if w.OneRegion || w.Survive || w.Balance {
		b = strconv.AppendBool(append(b, 'r'), w.OneRegion)
		b = strconv.AppendBool(b, w.Survive)
		b = strconv.AppendBool(b, w.Balance)
	}
	if w.Topology != (Topology{}) || w.MaxLatency != 0 {
		b = strconv.AppendBool(append(b, 't'), w.Topology.Spread)
		number(int64(w.Topology.MaxPerRack), ' ')
		number(int64(w.MaxLatency), ' ')
	}
	return string(b)
}

// Wish is what counts for a workload beside having room.
type Wish struct {
	StartBy time.Time // no hours are waited for beyond this; zero: none
	// Weigh says what counts between zones that have room. The zero value is the price alone.
	Weigh where.Weights
	// Balance lets it stand where most room is left, within its split if it has one; where that can't be, elsewhere.
	Balance bool
	hours   *Window // set when they have come
}

// Nodes are which of the nodes a gang may use at all, and whether it keeps those it has.
type Nodes struct {
	Avoid []uint32 // none of these
	Only  string   // no other than this; "": any
	// Stay says that it is never moved so that others find room.
	Stay  bool
	Reads []cache.Version // a node that has them goes before those as good
}

// shuns says that a node is none that the gang may use, whatever is free there.
func (w *Workload) shuns(n *node) bool {
	return w.Only != "" && n.Name != w.Only || slices.Contains(w.Avoid, n.Number) || w.spot().Bars(n.Spot)
}

func (w *Workload) spot() spot.Rule { return gang.Spot(w.Roles) }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
