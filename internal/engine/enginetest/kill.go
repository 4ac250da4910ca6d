package enginetest

import (
	"context"
	"fmt"
	"testing"

	"github.com/fermi-cluster/fermi/internal/engine"
)

// story is three replicas: one is stopped, one ends by itself, one runs on.
type story struct {
	site                    Site
	stopped, ending, onward engine.Replica
}

// step is a call, or what happens on the machines between two calls.
type step struct {
	name string
	call func(ctx context.Context, o Orders) error
	// of is the replica that the next leader orders the same of; "": it does not repeat the step.
	of     engine.Name
	ends   bool        // repeated also of one that may be gone: a stop that its owner wrote down ends nothing under the next epoch
	before engine.Name // it must be done before the step is taken; "": none
	happen func(t *testing.T)
}

func (y *story) steps() []step {
	start := func(r engine.Replica) step {
		return step{name: "start " + string(r.Name), of: r.Name, call: func(ctx context.Context, o Orders) error { return o.Start(ctx, r) }}
	}
	remove := func(r engine.Replica) step {
		return step{name: "remove " + string(r.Name), before: r.Name, call: func(ctx context.Context, o Orders) error { return o.Remove(ctx, r.Name) }}
	}
	return []step{
		start(y.stopped), start(y.ending), start(y.onward),
		{name: "stop", of: y.stopped.Name, ends: true, call: func(ctx context.Context, o Orders) error { return o.Stop(ctx, y.stopped.Name, 0) }},
		{name: "it ends", happen: func(t *testing.T) { y.site.End(t, y.ending.Name) }},
		remove(y.stopped), remove(y.ending),
	}
}

// kills: whenever the engine's owner is killed, before a call, after it or in the middle of it, the next one goes on from there: no
// replica is lost and none is started twice.
func kills(t *testing.T, site func(t *testing.T) Site) {
	const steps = 7
	for at := range steps + 1 {
		for _, within := range []bool{false, true} {
			if within && at == steps {
				continue
			}
			t.Run(fmt.Sprintf("step %d, in its middle %v", at, within), func(t *testing.T) {
				s := site(t)
				y := &story{s, replica(s, 0, false), replica(s, 0, false), replica(s, 0, false)}
				y.interrupted(t, at, within)
			})
		}
	}
}

func (y *story) interrupted(t *testing.T, at int, within bool) {
	list := y.steps()
	o, kill := y.site.Owner(t, 1)
	defer kill()
	seen, closeSeen := y.site.Open(t, 1) // another server of the same epoch looks on, so that the test can wait
	for _, s := range list[:at] {
		y.take(t, s, o, seen)
	}
	closeSeen()
	if within {
		if s := list[at]; s.call != nil {
			begun, ended := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(ended)
				close(begun)
				_ = s.call(context.WithoutCancel(t.Context()), o)
			}()
			<-begun
			kill()
			<-ended
		}
	}
	kill()
	e, close := y.site.Open(t, 2)
	defer close()
	removed := map[engine.Name]bool{}
	for _, s := range list[:min(at+1, len(list))] { // or perhaps
		removed[s.before] = true
	}
	for _, s := range list[:at] { // a leader repeats what it wants of those that are there
		if s.of != "" && (s.ends || !removed[s.of]) {
			y.take(t, s, e, e)
		}
	}
	for _, s := range list[at:] {
		y.take(t, s, e, e)
	}
	await(t, e, y.onward.Name, engine.StateRunning)
	feed := watch(t, e)
	feed.read()
	if all := e.Replicas(""); len(all) != 1 || all[0].Name != y.onward.Name || len(feed.replicas) != 1 {
		t.Errorf("left: %+v, told of %+v", all, feed.replicas)
	}
	if y.site.Starts(y.stopped.Name) > 1 || y.site.Starts(y.ending.Name) != 1 || y.site.Starts(y.onward.Name) != 1 {
		t.Error("started:", y.site.Starts(y.stopped.Name), y.site.Starts(y.ending.Name), y.site.Starts(y.onward.Name))
	}
	stopAll(t, e)
}

// take is one step, when what it needs is so.
func (y *story) take(t *testing.T, s step, o Orders, seen engine.Adapter) {
	t.Helper()
	if s.happen != nil {
		await(t, seen, y.ending.Name, engine.StateRunning)
		s.happen(t)
		return
	}
	if s.before != "" {
		eventually(t, string(s.before)+" is done", func() bool {
			if p, ok := seen.(engine.Prompted); ok {
				p.Poke(s.before)
			}
			now, known := seen.Replica(s.before)
			return !known || now.State == engine.StateDone
		})
	}
	eventually(t, s.name, func() bool { // a server that looks on may have to catch up first
		err := s.call(t.Context(), o)
		if err != nil {
			t.Log(s.name, err)
		}
		return err == nil
	})
}
