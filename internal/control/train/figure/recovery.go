package figure

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/diagnose"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// stepLook is how often the steps of a task that comes back are looked at: they come with nobody's turn.
const stepLook = time.Second

// causeUnknown stands for failures whose task ended before anybody was found to be at fault.
const causeUnknown = "unknown"

var phaseNames = map[api.RecoveryPhase]fault.Text{
	api.RecoveryDetect: fault.T("detect", "发现"), api.RecoveryAttribute: fault.T("attribute", "归因"), api.RecoveryPlace: fault.T("place", "安排"),
	api.RecoveryStart: fault.T("start", "启动"), api.RecoveryRestore: fault.T("restore", "恢复状态"), api.RecoveryCatchUp: fault.T("catch up", "追赶"),
}

// Recoveries writes down what a failure cost and when each part of the way back was reached. It
// compares the status before and after the judgement, so that no other part of it need know of this.
func (t *Turn) Recoveries() {
	if t.Over || t.Before.Phase.Finished() {
		return
	}
	in := CopyInterruptions(t.After.Interruptions)
	changed := false
	if f := t.After.Failure; f != nil && !sameFailure(t.Before.Failure, f) {
		t.attributed(in, f)
		changed = true
	} else if at, role, ok := t.suspected(); ok && openRecovery(in) == nil {
		t.interrupted(in, role, at)
		changed = true
	}
	if r := openRecovery(in); r != nil {
		changed = t.advance(in, r) || changed
	}
	if changed {
		t.After.Interruptions, t.Changed = in, true
	}
}

// CopyInterruptions is one to change: what was read is shared.
func CopyInterruptions(in *api.Interruptions) *api.Interruptions {
	if in == nil {
		return &api.Interruptions{}
	}
	out := *in
	out.Causes, out.Phases, out.Last = maps.Clone(in.Causes), maps.Clone(in.Phases), slices.Clone(in.Last)
	return &out
}

func sameFailure(a, b *api.ReplicaFailure) bool {
	return a != nil && a.Replica == b.Replica && a.At.Equal(b.At)
}

// openRecovery is the one that is under way; nil: none.
func openRecovery(in *api.Interruptions) *api.Recovery {
	if r := in.Newest(); r != nil && r.EndedAt == nil {
		return r
	}
	return nil
}

// suspected is the first end of a rank of an open generation that nobody was found guilty of yet: it may
// have died of another. In a task that is told to end or to leave, ends are no failures.
func (t *Turn) suspected() (at time.Time, role string, ok bool) {
	if t.Leaves {
		return at, "", false
	}
	for i := range t.Members {
		m := &t.Members[i]
		generation, _ := openIn(t.Before, t.Alone(m.Role))
		f := m.Said.Failed
		if f == nil || m.Said.Generation != int64(generation) || t.Before.Failure != nil && t.Before.Failure.Generation == generation {
			continue
		}
		if !ok || f.At.Before(at) {
			at, role, ok = f.At, t.Alone(m.Role), true
		}
	}
	return at, role, ok
}

// openIn is the generation of a role that starts again by itself, or of the others.
func openIn(status *api.TrainingTaskStatus, role string) (int, *api.Rendezvous) {
	if r := status.Role(role); r != nil {
		return r.Generation, r.Rendezvous
	}
	return status.Generation, status.Rendezvous
}

// interrupted begins a recovery; one that was under way ends unfinished.
func (t *Turn) interrupted(in *api.Interruptions, role string, failed time.Time) *api.Recovery {
	if failed.IsZero() || failed.After(t.Now) {
		failed = t.Now
	}
	if r := openRecovery(in); r != nil {
		if failed.Before(r.FailedAt) {
			failed = r.FailedAt
		}
		endRecovery(in, r, failed)
	}
	in.Last = append(in.Last, api.Recovery{Role: role, Step: t.farthest(role), FailedAt: failed, SeenAt: t.Now})
	in.Last = in.Last[max(0, len(in.Last)-api.MaxRecoveries):]
	return in.Newest()
}

// attributed knows who is at fault: of the recovery that waits for that, or of a new one.
func (t *Turn) attributed(in *api.Interruptions, f *api.ReplicaFailure) {
	failed, role := f.At.Add(-t.silence(f)), t.Alone(f.Role)
	r := openRecovery(in)
	if r == nil || r.OpenedAt != nil {
		r = t.interrupted(in, role, failed)
	} else if failed.Before(r.FailedAt) && !failed.IsZero() {
		r.FailedAt = failed
	}
	uncount(in, r)
	r.Role, r.Cause, r.Step, r.AttributedAt = role, cmp.Or(f.Cause, f.Reason), max(r.Step, t.farthest(role)), t.at()
	r.Action, r.Replica, r.Rank, r.Node = f.Action, f.Replica, f.Rank, f.Node
	count(in, r.Cause)
}

func count(in *api.Interruptions, cause string) {
	if in.Causes == nil {
		in.Causes = map[string]int{}
	}
	in.Causes[cause]++
	in.Count++
}

// uncount takes a cause back that was found before: now it is known better.
func uncount(in *api.Interruptions, r *api.Recovery) {
	if r.Cause == "" {
		return
	}
	in.Count--
	if in.Causes[r.Cause]--; in.Causes[r.Cause] == 0 {
		delete(in.Causes, r.Cause)
	}
}

