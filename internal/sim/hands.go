package sim

import (
	"context"
	"maps"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/fakeengine"
)

// hands is the engine port as a controller has it, and the machines behind it, on which the world plays what happens.
type hands struct {
	machines *fakeengine.World
	engine   engine.Engine
	feed     *engine.Feed
}

func newHands(now func() time.Time) hands {
	h := hands{machines: fakeengine.NewWorld(fakeengine.Config{Now: now}), feed: engine.NewFeed()}
	e := fakeengine.Open(h.machines, 1)
	e.Watch(h.feed)
	h.engine = e
	return h
}

// each calls do with the name of every replica of a job's placement.
func (l *life) each(do func(name engine.Name, role string, index int, at api.Slot)) {
	for i, slots := range l.at {
		role := l.job.Task.Spec.Roles[i].Name
		for k, slot := range slots {
			do(engine.NameOf(l.job.Task.Meta.ID, role, k, l.turn), role, k, slot)
		}
	}
}

// start has the engine start the replicas of a placement.
func (h *hands) start(l *life, nodes map[uint32]*api.Node) {
	l.each(func(name engine.Name, role string, index int, at api.Slot) {
		n := nodes[at.Node]
		must(h.engine.Start(context.Background(), engine.Replica{
			Name: name, TaskID: l.job.Task.Meta.ID, Role: role, Index: index, Attempt: l.turn, Zone: n.Spec.Zone, Node: n.Meta.Name,
		}))
	})
}

// clear ends and removes the replicas of a placement; those that have ended are removed.
func (h *hands) clear(l *life) {
	l.each(func(name engine.Name, _ string, _ int, _ api.Slot) {
		must(h.engine.Stop(context.Background(), name, 0))
		must(h.engine.Remove(context.Background(), name))
	})
}

// exit is what happens on the machines: the processes of a job end.
func (h *hands) exit(l *life, reason string) {
	l.each(func(name engine.Name, _ string, _ int, _ api.Slot) { h.machines.End(name, engine.Exit{Reason: reason}) })
}

// must is for calls that an engine in memory refuses only by mistake.
func must(err error) {
	if err != nil {
		panic("sim: the engine refuses: " + err.Error())
	}
}

// look takes what the engine says, as a controller does: nodes go to the planner; a job whose replicas ended is through, goes on
// without them or waits again.
func (w *world) look() {
	numbers := map[string]uint32{} // of nodes that changed
	ended := map[string]engine.Observation{}
	for _, ch := range w.hands.feed.Take() {
		switch o := ch.Replica; {
		case ch.Node != nil:
			w.nodes[ch.Node.Spec.Number] = ch.Node
			numbers[ch.Node.Meta.Name] = ch.Node.Spec.Number
			w.planner.Node(ch.Node)
		case !ch.Gone && o.Exit != nil:
			ended[o.TaskID] = *o
		}
	}
	for _, id := range slices.Sorted(maps.Keys(ended)) {
		l, o := w.jobs[id], ended[id]
		if o.Exit.Reason == engine.ReasonSucceeded {
			w.end(l)
			continue
		}
		if o.Exit.Reason == engine.ReasonLauncherLost { // with its node
			if at, ok := l.without(numbers[o.Node]); ok {
				w.shrink(l, at, true)
				continue
			}
		}
		w.unplace(l, true)
	}
}
