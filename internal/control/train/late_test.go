package train

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/control/train/blame"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/preflight"
)

func roomy(torch string) *preflight.Facts {
	return &preflight.Facts{Versions: map[string]string{"torch": torch}, FreeDisk: 1 << 40, SharedMemory: 1 << 34}
}

func sick() *preflight.Report {
	return &preflight.Report{Round: "late", Devices: preflight.Devices{Test: preflight.Computed, Faults: []preflight.DeviceFault{{Index: 3, Kind: preflight.DeviceWrong, Text: "x"}}}}
}

// checkedTask had its preflight, and found torch 2.1.0 everywhere.
func checkedTask(tk *api.TrainingTask, mode api.Preflight) *api.TrainingTask {
	tk.Spec.Preflight = mode
	tk.Status.Preflight = &api.PreflightStatus{StartedAt: now, FinishedAt: &now, Versions: map[string]string{"torch": "2.1.0"}}
	return tk
}

// examine is the launchers' part of the model: who has no rank yet has looked around, and who is asked computes; now and then
// a device is found wrong.
func (g *stage) examine(s snapshot, p plan) {
	if !g.late {
		return
	}
	for _, name := range sortedNames(g.world) {
		if m := g.world[name]; m.Said.Generation == 0 && m.Said.Port != 0 {
			m.Said.Facts = roomy("2.1.0")
		} else {
			m.Said.Facts, m.Said.Preflight = nil, nil // it has started
		}
	}
	all := s.Everybody()
	for _, i := range p.late {
		if m := g.world[all[i].Name]; m != nil && m.Said.Facts != nil {
			m.Said.Preflight = &preflight.Report{Round: s.LateRound(m)}
			if rapid.IntRange(0, 3).Draw(g.t, "unfit") == 0 {
				m.Said.Preflight = sick()
			}
		}
	}
}

// checkLate: nobody has a rank in a later generation who was not looked at, or was found unfit.
func (g *stage) checkLate(s snapshot, p plan) {
	if !g.late || p.status.Generation == g.tk.Status.Generation || g.tk.Status.Rendezvous == nil {
		return
	}
	for i := range s.Members {
		if m := &s.Members[i]; m.Unchecked || m.Unfit || m.Leaving {
			g.t.Fatalf("%s has a rank: %+v", m.Name, m)
		}
	}
}

// TestLateSpare: a spare that comes later is asked, and is ready once it is found well.
func TestLateSpare(t *testing.T) {
	for name, c := range map[string]struct {
		mode   api.Preflight
		facts  *preflight.Facts
		answer *preflight.Report
		late   bool
		state  api.SpareState
		left   []int
		event  string
	}{
		"not looked at": {api.PreflightWarn, roomy("2.1.0"), nil, true, api.SpareStarting, nil, ""},
		"well":          {api.PreflightWarn, roomy("2.1.0"), &preflight.Report{Round: "late"}, false, api.SpareWarm, nil, ""},
		"sick":          {api.PreflightWarn, roomy("2.1.0"), sick(), false, api.SpareStarting, []int{3}, "worker-3 is not used: Device 3 of node n3"},
		"other torch":   {api.PreflightWarn, roomy("1.13"), &preflight.Report{Round: "late"}, false, api.SpareWarm, nil, "worker-3 on node n3 has torch 1.13, the others have 2.1.0"},
		"and required":  {api.PreflightRequire, roomy("1.13"), &preflight.Report{Round: "late"}, false, api.SpareStarting, []int{3}, "worker-3 is not used: worker-3 on node n3 has torch 1.13"},
		"not wanted":    {api.PreflightOff, roomy("1.13"), nil, false, api.SpareWarm, nil, ""},
	} {
		g := watched(engine.StateRunning)
		checkedTask(g.tk, c.mode)
		m := g.worker(3)
		if m.Said.Facts, m.Said.Preflight = c.facts, c.answer; c.answer != nil && c.answer.Round == "late" {
			answer := *c.answer
			answer.Round = (&gang.Terms{Task: g.tk}).LateRound(m)
			m.Said.Preflight = &answer
		}
		p := g.step()
		if got := slices.Equal(p.late, []int{3}); got != c.late || p.status.Spares[0].State != c.state || !slices.Equal(p.status.Rendezvous.Left, c.left) || p.status.Generation != 1 {
			t.Errorf("%s: asked %v, %+v, left %v", name, p.late, p.status.Spares, p.status.Rendezvous.Left)
		}
		if (len(p.events) > 0) != (c.event != "") || c.event != "" && !strings.HasPrefix(p.events[0].Message.EN, c.event) {
			t.Errorf("%s: %+v", name, p.events)
		}
		if c.left == nil {
			continue
		}
		if p = g.step(); !slices.Equal(p.stop, []engine.Name{m.Name}) {
			t.Errorf("%s: it is not ended: %+v", name, p)
		}
		m.State, m.Exit = engine.StateExited, exit(engine.ReasonStopped, 143)
		g.step()
		if l := g.pl.Spec.Lost; l == nil || l.Roles["worker"] != 1 || !slices.Equal(l.Avoid, []uint32{5}) || len(g.pl.Spec.Roles[0].Slots) != 3 {
			t.Errorf("%s: no other node is looked for: %+v", name, g.pl.Spec)
		}
	}
}

