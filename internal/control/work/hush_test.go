package work

import (
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/hold"
	"github.com/fermi-cluster/fermi/internal/engine"
)

// mute makes the one member's launcher say nothing for so long.
func mute(d time.Duration) func(*Seen) {
	return func(s *Seen) {
		m := &s.Members[0]
		m.Silent, m.Attached, m.Devices = d, false, 0b100
		m.Node.Meta.Name = "n1"
	}
}

// given makes it one that was given up.
func given(reason string) func(*Seen) {
	return func(s *Seen) {
		mute(0)(s)
		m := &s.Members[0]
		s.Given = []GivenUp{{m.Known, hold.Hold{Replica: string(first), Reason: reason, Released: reason == hold.Lost}}}
		m.Known.State, m.Known.Exit = engine.StateDone, &engine.Exit{Code: -1, Reason: reason}
	}
}

func pinned(s *Seen) { s.Pinned = true }

// TestSilence: who says nothing is told of, then given up with its devices closed, then left for another place. What has something of
// its own there is neither given up nor started elsewhere, until an operator says that it is gone.
func TestSilence(t *testing.T) {
	ran := Status{Phase: api.PhaseRunning, Reason: "Started", Attempt: 1, Zones: []string{"z"}}
	away := ran
	away.Reason = Unreachable
	for _, c := range []struct {
		name          string
		seen          *Seen
		was           Status
		phase         api.Phase
		reason        string
		fenced, leave bool
		wake          time.Duration
		ends          int
	}{
		{"a word is overdue", seen(engine.StateRunning, false, nil, mute(6*time.Second)), ran, api.PhaseRunning, "Started", false, false, 4 * time.Second, 0},
		{"hung up", seen(engine.StateRunning, false, nil, mute(0)), ran, api.PhaseRunning, "Started", false, false, 5 * time.Second, 0},
		{"silent", seen(engine.StateRunning, false, nil, mute(10*time.Second)), ran, api.PhaseRunning, Unreachable, false, false, 20 * time.Second, 0},
		{"heard again", seen(engine.StateRunning, true, nil), away, api.PhaseRunning, "Started", false, false, 0, 0},
		{"lost", seen(engine.StateRunning, false, nil, mute(30*time.Second)), away, api.PhaseRunning, Unreachable, true, false, 0, 0},
		{"given up", seen(engine.StateRunning, false, nil, given(hold.Silent)), away, api.PhasePending, "NodeLost", false, true, 0, 1},
		{"shall stop, silent", seen(engine.StateRunning, false, nil, mute(12*time.Second), stopped), ran, api.PhaseRunning, "Stopping", false, false, 18 * time.Second, 0},
		{"shall stop, lost", seen(engine.StateRunning, false, nil, mute(31*time.Second), stopped), ran, api.PhaseRunning, "Started", true, false, 0, 0},
		{"shall stop, given up", seen(engine.StateRunning, false, nil, given(hold.Silent), stopped), ran, api.PhaseStopped, "Stopped", false, true, 0, 1},
		{"a home, silent", seen(engine.StateRunning, false, nil, mute(time.Hour), pinned), ran, api.PhaseRunning, Unreachable, false, false, 5 * time.Second, 0},
		{"a home, shall stop", seen(engine.StateRunning, false, nil, mute(time.Hour), pinned, stopped), ran, api.PhaseRunning, Unreachable, false, false, 5 * time.Second, 0},
		{"a home, heard again", seen(engine.StateRunning, true, nil, pinned), away, api.PhaseRunning, "Started", false, false, 0, 0},
		{"a home, its node is gone", seen(engine.StateRunning, false, nil, given(hold.Lost), pinned), away, api.PhaseFailed, "NodeLost", false, true, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, p, _ := Steady(c.seen, &c.was, &api.RestartPolicy{MaxRestarts: 3}, now)
			if status.Phase != c.phase || status.Reason != c.reason || (len(p.Fence) == 1) != c.fenced || p.Leave != c.leave || p.Wake != c.wake || len(p.End) != c.ends {
				t.Errorf("%s, %s: %+v", status.Phase, status.Reason, p)
			}
			if c.fenced {
				if g := p.Fence[0]; g.Node != "n1" || g.Hold.Replica != string(first) || g.Hold.Reason != hold.Silent || len(g.Hold.Devices) != 1 || g.Hold.Devices[0] != 2 || !p.Usage {
					t.Errorf("%+v", g)
				}
			}
			if c.reason == Unreachable && c.was.Reason != Unreachable && (!strings.Contains(status.Message.EN, "n1 is silent since 08:") && !strings.Contains(status.Message.EN, "n1 is silent since 07:")) {
				t.Error(status.Message)
			}
			if len(p.Start)+len(p.Remove) > 0 || len(status.Restarts) > 0 {
				t.Errorf("%+v, %+v", p, status)
			}
		})
	}
}
