package figure

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/restored"
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
	next.Made = t.crew().farthest(role)
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
	failed, found := t.crew().failedAt(f, role)
	r := openRecovery(in)
	if r == nil || r.OpenedAt != nil {
		r = t.interrupted(in, role, failed)
		r.Found = found
	} else if failed.Before(r.FailedAt) && !failed.IsZero() {
		r.FailedAt, r.Found = failed, found
	}
	uncount(in, r)
	r.Role, r.Cause, r.AttributedAt = role, cmp.Or(f.Cause, f.Reason), t.at()
	r.Made = max(r.Made, t.crew().farthest(role))
	r.Step = max(r.Step, r.Made)
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
		r.OpenedAt, r.Generation, r.Restore, r.Reloaded = t.at(), generation, t.crew().toldStep(open), open.Origin != nil
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
		r.RunningAt, r.Kept, changed = t.at(), t.crew().kept(r.Role, generation), true
		r.Source = t.crew().source(r.Role, generation, open)
	}
	if r.Step == 0 { // no step was told before: that they run is all that can be known
		endRecovery(in, r, t.Now)
		in.Untold++
		after, from := r.EndedAt.Sub(r.FailedAt).Seconds(), restored.From(r)
		t.tell(false, "RunsAgain", "runs-"+r.Role+strconv.Itoa(r.Generation), fault.Text{
			EN: fmt.Sprintf("All ranks run again %s, %.2f s after the failure. They had told no steps: what was lost is not known.", from.EN, after),
			ZH: fmt.Sprintf("故障 %.2f 秒后全部进程重新运行，%s。故障前未上报步数，损失未知。", after, from.ZH),
		})
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
	p := t.crew().progress(r.Role, r.Generation)
	if r.SteppedAt == nil && p.begun {
		at := notAfter(p.firstAt, t.Now)
		r.SteppedAt, stepped = &at, true
		if p.first > 0 { // whatever it was told to go on from
			r.Restore = p.first - 1
			if r.Restore > 0 && r.Source == restored.Beginning {
				r.Source = restored.Script
			}
		}
		lost := max(r.Made-r.Restore, 0)
		r.LostSteps, in.LostSteps = &lost, in.LostSteps+lost
	}
	if r.SteppedAt == nil || p.step <= r.Step {
		return stepped, false
	}
	end := *r.SteppedAt // its first step was a new one
	if r.Step > r.Restore {
		if end = notAfter(p.lastAt, t.Now); end.Before(*r.SteppedAt) {
			end = *r.SteppedAt
		}
	}
	t.recovered(in, r, end)
	return stepped, true
}

// notAfter holds a time of another machine's clock to ours; one that is not known is now.
func notAfter(at, now time.Time) time.Time {
	if at.IsZero() || at.After(now) {
		return now
	}
	return at
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
	if from := restored.From(r); from.EN != "" {
		en, zh = en+" "+from.EN+",", zh+from.ZH+"，"
	}
	again := fault.T("%d [step was|steps were] made again.", "重算 %d 步。", lost)
	return fault.Text{
		EN: fmt.Sprintf("Recovered in %.2f s:%s %s", whole, en, again.EN),
		ZH: fmt.Sprintf("恢复用时 %.2f 秒：%s%s", whole, zh, again.ZH),
	}
}