// TestUnfitNewcomer: a task does not grow onto a node whose device computes wrongly; its slot is kept for a moment, and those
// that are well are not held up by it.
func TestUnfitNewcomer(t *testing.T) {
	look := func(change func(s *snapshot)) (snapshot, plan) {
		s := grownTo(engine.StateCreated, true, true)
		checkedTask(s.Task, api.PreflightWarn)
		s.Members[2].Said.Prepared, s.Members[2].Said.Facts = true, roomy("2.1.0")
		change(&s)
		s.Admit(func(m *gang.Member) bool { return blame.Avoid(s.Task, m) })
		s.Rank()
		return s, decide(s, now)
	}
	s, p := look(func(*snapshot) {})
	if !slices.Equal(p.late, []int{2}) || p.status.Generation != 1 || len(s.Members) != 2 {
		t.Errorf("it is asked first: %+v", p)
	}
	if _, p = look(func(s *snapshot) { s.Members[2].Said.Preflight = &preflight.Report{} }); p.status.Generation != 2 || len(p.late) != 0 {
		t.Errorf("well: %+v", p)
	}
	if _, p = look(func(s *snapshot) { s.Members[2].Said.Preflight = sick() }); p.status.Generation != 1 || !slices.Equal(p.status.Rendezvous.Left, []int{2}) {
		t.Errorf("sick: %+v", p.status.Rendezvous)
	}
	left := func(s *snapshot) { s.Task.Status.Rendezvous.Left = []int{2} }
	if s, p = look(left); len(p.stop) != 1 || len(p.late) != 0 || s.Coming() {
		t.Errorf("it is ended: %+v", p)
	}
	ended := func(s *snapshot) {
		left(s)
		s.Members[2].State, s.Members[2].Exit = engine.StateExited, exit(engine.ReasonStopped, 143)
		s.Members[2].Exit.At = now
	}
	if s, p = look(ended); p.resize != nil || p.wake <= 0 {
		t.Errorf("its slot is kept: %+v", p)
	}
	if p = decide(s, now.Add(time.Hour)); p.resize == nil || len(p.resize.Roles[0].Slots) != 2 {
		t.Errorf("and then given up: %+v", p.resize)
	}
	s, p = look(func(s *snapshot) {
		ended(s)
		s.Placement.Spec.Lost = &api.Loss{Until: now.Add(time.Minute)}
	})
	if p.resize == nil || p.resize.Lost.Roles["worker"] != 1 || !slices.Equal(p.resize.Lost.Avoid, []uint32{s.Joining[0].Number}) {
		t.Errorf("a replacement is looked for elsewhere: %+v", p.resize)
	}
	s, p = look(func(s *snapshot) {
		left(s)
		other := at(3, 1, engine.StateCreated, true, nil)
		other.Said.Prepared = true
		s.Members = append(s.Members, other)
	})
	if r := p.status.Rendezvous; p.status.Generation != 2 || r.World != 3 || r.Below["worker"] != 4 || !slices.Equal(r.Left, []int{2}) {
		t.Errorf("one that is well joins: %+v, %d members", r, len(s.Members))
	}
	s.Task.Status = p.status
	for i := range s.Members {
		s.Members[i].Said.Generation = 2
	}
	s.Members, s.Joining = append(s.Members, s.Joining...), nil
	s.Admit(func(m *gang.Member) bool { return blame.Avoid(s.Task, m) })
	s.Rank()
	if len(s.Joining) != 1 || s.Joining[0].Index != 2 || s.Members.DifferFrom(s.Task.Status.Rendezvous) {
		t.Errorf("and the other is still no member: %+v", s.Joining)
	}
}
