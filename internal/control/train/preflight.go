package train

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/preflight"
)

// preflightPatience is how long launchers may take; each is done after 4 s, or 20 where a device hangs in its self-test.
const preflightPatience = 22 * time.Second

// mostToLead is how many replicas try the lead: it answers them one after the other.
const mostToLead = 256

// checked says that the preflight of this placement is over, or not wanted; else it takes its next step.
func (s *seen) checked(p *plan, now time.Time) bool {
	if s.task.Spec.PreflightMode() == api.PreflightOff || p.status.Preflight != nil && p.status.Preflight.FinishedAt != nil {
		return true
	}
	if !s.allReady() {
		return false
	}
	if p.status.Preflight == nil {
		p.status.Preflight, p.commit = &api.PreflightStatus{StartedAt: now}, true
	}
	at := p.status.Preflight.StartedAt
	round := s.round(at)
	var members []preflight.Member
	var waiting []int
	for _, i := range s.order {
		m := &s.members[i]
		if m.said.Facts == nil {
			continue // its launcher was not asked to look
		}
		one := s.judged(m)
		if r := m.said.Preflight; r != nil && r.Round == round {
			one.Answer = r
		} else {
			waiting = append(waiting, i)
		}
		members = append(members, one)
	}
	if left := preflightPatience - now.Sub(at); len(waiting) > 0 && left > 0 {
		p.check, p.wake = waiting, left
		return false
	}
	s.conclude(p, now, members)
	return !s.refuses(p)
}

// judged is the member as the judge sees it.
func (s *seen) judged(m *member) preflight.Member {
	out := preflight.Member{Name: m.role + "-" + itoa(m.index), Node: m.node, Facts: m.said.Facts}
	for i := range s.task.Spec.Roles {
		if r := &s.task.Spec.Roles[i]; r.Name == m.role {
			out.Disk, out.Memory = int64(r.Resources.EphemeralDisk), int64(r.Resources.SharedMemory)
			switch {
			case r.Alone():
				out.Group = r.Name
			case r.Image != "": // what is in it is its own
				out.Group = r.Image
			}
		}
	}
	return out
}

// conclude writes down what was found.
func (s *seen) conclude(p *plan, now time.Time, members []preflight.Member) {
	pairs, latency, rate := preflight.Measure(members)
	p.status.Preflight = &api.PreflightStatus{
		StartedAt: p.status.Preflight.StartedAt, FinishedAt: &now, Pairs: pairs,
		LatencyMs: float64(latency.Microseconds()) / 1000, Rate: api.Bytes(rate), Devices: preflight.Covered(members), Versions: preflight.Common(members), Findings: preflight.Judge(members),
	}
	p.commit = true
	for i, f := range p.status.Preflight.Findings {
		p.tell(true, "Preflight", fmt.Sprintf("preflight-%d-%d", p.status.Attempt, i), f.Message)
	}
}

// refuses says that the task wants no start with what was found.
func (s *seen) refuses(p *plan) bool {
	st := p.status.Preflight
	return s.task.Spec.PreflightMode() == api.PreflightRequire && st != nil && st.FinishedAt != nil && len(st.Findings) > 0
}

// refused ends a task that must not start.
func (s *seen) refused(p *plan, now time.Time) {
	if !s.endAll(p) {
		p.note("PreflightFailed", fault.T("The preflight found something; its launchers are ended.", "启动前检查发现问题，正在结束启动器。"))
		return
	}
	code := 1
	p.status.ExitCode = &code
	s.finish(p, now, api.PhaseFailed, "PreflightFailed", p.status.Preflight.Findings[0].Message)
}

// round names the preflight that began then; launchers know each other by it.
func (s *seen) round(at time.Time) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", s.task.Meta.ID, at.UnixNano()))
	return hex.EncodeToString(sum[:16])
}

// targets are whom each member connects to: the lead of its part, and the next in its ring; and of every other part, whose
// addresses its ranks know, the lead and the one that stands where it does. On the ports that
// stay: who listens on the lead's would answer ranks that look for rank 0 there.
func (s *seen) targets() [][]preflight.Target {
	out := make([][]preflight.Target, len(s.members))
	rings := map[string][]int{}
	for _, i := range s.order {
		space := s.space(&s.members[i])
		rings[space] = append(rings[space], i)
	}
	target := func(i int, bandwidth bool) preflight.Target {
		m := &s.members[i]
		return preflight.Target{Name: m.role + "-" + itoa(m.index), Address: m.at(m.said.Serve), Bandwidth: bandwidth}
	}
	for space, ring := range rings {
		lead := ring[0]
		for n, i := range ring {
			for _, other := range slices.Sorted(maps.Keys(rings)) {
				if other == space {
					continue
				}
				if n > 0 && n < mostToLead && n%len(rings[other]) > 0 {
					out[i] = append(out[i], target(rings[other][0], false))
				}
				out[i] = append(out[i], target(rings[other][n%len(rings[other])], false))
			}
		}
		for n, i := range ring {
			next := ring[(n+1)%len(ring)]
			if n > 0 && n < mostToLead && next != lead {
				out[i] = append(out[i], target(lead, false))
			}
			if next != i {
				out[i] = append(out[i], target(next, true))
			}
		}
	}
	return out
}

// ask orders the round that the status says, from those who have not answered.
func (c *Controller) ask(s seen, list []int, status api.TrainingTaskStatus) error {
	if len(list) == 0 {
		return nil
	}
	s = s.rollCall()
	round, targets := s.round(status.Preflight.StartedAt), s.targets()
	for _, i := range list {
		m := &s.members[i]
		g := link.Generation{
			Number: int64(status.Generation) + 1, FirstRank: m.first, World: s.world, Lead: m.at(m.said.Port),
			Preflight: &preflight.Round{ID: round, Targets: targets[i]},
		}
		if err := c.cfg.Hub.Go(m.name, m.attempt, g); err != nil && !fault.Is(err, fault.Unavailable) {
			return err
		}
	}
	return nil
}
