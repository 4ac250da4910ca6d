package blame

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/ending"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/diagnose"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
)

// victimGrace is how long after the end of one that died of another its culprit is waited for.
const victimGrace = 1500 * time.Millisecond

// OfReplica is the earliest end that was not a success and not ours. A replica that was told to
// go and is unknown to the engine was lost with its machine's memory of it.
func OfReplica(u *gang.Unit) *api.ReplicaFailure {
	var first *api.ReplicaFailure
	for i := range u.Members {
		m := &u.Members[i]
		if m.State == "" && u.Rendezvous != nil {
			return Of(m, &engine.Exit{Code: -1, Reason: engine.ReasonLauncherLost, Message: "its folder is gone"})
		}
		if !m.Ended() || m.Exit == nil || m.Exit.Reason == engine.ReasonSucceeded {
			continue
		}
		f := Of(m, m.Exit)
		f.Generation = u.Task.Status.Generation
		if first == nil || Earlier(f, first) {
			first = f
		}
	}
	return first
}

// Of is the failure that an end of a member is.
func Of(m *gang.Member, e *engine.Exit) *api.ReplicaFailure {
	return diagnosed(&api.ReplicaFailure{
		Replica: string(m.Name), Role: m.Role, Index: m.Index, Node: m.Node, Rank: e.Rank,
		ExitCode: e.Code, Signal: e.Signal, Reason: e.Reason, Message: ending.Text(m.Role+"-"+strconv.Itoa(m.Index), m.Node, e), At: e.At,
	}, e, m.Ranks > 1)
}

// ExitCode is the task's where this is what it failed of.
func ExitCode(f *api.ReplicaFailure) int {
	if f.ExitCode > 0 && f.ExitCode < 256 {
		return f.ExitCode
	}
	return 1
}

// diagnosed adds why, and what to do, to a failure. many: the replica has several ranks.
func diagnosed(f *api.ReplicaFailure, e *engine.Exit, many bool) *api.ReplicaFailure {
	r := ending.Cause(e)
	f.Cause, f.Action, f.Advice = r.ID, string(r.Action), r.Advice
	f.Line, f.Step, f.Fingerprint = e.Line, e.Step, e.Fingerprint
	f.Message = ending.Because(f.Message, r, e)
	if many && f.Rank != nil {
		f.Message = fault.Text{EN: fmt.Sprintf("Rank %d: %s", *f.Rank, f.Message.EN), ZH: fmt.Sprintf("rank %d：%s", *f.Rank, f.Message.ZH)}
	}
	return f
}

// Earlier puts the ends with a cause of their own before those that died of another, then the earlier.
func Earlier(a, b *api.ReplicaFailure) bool {
	if x, y := IsVictim(a), IsVictim(b); x != y {
		return y
	}
	return a.At.Before(b.At)
}

// IsVictim says that it died of another.
func IsVictim(f *api.ReplicaFailure) bool {
	return slices.ContainsFunc(ending.Rules(), func(r *diagnose.Rule) bool { return r.ID == f.Cause && r.Guilt == diagnose.Peer })
}

// OfRank is the rank of the open generation that failed first of itself while its launcher lives.
// wait: there are only victims so far, and the culprit may come.
func OfRank(u *gang.Unit, old *api.ReplicaFailure, now time.Time) (first *api.ReplicaFailure, wait time.Duration) {
	told := 0
	for i := range u.Members {
		m := &u.Members[i]
		f := m.Said.Failed
		if f == nil || m.Ended() || m.Said.Generation != int64(u.Generation) {
			continue
		}
		told++
		found := Of(m, &engine.Exit{Code: f.Code, Signal: f.Signal, Reason: f.Reason, Message: f.Message, At: f.At, Rank: &f.Rank, Diagnosis: f.Diagnosis})
		found.Generation = u.Generation
		if first == nil || Earlier(found, first) {
			first = found
		}
	}
	if left := leftEarly(u, first); left != nil {
		return left, 0
	}
	if first != nil && IsVictim(first) && told < len(u.Members) && !Same(old, first) {
		if age := now.Sub(first.At); age >= 0 && age < victimGrace {
			return nil, victimGrace - age
		}
	}
	return first, 0
}

// leftEarly is a replica of which all ranks ended well, where others of its role died of having lost one. Replicas
// that come and go leave as they like.
func leftEarly(u *gang.Unit, first *api.ReplicaFailure) *api.ReplicaFailure {
	if first == nil || !IsVictim(first) || u.Task.Spec.Elastic() {
		return nil
	}
	for i := range u.Members {
		m := &u.Members[i]
		if m.Role != first.Role || !m.Ended() || m.Exit == nil || m.Exit.Reason != engine.ReasonSucceeded || m.Said.Generation != int64(u.Generation) {
			continue
		}
		e := engine.Exit{Reason: engine.ReasonLeftEarly, At: m.Exit.At, Diagnosis: engine.Diagnosis{Fingerprint: "left-early", Step: first.Step}}
		if m.Ranks == 1 {
			e.Rank = &m.First
		}
		f := Of(m, &e)
		f.Generation = u.Generation
		return f
	}
	return nil
}

