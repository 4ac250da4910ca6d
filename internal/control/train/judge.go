package train

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/diagnose"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
)

// rules is read when the first task fails.
var rules = sync.OnceValue(diagnose.Load)

// victimGrace is how long after the end of one that died of another its culprit is waited for.
const victimGrace = 1500 * time.Millisecond

// causeOf is the rule the launcher found by the last words, or, where none looked, by the end alone.
func causeOf(e *engine.Exit) *diagnose.Rule {
	for _, r := range rules() {
		if r.ID == e.Cause {
			return r
		}
	}
	return rules().Cause(diagnose.Evidence{Code: e.Code, Signal: e.Signal, Reason: e.Reason})
}

// diagnosed adds why, and what to do, to a failure. many: the replica has several ranks.
func diagnosed(f *api.ReplicaFailure, e *engine.Exit, many bool) *api.ReplicaFailure {
	r := causeOf(e)
	f.Cause, f.Action, f.Advice = r.ID, string(r.Action), r.Advice
	f.Line, f.Step, f.Fingerprint = e.Line, e.Step, e.Fingerprint
	if len(r.Words)+len(r.Final)+len(r.Signals) > 0 { // else the end itself has said it
		f.Message.EN += " Cause: " + r.Text.EN + "."
		f.Message.ZH += "原因：" + r.Text.ZH + "。"
	}
	if f.Line != "" && len(r.Words)+len(r.Final) > 0 { // the program's own words lead
		f.Message = fault.Text{EN: f.Line + " — " + f.Message.EN, ZH: f.Line + " —— " + f.Message.ZH}
	}
	if many && f.Rank != nil {
		f.Message = fault.Text{EN: fmt.Sprintf("Rank %d: %s", *f.Rank, f.Message.EN), ZH: fmt.Sprintf("rank %d：%s", *f.Rank, f.Message.ZH)}
	}
	return f
}

// earlier puts the ends with a cause of their own before those that died of another, then the earlier.
func earlier(a, b *api.ReplicaFailure) bool {
	if x, y := victim(a), victim(b); x != y {
		return y
	}
	return a.At.Before(b.At)
}

func victim(f *api.ReplicaFailure) bool {
	return slices.ContainsFunc(rules(), func(r *diagnose.Rule) bool { return r.ID == f.Cause && r.Guilt == diagnose.Peer })
}

// rankFailure is the rank of the open generation that failed first of itself while its launcher lives.
// wait: there are only victims so far, and the culprit may come.
func (s *seen) rankFailure(p *plan, now time.Time) (first *api.ReplicaFailure, wait time.Duration) {
	told := 0
	for i := range s.members {
		m := &s.members[i]
		f := m.said.Failed
		if f == nil || m.ended() || m.said.Generation != int64(p.status.Generation) {
			continue
		}
		told++
		found := failureOf(m, &engine.Exit{Code: f.Code, Signal: f.Signal, Reason: f.Reason, Message: f.Message, At: f.At, Rank: &f.Rank, Diagnosis: f.Diagnosis})
		found.Generation = p.status.Generation
		if first == nil || earlier(found, first) {
			first = found
		}
	}
	if left := s.leftEarly(p, first); left != nil {
		return left, 0
	}
	if first != nil && victim(first) && told < len(s.members) && !s.known(p, first) {
		if age := now.Sub(first.At); age >= 0 && age < victimGrace {
			return nil, victimGrace - age
		}
	}
	return first, 0
}

// leftEarly is a replica of which all ranks ended well, where others of its role died of having lost one. Replicas
// that come and go leave as they like.
func (s *seen) leftEarly(p *plan, first *api.ReplicaFailure) *api.ReplicaFailure {
	if first == nil || !victim(first) || s.task.Spec.Elastic() {
		return nil
	}
	for i := range s.members {
		m := &s.members[i]
		if m.role != first.Role || !m.ended() || m.exit == nil || m.exit.Reason != engine.ReasonSucceeded || m.said.Generation != int64(p.status.Generation) {
			continue
		}
		e := engine.Exit{Reason: engine.ReasonLeftEarly, At: m.exit.At, Diagnosis: engine.Diagnosis{Fingerprint: "left-early", Step: first.Step}}
		if m.ranks == 1 {
			e.Rank = &m.first
		}
		f := failureOf(m, &e)
		f.Generation = p.status.Generation
		return f
	}
	return nil
}

// known says that this very failure is in the status already.
func (s *seen) known(p *plan, f *api.ReplicaFailure) bool {
	old := p.status.Failure
	return old != nil && old.Replica == f.Replica && old.At.Equal(f.At) && old.Generation == f.Generation
}

