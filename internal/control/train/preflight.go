package train

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/preflight"
)

// preflightPatience is how long launchers may take; each is done after 4 s, or 20 where a device hangs in its self-test.
const preflightPatience = 22 * time.Second

// mostToLead is how many replicas try the lead: it answers them one after the other.
const mostToLead = 256

// checking is the judgement of what must hold before ranks start.
type checking struct{ *gang.Gang }

// pass says that the preflight of this placement is over, or not wanted; else it takes its next step. Spares are checked with
// the members.
func (s checking) pass(p *plan, now time.Time) bool {
	if s.Task.Spec.PreflightMode() == api.PreflightOff || p.status.Preflight != nil && p.status.Preflight.FinishedAt != nil {
		return true
	}
	roll := s.RollCall()
	if !roll.Members.AllReady() {
		return false
	}
	if p.status.Preflight == nil {
		p.status.Preflight, p.commit = &api.PreflightStatus{StartedAt: now}, true
	}
	at := p.status.Preflight.StartedAt
	round := roundOf(s.Task.Meta.ID, at)
	var members []preflight.Member
	var waiting []int
	for _, i := range roll.Order {
		m := &roll.Members[i]
		if m.Said.Facts == nil {
			continue // its launcher was not asked to look
		}
		one := s.Judged(m)
		if r := m.Said.Preflight; r != nil && r.Round == round {
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
	conclude(p, now, members)
	return !s.refuses(p)
}

// conclude writes down what was found.
func conclude(p *plan, now time.Time, members []preflight.Member) {
	met := preflight.Measure(members)
	p.status.Preflight = &api.PreflightStatus{
		StartedAt: p.status.Preflight.StartedAt, FinishedAt: &now, Pairs: met.Pairs, OneMachine: met.OneMachine, Crossings: met.Crossings,
		LatencyMs: preflight.Millis(met.Longest), Rate: api.Bytes(met.Rate), Devices: preflight.Covered(members), Versions: preflight.Common(members), Findings: preflight.Judge(members),
	}
	p.commit = true
	for _, c := range met.Crossings {
		p.tell(false, "CrossesZones", fmt.Sprintf("crosses-%d-%s-%s", p.status.Attempt, c.From, c.To), preflight.Said(c))
	}
	for i, f := range p.status.Preflight.Findings {
		p.tell(true, "Preflight", fmt.Sprintf("preflight-%d-%d", p.status.Attempt, i), f.Message)
	}
}

// refuses says that the task wants no start with what was found.
func (s checking) refuses(p *plan) bool {
	st := p.status.Preflight
	return s.Task.Spec.PreflightMode() == api.PreflightRequire && st != nil && st.FinishedAt != nil && len(st.Findings) > 0
}

// roundOf names the preflight that began then; launchers know each other by it.
func roundOf(taskID string, at time.Time) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", taskID, at.UnixNano()))
	return hex.EncodeToString(sum[:16])
}

// targetsOf are whom each member connects to: the lead of its part, and the next in its ring; and of every other part, whose
// addresses its ranks know, the lead and the one that stands where it does. On the ports that
// stay: who listens on the lead's would answer ranks that look for rank 0 there.
func targetsOf(g *gang.Gang) [][]preflight.Target {
	out := make([][]preflight.Target, len(g.Members))
	rings := map[string][]int{}
	for _, i := range g.Order {
		space := g.Alone(g.Members[i].Role)
		rings[space] = append(rings[space], i)
	}
	target := func(i int, bandwidth bool) preflight.Target {
		m := &g.Members[i]
		return preflight.Target{Name: m.Role + "-" + itoa(m.Index), Address: m.Address(m.Said.Serve), Bandwidth: bandwidth}
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
