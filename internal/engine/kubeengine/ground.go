package kubeengine

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// ground is the nodes of a cluster, what others use there, and what of theirs our replicas have; it tells the board what changes. Safe for concurrent use; it
// calls nobody but the board.
type ground struct {
	cluster *Cluster
	table   []Resource
	clock   clock.Clock
	board   *engine.Board
	last    func() []api.Node // as they were written down last; nil: nobody knows

	mu    sync.Mutex
	nodes map[string]*corev1.Node // by the cluster's name
	names map[string]string       // the cluster's name of a node, by ours
	held  map[string]map[engine.Name]uint64
	// claims are devices of nodes that are there to be claimed, in words.
	claims map[string]string
	strangers
	news
	// turned are nodes that did not admit a pod of ours lately: there is less room than is known, and they are left alone for a while.
	turned map[string]refusal
}

// strangers are pods that are not ours.
type strangers struct {
	others map[types.UID]other
	used   map[string]*use // what they use, by node
}

// forget gives the node of one that is gone; "": it was not known.
func (s *strangers) forget(uid types.UID) string {
	old, ok := s.others[uid]
	if !ok {
		return ""
	}
	s.used[old.node].add(old.use, -1)
	delete(s.others, uid)
	return old.node
}

func (s *strangers) note(uid types.UID, now other) {
	s.others[uid] = now
	if s.used[now.node] == nil {
		s.used[now.node] = &use{}
	}
	s.used[now.node].add(now.use, 1)
}

// news is what is to be told of nodes.
type news struct {
	wake   chan struct{}       // has one while dirty or fewer
	whole  bool                // all lists are there
	dirty  map[string]bool     // nodes to be told of
	fewer  bool                // one is gone
	hidden bool                // they are told as out of reach
	told   map[string]api.Node // as they were told last, by our name
}

func (n *news) mark(node string) {
	n.dirty[node] = true
	n.ring()
}

func (n *news) ring() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// refusal is a kubelet's.
type refusal struct {
	at  time.Time
	why fault.Text
}

// turnedFor is how long a node that refused a pod gets none.
const turnedFor = 30 * time.Second

// other is a pod that is not ours, on a node.
type other struct {
	node string
	use  use
}

func newGround(cfg Config, board *engine.Board) *ground {
	return &ground{
		cluster: cfg.Cluster, table: table(cfg.Resources), clock: cfg.Clock, board: board, last: cfg.Last,
		nodes: map[string]*corev1.Node{}, names: map[string]string{}, held: map[string]map[engine.Name]uint64{}, turned: map[string]refusal{},
		strangers: strangers{map[types.UID]other{}, map[string]*use{}},
		news:      news{wake: make(chan struct{}, 1), dirty: map[string]bool{}, told: map[string]api.Node{}},
	}
}

func (g *ground) sawNode(n *corev1.Node) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.nodes[n.Name] = n
	g.names[nodeNameOf(g.cluster.Zone, n.Name)] = n.Name
	g.mark(n.Name)
}

func (g *ground) lostNode(n *corev1.Node) {
	if n == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.nodes, n.Name)
	delete(g.names, nodeNameOf(g.cluster.Zone, n.Name))
	g.fewer = true
	g.ring()
}

func (g *ground) sawOther(p *corev1.Pod) {
	now := other{p.Spec.NodeName, requests(p, g.table)}
	g.mu.Lock()
	defer g.mu.Unlock()
	if was := g.forget(p.UID); was != "" {
		g.mark(was)
	}
	g.note(p.UID, now)
	g.mark(now.node)
}

func (g *ground) lostOther(p *corev1.Pod) {
	if p == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if was := g.forget(p.UID); was != "" {
		g.mark(was)
	}
}

// node is one as it was seen last, by our name; ok is false where none was.
func (g *ground) node(name string) (theirs string, at *corev1.Node, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	theirs, ok = g.names[name]
	return theirs, g.nodes[theirs], ok
}

// reaching are those of a volume's rule, by our names.
func (g *ground) reaching(rule *corev1.NodeSelector) (out []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for name, n := range g.nodes {
		if reaches(rule, n) {
			out = append(out, nodeNameOf(g.cluster.Zone, name))
		}
	}
	return out
}