// Hang is what silence was found to be.
type Hang struct {
	Failure *api.ReplicaFailure // nil: nobody is at fault, or it is not known yet
	Wait    time.Duration       // until it has to be looked at again; 0: on a change
	Spared  bool                // a task without restarts goes on: all that is known is that nothing is printed any more
	Alone   *link.RankState     // of those that have stood still for a minute while others make steps, the one that does so longest; nil: none has
}

// aloneAfter is when it is told that some ranks stand still while others don't: those that keep step with them stand still much sooner.
const aloneAfter = time.Minute

// OfSilence is the rank that the others wait for, or that is stopped. All launchers whose ranks tell their
// progress must see a hang: where one does not, its ranks work and the others wait with good reason. A
// process that is stopped needs no other witness. Where some go on all the same, nobody waits for those that stand still: it is only told. Where all that is known was read from what they print, and the task
// would end of it, since it has no restarts left, it is only told.
func OfSilence(u *gang.Unit, old *api.ReplicaFailure, left int, now time.Time) Hang {
	if old != nil && old.Generation == u.Generation && (old.Reason == diagnose.ReasonHung || old.Reason == diagnose.ReasonStopped) {
		return Hang{Failure: old}
	}
	var states []link.RankState
	at, witnesses, watched, stopped, printed := time.Time{}, 0, 0, false, true
	for i := range u.Members {
		m := &u.Members[i]
		if m.Ended() || !m.Said.Watched {
			continue
		}
		watched++
		if m.Said.Generation != int64(u.Generation) || len(m.Said.Hung) == 0 {
			continue
		}
		witnesses++
		printed = printed && m.Said.Printed
		states = append(states, m.Said.Hung...)
		if at.IsZero() || m.Said.HungAt.Before(at) {
			at = m.Said.HungAt
		}
		stopped = stopped || slices.ContainsFunc(m.Said.Hung, func(r link.RankState) bool { return r.State == 'T' })
	}
	switch {
	case len(states) == 0:
		return Hang{}
	case witnesses < watched && !stopped:
		if left := aloneAfter - now.Sub(at); left > 0 {
			return Hang{Wait: left}
		}
		longest := slices.MaxFunc(states, func(a, b link.RankState) int { return cmp.Compare(a.Silent, b.Silent) })
		return Hang{Alone: &longest}
	}
	if wait := beginning(u, now, states, at); wait > 0 && !stopped {
		return Hang{Wait: wait}
	}
	if left == 0 && printed && !stopped {
		return Hang{Spared: true}
	}
	return Hang{Failure: hungFailure(u, states, at)}
}

// beginMost is how long those that are new may take to their first step while the others wait for them.
const beginMost = 10 * time.Minute

// beginning is how long silent ranks wait with good reason: nobody has made a step of this generation yet, and some are
// in a launcher that never told of one; it may bring their state, or they import what they need.
func beginning(u *gang.Unit, now time.Time, silent []link.RankState, at time.Time) time.Duration {
	fresh := false
	for i := range u.Members {
		m := &u.Members[i]
		ours := m.Said.Generation == int64(u.Generation)
		if ours && !m.Said.SteppedAt.IsZero() {
			return 0
		}
		fresh = fresh || !m.Ended() && (!ours || !m.Said.Watched)
	}
	if !fresh {
		return 0
	}
	longest := slices.MaxFunc(silent, func(a, b link.RankState) int { return cmp.Compare(a.Silent, b.Silent) }).Silent
	return max(beginMost-longest-now.Sub(at), 0)
}

func hungFailure(u *gang.Unit, states []link.RankState, at time.Time) *api.ReplicaFailure {
	votes := make([]diagnose.Silent, len(states))
	for i, r := range states {
		votes[i] = diagnose.Silent{Rank: r.Rank, Step: r.Step, State: r.State, Collective: r.Collective, Backward: r.Backward}
	}
	i, alone := diagnose.Vote(votes)
	r := states[i]
	for k := range u.Members {
		m := &u.Members[k]
		if r.Rank < m.First || r.Rank >= m.First+m.Ranks {
			continue
		}
		e := &engine.Exit{Code: -1, Reason: diagnose.ReasonHung, At: at, Rank: &r.Rank, Diagnosis: engine.Diagnosis{Step: r.Step}}
		if r.State == 'T' {
			e.Reason = diagnose.ReasonStopped
		}
		f := Of(m, e)
		f.Generation = u.Generation
		if !alone {
			f.Message.EN += " All ranks wait, and none stands out: the one that is furthest behind is named."
			f.Message.ZH += "所有 rank 都在等待，没有明显的责任者：此处为进度最慢者。"
		}
		return f
	}
	return nil
}

// Same says that two are the very same failure.
func Same(a, b *api.ReplicaFailure) bool {
	return a != nil && a.Replica == b.Replica && a.At.Equal(b.At) && a.Generation == b.Generation
}