// settle makes fail the task's failure, unless that is known already, and decides what to do: what is the
// program's own fault is tried once more, and the same again at the same step is not.
func (s *seen) settle(p *plan, now time.Time, fail *api.ReplicaFailure, once string) *api.ReplicaFailure {
	old := p.status.Failure
	current := old != nil && old.Generation == p.status.Generation && old.Generation > 0
	switch {
	case current && fail.Reason == engine.ReasonStopped:
		return old // we ended it because of that
	case s.known(p, fail), current && old.Replica == fail.Replica && victim(fail) == victim(old):
		return old
	}
	if fail.Action == string(diagnose.Stop) && fail.Reason != engine.ReasonStartFailed {
		if !s.repeats(p, now, fail) {
			fail.Action = string(diagnose.Restart)
		} else {
			fail.Message.EN += " It failed in the same way before, so it is not tried again."
			fail.Message.ZH += "此前已以同样方式失败，不再重试。"
		}
	}
	s.remember(p, now, fail)
	p.status.Failure, p.commit = fail, true
	p.tell(true, fail.Reason, once, fail.Message)
	return fail
}

// hungRank is the rank that the others wait for, or that is stopped. All launchers whose ranks tell their
// progress must see a hang: where one does not, its ranks work and the others wait with good reason. A
// process that is stopped needs no other witness. Where all that is known was read from what they print, and the task
// would end of it, it is only told.
func (s *seen) hungRank(p *plan, now time.Time) *api.ReplicaFailure {
	if old := p.status.Failure; old != nil && old.Generation == p.status.Generation && (old.Reason == diagnose.ReasonHung || old.Reason == diagnose.ReasonStopped) {
		return old
	}
	var states []link.RankState
	at, witnesses, watched, stopped, printed := time.Time{}, 0, 0, false, true
	for i := range s.members {
		m := &s.members[i]
		if m.ended() || !m.said.Watched {
			continue
		}
		watched++
		if m.said.Generation != int64(p.status.Generation) || len(m.said.Hung) == 0 {
			continue
		}
		witnesses++
		printed = printed && m.said.Printed
		states = append(states, m.said.Hung...)
		if at.IsZero() || m.said.HungAt.Before(at) {
			at = m.said.HungAt
		}
		stopped = stopped || slices.ContainsFunc(m.said.Hung, func(r link.RankState) bool { return r.State == 'T' })
	}
	if len(states) == 0 || witnesses < watched && !stopped {
		return nil
	}
	if wait := s.beginning(p, now, states, at); wait > 0 && !stopped {
		if p.wake == 0 || p.wake > wait {
			p.wake = wait
		}
		return nil
	}
	if _, left := s.budget(p, now); left == 0 && printed && !stopped {
		p.tell(true, "NoProgress", "silent-"+itoa(p.status.Generation), fault.T(
			"Its ranks print nothing of their progress any more. It has no restarts left, so it is left alone.", "其 rank 不再打印进度。重启次数已用完，任务保持原样。"))
		return nil
	}
	return s.hungFailure(p, states, at)
}

// beginMost is how long those that are new may take to their first step while the others wait for them.
const beginMost = 10 * time.Minute

// beginning is how long silent ranks wait with good reason: nobody has made a step of this generation yet, and some are
// in a launcher that never told of one; it may bring their state, or they import what they need.
func (s *seen) beginning(p *plan, now time.Time, silent []link.RankState, at time.Time) time.Duration {
	fresh := false
	for i := range s.members {
		m := &s.members[i]
		ours := m.said.Generation == int64(p.status.Generation)
		if ours && !m.said.SteppedAt.IsZero() {
			return 0
		}
		fresh = fresh || !m.ended() && (!ours || !m.said.Watched)
	}
	if !fresh {
		return 0
	}
	longest := slices.MaxFunc(silent, func(a, b link.RankState) int { return cmp.Compare(a.Silent, b.Silent) }).Silent
	return max(beginMost-longest-now.Sub(at), 0)
}

func (s *seen) hungFailure(p *plan, states []link.RankState, at time.Time) *api.ReplicaFailure {
	votes := make([]diagnose.Silent, len(states))
	for i, r := range states {
		votes[i] = diagnose.Silent{Rank: r.Rank, Step: r.Step, State: r.State, Collective: r.Collective, Backward: r.Backward}
	}
	i, alone := diagnose.Vote(votes)
	r := states[i]
	for k := range s.members {
		m := &s.members[k]
		if r.Rank < m.first || r.Rank >= m.first+m.ranks {
			continue
		}
		e := &engine.Exit{Code: -1, Reason: diagnose.ReasonHung, At: at, Rank: &r.Rank, Diagnosis: engine.Diagnosis{Step: r.Step}}
		if r.State == 'T' {
			e.Reason = diagnose.ReasonStopped
		}
		f := failureOf(m, e)
		f.Generation = p.status.Generation
		if !alone {
			f.Message.EN += " All ranks wait, and none stands out: the one that is furthest behind is named."
			f.Message.ZH += "所有 rank 都在等待，没有明显的责任者：此处为进度最慢者。"
		}
		return f
	}
	return nil
}
