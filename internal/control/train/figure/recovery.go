package figure

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/diagnose"
	"github.com/fermi-cluster/fermi/internal/engine"
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
	r := openRecovery(in)
	if r != nil && r.RunningAt != nil {
		t.follow(in, r) // they may have come further since it was looked
	}
	if r != nil && r.EndedAt == nil {
		if failed.Before(r.FailedAt) {
			failed = r.FailedAt
		}
		endRecovery(in, r, failed)
	}
	next := api.Recovery{Role: role, FailedAt: failed, SeenAt: t.Now}
	next.Made = t.farthest(role)
	if next.Step = next.Made; role == "" && t.Before.Time != nil {
		next.Step = max(next.Step, t.Before.Time.Step)
	}
	if r != nil && r.Role == role && !r.Passed {
		next.Step = max(next.Step, r.Step)
		if r.LostSteps == nil { // nobody made a step since: what was lost then still is
			next.Made = max(next.Made, r.Made)
		}
	}
	in.Last = append(in.Last, next)
	in.Last = in.Last[max(0, len(in.Last)-api.MaxRecoveries):]
	return in.Newest()
}

// attributed knows who is at fault: of the recovery that waits for that, or of a new one.
func (t *Turn) attributed(in *api.Interruptions, f *api.ReplicaFailure) {
	role := t.Alone(f.Role)
	failed, found := failedAt(t, f, role)
	r := openRecovery(in)
	if r == nil || r.OpenedAt != nil {
		r = t.interrupted(in, role, failed)
		r.Found = found
	} else if failed.Before(r.FailedAt) && !failed.IsZero() {
		r.FailedAt, r.Found = failed, found
	}
	uncount(in, r)
	r.Role, r.Cause, r.AttributedAt = role, cmp.Or(f.Cause, f.Reason), t.at()
	r.Made = max(r.Made, t.farthest(role))
	r.Step = max(r.Step, r.Made)
	r.Action, r.Replica, r.Rank, r.Node = f.Action, f.Replica, f.Rank, f.Node
	count(in, r.Cause)
}

// failedAt is when what failed did. Of a launcher that is lost nobody knows but its engine, which may find it much later: it was well when
// the gang last got on. found: even that is not known.
func failedAt(t *Turn, f *api.ReplicaFailure, role string) (at time.Time, found bool) {
	if at = f.At.Add(-t.silence(f)); f.Rank != nil || f.Reason != engine.ReasonLauncherLost {
		return at, false
	}
	seen := seenAt(t, role)
	switch {
	case seen.IsZero():
		return at, true
	case seen.Before(at) || at.IsZero():
		return seen, false
	}
	return at, false
}

// seenAt is when the gang, or a role that is alone, was last seen to get on; zero: nobody tells.
func seenAt(t *Turn, role string) (at time.Time) {
	for i := range t.Members {
		if m := &t.Members[i]; t.Alone(m.Role) == role && m.Said.Pace.Course.First > 0 && m.Said.Pace.Course.LastAt.After(at) {
			at = m.Said.Pace.Course.LastAt
		}
	}
	return at
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

// recovered ends it well: training has passed the step that it had reached.
func (t *Turn) recovered(in *api.Interruptions, r *api.Recovery, at time.Time) {
	endRecovery(in, r, at)
	r.Passed = true
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
		changed = true
	}
	if t.After.Phase.Finished() {
		if r.RunningAt != nil {
			t.follow(in, r)
		}
		if r.EndedAt == nil {
			endRecovery(in, r, t.Now)
		}
		return true
	}
	if t.After.Phase != api.PhaseRunning || r.OpenedAt == nil {
		return changed
	}
	if r.RunningAt == nil {
		r.RunningAt, r.Kept, changed = t.at(), t.kept(r.Role, generation), true
	}
	if r.Step == 0 { // no step was told before: that they run is all that can be known
		endRecovery(in, r, t.Now)
		in.Untold++
		t.tell(false, "RunsAgain", "runs-"+r.Role+strconv.Itoa(r.Generation), fault.T(
			"All ranks run again, %.2f s after the failure. They had told no steps: what was lost is not known.", "故障 %.2f 秒后全部进程重新运行。故障前未上报步数，损失未知。", r.EndedAt.Sub(r.FailedAt).Seconds()))
		return true
	}
	if stepped, ended := t.follow(in, r); stepped || ended {
		changed = true
	}
	if r.EndedAt == nil {
		t.wakeIn(stepLook)
	}
	return changed
}

