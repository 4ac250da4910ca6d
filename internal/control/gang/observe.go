package gang

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/recipe"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Hub is what is known of launchers.
type Hub interface {
	// Attached says whether the replica's launcher is connected.
	Attached(name engine.Name) bool
	// Ranks is what the launcher told last about its ranks.
	Ranks(name engine.Name) (link.Ranks, bool)
	// Silence is how long a launcher has said nothing that it should have said, in time in which somebody listened; known is
	// false where it never said anything.
	Silence(name engine.Name) (silent time.Duration, known bool)
}

// Engine is what is known of replicas.
type Engine interface {
	// Replicas are those of a task, and of all tasks for "".
	Replicas(taskID string) []engine.Observation
}

// Observer looks at gangs. Safe for concurrent use.
type Observer struct {
	store  store.Reader
	engine Engine
	hub    Hub
	avoid  func(task *api.TrainingTask, m *Member) bool
	peaks  Peaks

	mu    sync.Mutex
	nodes map[uint32]*api.Node // by number; what it points at never changes
	named map[string]*api.Node
}

// NewObserver makes an observer that knows no nodes yet. avoid says where a lost member shall not be replaced if there is a choice.
func NewObserver(s store.Reader, e Engine, h Hub, avoid func(task *api.TrainingTask, m *Member) bool) *Observer {
	return &Observer{store: s, engine: e, hub: h, avoid: avoid, peaks: LoadPeaks(), nodes: map[uint32]*api.Node{}, named: map[string]*api.Node{}}
}

// Note files a node as it is now.
func (o *Observer) Note(n *api.Node) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.nodes[n.Spec.Number], o.named[n.Meta.Name] = n, n
}

// nodeNamed is the one of a name; nil: it is not known.
func (o *Observer) nodeNamed(name string) *api.Node {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.named[name]
}

// Node is the one of a number; nil: it is not known.
func (o *Observer) Node(number uint32) *api.Node {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.nodes[number]
}

// Look gathers what is known of a task's replicas: the store at one revision, then the engine and the link.
func (o *Observer) Look(ctx context.Context, key api.Key) (Gang, error) {
	object, err := o.store.Get(ctx, key, 0)
	if err != nil {
		return Gang{}, err
	}
	g := Gang{Terms: Terms{Task: object.(*api.TrainingTask)}}
	if po, err := o.store.Get(ctx, api.PlaceKey(key.Project, g.Task.Meta.ID), 0); err == nil {
		g.Placement = po.(*api.Placement)
	} else if !fault.Is(err, fault.NotFound) {
		return Gang{}, err
	}
	replicas := o.engine.Replicas(g.Task.Meta.ID)
	known := make(map[engine.Name]engine.Observation, len(replicas))
	for _, ob := range replicas {
		known[ob.Name] = o.heed(&g, ob)
	}
	o.muster(&g, known)
	for _, ob := range known {
		if _, fenced := g.Fenced[ob.Name]; !fenced {
			g.Others = append(g.Others, ob)
		}
	}
	slices.SortFunc(g.Others, func(a, b engine.Observation) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return g, nil
}

// muster sorts the replicas of the placement: who takes part, who is about to join, who goes. It takes who takes part out of known.
func (o *Observer) muster(g *Gang, known map[engine.Name]engine.Observation) {
	if g.Placement != nil {
		spec := &g.Placement.Spec
		roles := spec.Roles
		if spec.Shrink != nil {
			roles = spec.Shrink.Keep
			stay := Spots(roles)
			g.Surplus = slices.DeleteFunc(o.members(g.Terms, spec.Roles, maps.Clone(known)), func(m Member) bool { return stay[m.Spot()] })
		}
		g.Members = o.members(g.Terms, roles, known)
		g.Admit(func(m *Member) bool { return o.avoid(g.Task, m) })
	}
	g.Rank()
}

// members lists the replicas the current attempt must have, and takes them out of known.
func (o *Observer) members(t Terms, roles []api.RoleAssignment, known map[engine.Name]engine.Observation) Members {
	total := 0
	for i := range roles {
		total += len(roles[i].Slots)
	}
	out := make(Members, 0, total)
	for _, role := range roles {
		for i, slot := range role.Slots {
			index, attempt := role.Index(i), t.Task.Status.AttemptOf(role.Role)
			out = append(out, Member{
				Name: engine.NameOf(t.Task.Meta.ID, role.Role, index, attempt), Role: role.Role, Index: index, Attempt: attempt,
				Stand: Stand{Number: slot.Node, Devices: slot.Devices}, Ranking: Ranking{Ranks: t.RanksAt(role.Role, slot, recipe.Started)},
				Lender: t.lender(index),
			})
			m := &out[len(out)-1]
			if n := o.Node(slot.Node); n != nil {
				m.Stand = standOn(n, slot, o.peaks)
			}
			if ob, ok := known[m.Name]; ok {
				m.State, m.Exit, m.Observed = ob.State, ob.Exit, ob
				delete(known, m.Name)
			}
			m.Attached = o.hub.Attached(m.Name)
			m.Said, _ = o.hub.Ranks(m.Name)
			if m.Exit != nil && (m.Exit.Reason == engine.ReasonSilent || m.Exit.Reason == engine.ReasonNodeLost) {
				m.Attached = false // whatever it says by now, it was given up
			}
		}
	}
	return out
}

// Fill learns of all nodes there are. Whoever looks calls it first, and Note for what changes later.
func (o *Observer) Fill(ctx context.Context) error {
	snap, err := o.store.List(ctx, api.KindNode, "", 0)
	if err != nil {
		return err
	}
	snap.Ascend("", func(n api.Object) bool {
		o.Note(n.(*api.Node))
		return true
	})
	return nil
}
