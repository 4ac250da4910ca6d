package engine

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// Board keeps the newest of what an engine knows and tells feeds of changes: what Replica, Replicas, Nodes and Watch
// of an Adapter need. The zero Board is not usable; make one with NewBoard. Safe for concurrent use.
type Board struct {
	mu       sync.Mutex
	replicas map[Name]Observation
	byTask   map[string]map[Name]bool
	byNode   map[string]map[Name]bool
	nodes    map[string]api.Node
	whole    bool
	feeds    map[*Feed]bool
}

// NewBoard makes an empty one.
func NewBoard() *Board {
	return &Board{replicas: map[Name]Observation{}, byTask: map[string]map[Name]bool{}, byNode: map[string]map[Name]bool{}, nodes: map[string]api.Node{}, feeds: map[*Feed]bool{}}
}

// Put takes down what was seen of a replica. A state never goes back: what is older is dropped.
func (b *Board) Put(o Observation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old, known := b.replicas[o.Name]
	if known && Order(o.State) < Order(old.State) {
		return
	}
	if known {
		b.unlist(old) // its task and node may have become known since
	}
	b.replicas[o.Name] = o
	list(b.byTask, o.TaskID, o.Name)
	list(b.byNode, o.Node, o.Name)
	if !known || news(old, o) {
		b.tell(Change{Replica: &o})
	}
}

func list(index map[string]map[Name]bool, at string, name Name) {
	if index[at] == nil {
		index[at] = map[Name]bool{}
	}
	index[at][name] = true
}

func (b *Board) unlist(o Observation) {
	take := func(index map[string]map[Name]bool, at string) {
		delete(index[at], o.Name)
		if len(index[at]) == 0 {
			delete(index, at)
		}
	}
	take(b.byTask, o.TaskID)
	take(b.byNode, o.Node)
}

// news says whether a change of an observation is told. The first record of a launcher is none: it says so itself, over the link.
func news(old, now Observation) bool {
	other := old.Launched && now.Version != old.Version // one took another's place
	return now.State != old.State || !now.Started.Equal(old.Started) || other || now.Ready != old.Ready ||
		now.Address != old.Address || now.LauncherAddress != old.LauncherAddress
}

// Drop forgets a replica that was removed. One that is not known is fine.
func (b *Board) Drop(name Name) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o, ok := b.replicas[name]
	if !ok {
		return
	}
	delete(b.replicas, name)
	b.unlist(o)
	b.tell(Change{Replica: &o, Gone: true})
}

// Report takes down all nodes of the engine. Those that it does not name are gone.
func (b *Board) Report(list []api.Node) {
	b.mu.Lock()
	defer b.mu.Unlock()
	gone := b.nodes
	b.nodes, b.whole = make(map[string]api.Node, len(list)), true
	for _, n := range list {
		b.nodes[n.Meta.Name] = n
		old, known := gone[n.Meta.Name]
		delete(gone, n.Meta.Name)
		if !known || !reflect.DeepEqual(old, n) {
			b.tell(Change{Node: &n})
		}
	}
	for _, n := range sorted(gone) {
		b.tell(Change{Node: &n, Gone: true})
	}
}

// ReportOne takes down one node that changed or was not known.
func (b *Board) ReportOne(n api.Node) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old, known := b.nodes[n.Meta.Name]
	b.nodes[n.Meta.Name] = n
	if !known || !reflect.DeepEqual(old, n) {
		b.tell(Change{Node: &n})
	}
}

// Replica is what is known of one; false: nothing.
func (b *Board) Replica(name Name) (Observation, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o, ok := b.replicas[name]
	return o, ok
}

// Replicas lists what is known of a task's replicas; "" is all tasks.
func (b *Board) Replicas(taskID string) []Observation {
	b.mu.Lock()
	var out []Observation
	if taskID == "" {
		out = make([]Observation, 0, len(b.replicas))
		for _, o := range b.replicas {
			out = append(out, o)
		}
	} else {
		out = make([]Observation, 0, len(b.byTask[taskID]))
		for name := range b.byTask[taskID] {
			out = append(out, b.replicas[name])
		}
	}
	b.mu.Unlock()
	slices.SortFunc(out, func(x, y Observation) int { return strings.Compare(string(x.Name), string(y.Name)) })
	return out
}

// On names the replicas that are known to be on a node.
func (b *Board) On(node string) []Name {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.byNode[node]))
}

// Nodes lists the nodes that were reported; false: not all were.
func (b *Board) Nodes() ([]api.Node, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return sorted(b.nodes), b.whole
}

func sorted(nodes map[string]api.Node) []api.Node {
	out := make([]api.Node, 0, len(nodes))
	for _, n := range nodes {
		out = append(out, n)
	}
	slices.SortFunc(out, func(x, y api.Node) int { return strings.Compare(x.Meta.Name, y.Meta.Name) })
	return out
}

// Watch tells the feed all that is known now, then every change.
func (b *Board) Watch(f *Feed) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !f.join(b) {
		return
	}
	b.feeds[f] = true
	for _, n := range sorted(b.nodes) {
		f.put(Change{Node: &n})
	}
	for _, name := range slices.Sorted(maps.Keys(b.replicas)) {
		o := b.replicas[name]
		f.put(Change{Replica: &o})
	}
}

func (b *Board) leave(f *Feed) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.feeds, f)
}

// tell is for holders of the lock: what is told is in order.
func (b *Board) tell(ch Change) {
	for f := range b.feeds {
		f.put(ch)
	}
}

// Order is a state's place among the states; below 0: it is none.
func Order(s State) int {
	return slices.Index([]State{StateCreated, StateRunning, StateExited, StateDone}, s)
}
