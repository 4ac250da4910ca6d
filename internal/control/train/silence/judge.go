package silence

import (
	"slices"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link/hearing"
)

const (
	// After is how long a launcher says nothing until it is silent.
	After = hearing.SilentAfter
	// LostAfter is how long it is silent until it is lost.
	LostAfter = hearing.LostAfter
)

// Verdict is what silence was found to be.
type Verdict struct {
	Told  []engine.Name // silent: people shall know
	Gone  []engine.Name // given up now
	Spare bool          // somebody waits to take their place: they are replaced, and not called lost
	Wait  time.Duration // when to look again; 0: nothing is awaited
}

// Judge says what to do about the launchers of a unit that say nothing. phase is the task's as it will be.
func Judge(g *gang.Gang, u *gang.Unit, phase api.Phase) Verdict {
	silent := quiet(g, u.Members)
	v := told(g, silent)
	if len(v.Told) == 0 {
		return v
	}
	still, known := stands(g, u, phase)
	if known && !still {
		v.Wait = 0 // the others tell when they stand still
		return v
	}
	if still && waits(g, u, len(v.Told)) {
		v.Gone, v.Spare = v.Told, true
		return v
	}
	v.Gone, v.Wait = lost(g, silent)
	return v
}

// Aside judges the launchers that have no rank: spares, newcomers, and replicas that shall end. Nobody's steps wait for them.
func Aside(g *gang.Gang) Verdict {
	var names []engine.Name
	for _, l := range []gang.Members{g.Joining, g.Spares, g.Surplus} {
		names = append(names, quiet(g, l)...)
	}
	for _, o := range g.Others {
		if g.Silence[o.Name] > 0 && !slices.Contains(names, o.Name) {
			names = append(names, o.Name)
		}
	}
	return both(g, names)
}

// Leaving judges the launchers of a task all of which shall end.
func Leaving(g *gang.Gang) Verdict {
	v := Aside(g)
	own := both(g, quiet(g, g.Members))
	v.Told, v.Gone, v.Wait = append(v.Told, own.Told...), append(v.Gone, own.Gone...), sooner(v.Wait, own.Wait)
	return v
}

func both(g *gang.Gang, names []engine.Name) Verdict {
	v := told(g, names)
	if len(v.Told) > 0 {
		v.Gone, v.Wait = lost(g, names)
	}
	return v
}

// quiet are the members that say nothing, by name.
func quiet(g *gang.Gang, l gang.Members) (out []engine.Name) {
	if len(g.Silence) == 0 {
		return nil
	}
	for i := range l {
		if m := &l[i]; !m.Ended() && g.Silence[m.Name] > 0 {
			out = append(out, m.Name)
		}
	}
	slices.SortFunc(out, func(a, b engine.Name) int { return strings.Compare(string(a), string(b)) })
	return out
}

// told are those that are silent, and when the next is.
func told(g *gang.Gang, names []engine.Name) (v Verdict) {
	for _, name := range names {
		if left := After - g.Silence[name]; left > 0 {
			v.Wait = sooner(v.Wait, left)
		} else {
			v.Told = append(v.Told, name)
		}
	}
	return v
}

// lost are those that are, and when the next is.
func lost(g *gang.Gang, names []engine.Name) (gone []engine.Name, wait time.Duration) {
	for _, name := range names {
		if left := LostAfter - g.Silence[name]; left > 0 {
			wait = sooner(wait, left)
		} else {
			gone = append(gone, name)
		}
	}
	return gone, wait
}

func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// stands says that those who speak stand still: they all see it, one of them failed, or they don't run. known is false where
// nobody who speaks tells of progress.
func stands(g *gang.Gang, u *gang.Unit, phase api.Phase) (still, known bool) {
	if phase != api.PhaseRunning || u.Rendezvous == nil {
		return true, true
	}
	watched, hung := 0, 0
	for i := range u.Members {
		m := &u.Members[i]
		if m.Ended() || !m.Attached || g.Silence[m.Name] > 0 {
			continue
		}
		switch ours := m.Said.Generation == int64(u.Generation); {
		case ours && m.Said.Failed != nil:
			return true, true
		case ours && m.Said.Watched:
			watched++
			if len(m.Said.Hung) > 0 {
				hung++
			}
		}
	}
	return watched > 0 && hung == watched, watched > 0
}

// waits says that each of so many silent ones could be replaced at once: by a spare, or by a newcomer whom peers hand the state.
func waits(g *gang.Gang, u *gang.Unit, silent int) bool {
	if u.Rendezvous == nil || u.Rendezvous.Below == nil || g.Leaves() {
		return false
	}
	if g.Reserves() {
		on := map[uint32]bool{}
		for i := range u.Members {
			on[u.Members[i].Number] = on[u.Members[i].Number] || g.Silence[u.Members[i].Name] >= After
		}
		ready := 0
		for i := range g.Spares {
			if m := &g.Spares[i]; m.Ready() && g.Silence[m.Name] == 0 && !on[m.Number] {
				ready++
			}
		}
		return ready >= silent
	}
	return g.Peered() && heard(g, u.Members).Covered(u.World) > 0
}

// heard are the members with those that say nothing taken for gone.
func heard(g *gang.Gang, l gang.Members) gang.Members {
	out := slices.Clone(l)
	for i := range out {
		out[i].Attached = out[i].Attached && g.Silence[out[i].Name] == 0
	}
	return out
}