// turn notes that a node refused a pod.
func (g *ground) turn(node string, exit *engine.Exit) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if old, ok := g.turned[node]; ok && !exit.At.After(old.at) || g.clock.Now().Sub(exit.At) >= turnedFor {
		return
	}
	g.turned[node] = refusal{exit.At, fault.Unpack(exit.Message)}
	g.mark(node)
}

// claim notes which devices of nodes are there to be claimed.
func (g *ground) claim(now map[string]string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for node := range g.nodes {
		if g.claims[node] != now[node] {
			g.mark(node)
		}
	}
	g.claims = now
}

// reportClaims looks now and then for devices that can only be claimed. Who may not look, or has a cluster without such, is told nothing.
func (g *ground) reportClaims(ctx context.Context) {
	for ctx.Err() == nil {
		if now, err := g.cluster.claimed(ctx); err == nil {
			g.claim(now)
		}
		select {
		case <-ctx.Done():
		case <-g.clock.After(lookEvery):
		}
	}
}

// reopen takes nodes back whose refusal is a while ago.
func (g *ground) reopen(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for node, r := range g.turned {
		if now.Sub(r.at) >= turnedFor {
			delete(g.turned, node)
			g.mark(node)
		}
	}
}

// hold notes which devices a replica has.
func (g *ground) hold(node string, name engine.Name, mask uint64, lives bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.held[node][name]
	switch {
	case lives && mask != 0:
		if g.held[node] == nil {
			g.held[node] = map[engine.Name]uint64{}
		}
		g.held[node][name] = mask
	default:
		mask = 0
		delete(g.held[node], name)
	}
	if was != mask {
		g.mark(node)
	}
}

// adopt says that the lists are whole: all nodes are told at once. It gives how many there are.
func (g *ground) adopt() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.whole, g.hidden, g.fewer = true, false, true
	g.ring()
	return len(g.nodes)
}

// reportNodes tells what changes.
func (g *ground) reportNodes(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.wake:
		}
		g.tellNodes()
	}
}

func (g *ground) tellNodes() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.hidden || !g.whole {
		return // told when it is over
	}
	all := g.fewer
	for node := range g.dirty {
		n := g.nodes[node]
		if n == nil {
			continue
		}
		now := g.reportOf(n)
		if _, known := g.told[now.Meta.Name]; !known {
			all = true
		}
		g.told[now.Meta.Name] = now
		if !all {
			g.board.ReportOne(now)
		}
	}
	clear(g.dirty)
	if !all {
		return
	}
	g.fewer = false
	told := map[string]api.Node{}
	for _, n := range g.nodes {
		now := g.reportOf(n)
		told[now.Meta.Name] = now
	}
	g.told = told
	list := make([]api.Node, 0, len(told))
	for _, name := range slices.Sorted(maps.Keys(told)) {
		list = append(list, told[name])
	}
	g.board.Report(list)
}

// reportOf is a node as it is now, mu held.
func (g *ground) reportOf(n *corev1.Node) api.Node {
	var held uint64
	for _, mask := range g.held[n.Name] {
		held |= mask
	}
	var others use
	if u := g.used[n.Name]; u != nil {
		others = *u
	}
	out := report(g.cluster.Zone, n, others, held, g.table)
	if why := unused(len(out.Spec.Devices), g.claims[n.Name]); out.Status.Ready && why != (fault.Text{}) {
		out.Status.Reason, out.Status.Message = engine.DevicesUnused, why
	}
	if r, ok := g.turned[n.Name]; ok && out.Status.Ready {
		out.Status.Ready, out.Status.Reason, out.Status.Message = false, engine.ReasonRefused, r.why
	}
	return out
}

// hide tells that the nodes can't be reached; show that they can.
func (g *ground) hide() {
	why := fault.T("Its cluster does not answer.", "所在集群没有响应。")
	if f := g.cluster.Trouble(); f != nil {
		why = f.Message
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.told) == 0 && g.last != nil {
		for _, n := range g.last() {
			g.told[n.Meta.Name] = n
		}
	}
	if len(g.told) > 0 {
		g.board.Report(unreachable(g.told, why))
	}
	g.hidden = true
}

func (g *ground) show() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.hidden {
		g.hidden, g.fewer = false, true
		g.ring()
	}
}