// follow notes how far the ranks of a recovery are: that they made a step, and that it is over.
func (t *Turn) follow(in *api.Interruptions, r *api.Recovery) (stepped, ended bool) {
	p := progressOf(t, r.Role, r.Generation)
	if r.SteppedAt == nil && p.begun {
		at := notAfter(t, p.firstAt)
		r.SteppedAt, stepped = &at, true
		if p.first > 0 { // whatever it was told to go on from
			r.Restore = p.first - 1
		}
		lost := max(r.Made-r.Restore, 0)
		r.LostSteps, in.LostSteps = &lost, in.LostSteps+lost
	}
	if r.SteppedAt == nil || p.step <= r.Step {
		return stepped, false
	}
	end := *r.SteppedAt // its first step was a new one
	if r.Step > r.Restore {
		if end = notAfter(t, p.lastAt); end.Before(*r.SteppedAt) {
			end = *r.SteppedAt
		}
	}
	t.recovered(in, r, end)
	return stepped, true
}

// notAfter holds a time of another machine's clock to ours; one that is not known is now.
func notAfter(t *Turn, at time.Time) time.Time {
	if at.IsZero() || at.After(t.Now) {
		return t.Now
	}
	return at
}

// farthest is the newest step that any launcher of the role, or of the others, told of. Before its ranks tell one a launcher says where
// they were told to go on from: that counts where they told steps before.
func (t *Turn) farthest(role string) (step int64) {
	tells := t.Before.Time != nil && t.Before.Time.Step > 0
	for i := range t.Members {
		if m := &t.Members[i]; t.Alone(m.Role) == role && (tells || !m.Said.SteppedAt.IsZero()) {
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

// progressOf is how far the ranks of a generation are, together.
type progress struct {
	step    int64     // that all of them have made
	begun   bool      // each has made one in this generation
	first   int64     // the first that one of them made; 0: not known
	firstAt time.Time // when the last of them had made its first
	lastAt  time.Time // when they were last seen to get on; zero: not known
	stalled time.Duration
	// patience is how long they may take for a step; 0: not known yet.
	patience time.Duration
	pausing  bool
}

// progressOf adds up what launchers tell of a role that starts again by itself, or of the others. A launcher of another generation has not
// begun. Where ranks are followed by what they print, mostly only the first does: the others say nothing.
func progressOf(t *Turn, role string, generation int) (p progress) {
	printed := t.Members.Any(func(m *gang.Member) bool { return m.Said.Printed && t.Alone(m.Role) == role })
	none := true
	for i := range t.Members {
		m := &t.Members[i]
		if t.Alone(m.Role) != role || printed && !m.Said.Watched {
			continue
		}
		if m.Said.Generation != int64(generation) {
			return progress{}
		}
		c := &m.Said.Pace.Course
		stepped := !m.Said.SteppedAt.IsZero()
		if none {
			p.step, p.begun, none = m.Said.Step, stepped, false
		}
		p.step, p.begun = min(p.step, m.Said.Step), p.begun && stepped
		if c.First > 0 && (p.first == 0 || c.First < p.first) {
			p.first = c.First
		}
		if m.Said.SteppedAt.After(p.firstAt) {
			p.firstAt = m.Said.SteppedAt
		}
		if c.LastAt.After(p.lastAt) {
			p.lastAt = c.LastAt
		}
		p.stalled, p.patience, p.pausing = max(p.stalled, c.Stalled), max(p.patience, c.Patience), p.pausing || c.Pausing
	}
	return p
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
	lost := int64(0)
	if r.LostSteps != nil {
		lost = *r.LostSteps
	}
	again := fault.T("%d [step was|steps were] made again.", "重算 %d 步。", lost)
	return fault.Text{
		EN: fmt.Sprintf("Recovered in %.2f s:%s %s", whole, en, again.EN),
		ZH: fmt.Sprintf("恢复用时 %.2f 秒：%s%s", whole, zh, again.ZH),
	}
}