// silence is for how long a rank that hangs had made no progress when that was seen: it failed then.
func (t *Turn) silence(f *api.ReplicaFailure) (longest time.Duration) {
	if f.Rank == nil || f.Reason != diagnose.ReasonHung && f.Reason != diagnose.ReasonStopped {
		return 0
	}
	for i := range t.Members {
		for _, r := range t.Members[i].Said.Hung {
			if t.Members[i].Role == f.Role && r.Rank == *f.Rank {
				longest = max(longest, r.Silent)
			}
		}
	}
	return longest
}

func endRecovery(in *api.Interruptions, r *api.Recovery, at time.Time) {
	r.EndedAt = &at
	in.LostTime += api.Duration(max(at.Sub(r.FailedAt), 0))
	if r.Cause == "" {
		r.Cause = causeUnknown
		count(in, r.Cause)
	}
}

// recovered ends it well.
func (t *Turn) recovered(in *api.Interruptions, r *api.Recovery, at time.Time) {
	endRecovery(in, r, at)
	in.Recovered++
	if in.Phases == nil {
		in.Phases = map[string]api.Duration{}
	}
	for name, d := range r.Phases() {
		in.Phases[string(name)] += api.Duration(d)
	}
	t.tell(false, "Recovered", "recovered-"+r.Role+strconv.Itoa(r.Generation), recoveredText(r))
}

// advance notes what was reached in this turn.
func (t *Turn) advance(in *api.Interruptions, r *api.Recovery) (changed bool) {
	was, _ := openIn(t.Before, r.Role)
	generation, open := openIn(t.After, r.Role)
	if r.OpenedAt == nil && generation > was && open != nil {
		r.OpenedAt, r.Generation, r.Restore, r.Reloaded = t.at(), generation, open.Restore, open.Origin != nil
		if r.AttributedAt == nil { // the generation changed anyway; nobody asks any more whose fault it was
			r.AttributedAt = t.at()
		}
		in.LostSteps += max(r.Step-r.Restore, 0)
		changed = true
	}
	if t.After.Phase.Finished() {
		endRecovery(in, r, t.Now)
		return true
	}
	if t.After.Phase != api.PhaseRunning || r.OpenedAt == nil {
		return changed
	}
	if r.RunningAt == nil {
		r.RunningAt, r.Kept, changed = t.at(), t.kept(r.Role, generation), true
	}
	step, at := t.slowest(r.Role, generation)
	if r.SteppedAt == nil && step > r.Restore {
		if at.IsZero() || at.After(t.Now) {
			at = t.Now
		}
		r.SteppedAt, changed = &at, true
	}
	if r.Step == 0 || (r.SteppedAt != nil && step >= r.Step) {
		end := t.Now
		if r.SteppedAt != nil && r.Step <= r.Restore+1 {
			end = *r.SteppedAt // its first step was the one that was lost
		}
		t.recovered(in, r, end)
		return true
	}
	t.wakeIn(stepLook)
	return changed
}

// farthest is the newest step that any launcher of the role, or of the others, told of.
func (t *Turn) farthest(role string) (step int64) {
	for i := range t.Members {
		if m := &t.Members[i]; t.Alone(m.Role) == role && !m.Said.Printed { // where such a script goes on from is its own affair
			step = max(step, m.Said.Step)
		}
	}
	return step
}

// kept is how many ranks of the generation kept their process from the last.
func (t *Turn) kept(role string, generation int) (n int) {
	for i := range t.Members {
		if m := &t.Members[i]; t.Alone(m.Role) == role && m.Said.Generation == int64(generation) {
			n += m.Said.Kept
		}
	}
	return n
}

// slowest is the step that every rank of the generation has reached, and when the last of them made its
// first; a launcher of another generation has not begun.
func (t *Turn) slowest(role string, generation int) (step int64, first time.Time) {
	none := true
	for i := range t.Members {
		m := &t.Members[i]
		if t.Alone(m.Role) != role {
			continue
		}
		if m.Said.Generation != int64(generation) {
			return 0, time.Time{}
		}
		if none || m.Said.Step < step {
			step, none = m.Said.Step, false
		}
		if m.Said.SteppedAt.After(first) {
			first = m.Said.SteppedAt
		}
	}
	return step, first
}

// recoveredText tells how long it took.
func recoveredText(r *api.Recovery) fault.Text {
	took := r.Phases()
	en, zh := "", ""
	for _, name := range api.RecoveryPhases {
		if d, ok := took[name]; ok {
			en += fmt.Sprintf(" %s %.2f s,", phaseNames[name].EN, d.Seconds())
			zh += fmt.Sprintf("%s %.2f 秒，", phaseNames[name].ZH, d.Seconds())
		}
	}
	if r.Kept > 0 {
		kept := fault.T(" %d [process|processes] stayed,", "%d 个进程得以保留，", r.Kept)
		en, zh = en+kept.EN, zh+kept.ZH
	}
	whole := max(r.EndedAt.Sub(r.FailedAt), 0).Seconds()
	lost := max(r.Step-r.Restore, 0)
	again := fault.T("%d [step was|steps were] made again.", "重算 %d 步。", lost)
	return fault.Text{
		EN: fmt.Sprintf("Recovered in %.2f s:%s %s", whole, en, again.EN),
		ZH: fmt.Sprintf("恢复用时 %.2f 秒：%s%s", whole, zh, again.ZH),
	}
}
