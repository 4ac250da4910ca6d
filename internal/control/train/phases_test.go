package train

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
)

// story plays turns of one task with two launchers, at times that the test says.
type story struct {
	t    *testing.T
	task *api.TrainingTask
	said [2]link.Ranks
	last plan
}

func newStory(t *testing.T) *story {
	tk := task(api.PhaseRunning, 1, 1)
	tk.Spec.Restart = &api.RestartPolicy{MaxRestarts: 9}
	tk.Status.Replicas = api.ReplicaCount{Total: 2, Running: 2}
	start := now.Add(-100 * time.Second)
	tk.Status.StartedAt = &start
	y := &story{t: t, task: tk, said: [2]link.Ranks{{Generation: 1, Port: 4000, Progress: link.Progress{Step: 40}}, {Generation: 1, Port: 4001, Progress: link.Progress{Step: 41}}}}
	for i := range y.said {
		y.said[i].SteppedAt = start.Add(10 * time.Second)
		y.said[i].Pace.Course = link.Course{First: 1, LastAt: now, Patience: 10 * time.Second}
	}
	return y
}

// turn is one at so long after now; a turn that follows at once must change nothing.
func (y *story) turn(after time.Duration) *api.Interruptions {
	y.t.Helper()
	look := func() plan {
		s := snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: y.task, Placement: placed()}, Members: gang.Members{at(0, 1, engine.StateRunning, true, nil), at(1, 1, engine.StateRunning, true, nil)}}}
		for i := range y.said {
			s.Members[i].Said = y.said[i]
		}
		return decide(s, now.Add(after))
	}
	y.last = look()
	if y.last.commit {
		y.task = &api.TrainingTask{Meta: y.task.Meta, Spec: y.task.Spec, Status: y.last.status}
	}
	if d := cmp.Diff(y.task.Status.Interruptions, look().status.Interruptions); d != "" {
		y.t.Errorf("a second turn changed %s", d)
	}
	return y.task.Status.Interruptions
}

func (y *story) fail(i int, after time.Duration) {
	y.said[i].Failed = &link.RankExit{Rank: i, Code: 137, Signal: "SIGKILL", Reason: engine.ReasonSignaled, At: now.Add(after)}
}

func (y *story) start(i int, generation int64) {
	y.said[i] = link.Ranks{Generation: generation, Port: 4000 + i, Progress: link.Progress{Step: y.task.Status.Rendezvous.Restore}}
}

func TestARecoveryIsMeasuredByPhase(t *testing.T) {
	y := newStory(t)
	for i := range y.said {
		y.said[i].Held = []int64{38}
	}
	if in := y.turn(0); in != nil {
		t.Fatalf("nothing failed: %+v", in)
	}
	y.fail(0, 1*time.Second)
	y.turn(1100 * time.Millisecond)
	y.start(0, 2)
	y.turn(2 * time.Second)
	y.start(1, 2)
	if in := y.turn(3 * time.Second); in.Last[0].RunningAt == nil || in.Last[0].EndedAt != nil || y.last.wake != time.Second {
		t.Fatalf("%+v, wake %s", in.Last[0], y.last.wake)
	}
	for i := range y.said {
		y.said[i].Step, y.said[i].SteppedAt = 39, now.Add(4*time.Second+time.Duration(i)*time.Second/2)
	}
	y.turn(5 * time.Second)
	y.said[0].Step, y.said[1].Step = 42, 41
	if in := y.turn(6 * time.Second); in.Last[0].EndedAt != nil {
		t.Fatalf("it was where it had been, not beyond: %+v", in.Last[0])
	}
	y.said[0].Step, y.said[1].Step = 43, 42
	in := y.turn(7 * time.Second)
	want := map[api.RecoveryPhase]time.Duration{
		api.RecoveryDetect: 100 * time.Millisecond, api.RecoveryAttribute: 0, api.RecoveryPlace: 0, api.RecoveryStart: 1900 * time.Millisecond,
		api.RecoveryRestore: 1500 * time.Millisecond, api.RecoveryCatchUp: 2500 * time.Millisecond,
	}
	if d := cmp.Diff(want, in.Last[0].Phases()); d != "" {
		t.Error(d)
	}
	if in.Count != 1 || in.LostSteps != 3 || in.LostTime.Std() != 6*time.Second || in.Causes["killed"] != 1 || in.Recovered != 1 {
		t.Errorf("%+v", in)
	}
	if e := y.last.events[0]; e.Reason != "Recovered" || !strings.Contains(e.Message.EN, "6.00 s") || !strings.Contains(e.Message.ZH, "重算 3 步") {
		t.Errorf("%+v", e)
	}
	if phases, whole, ok := in.Mean(); !ok || whole != 6*time.Second || phases[api.RecoveryCatchUp] != 2500*time.Millisecond {
		t.Error(phases, whole, ok)
	}
	if ratio, ok := y.task.Status.EffectiveTime(now.Add(20 * time.Second)); !ok || ratio >= 1 {
		t.Error(ratio, ok)
	}
}

func TestARecoveryWithoutStepsEndsWhenAllRun(t *testing.T) {
	y := newStory(t)
	for i := range y.said {
		y.said[i] = link.Ranks{Generation: 1, Port: 4000 + i}
	}
	y.fail(1, 0)
	y.turn(0)
	y.start(0, 2)
	y.start(1, 2)
	in := y.turn(time.Second)
	if r := in.Last[0]; r.EndedAt == nil || r.SteppedAt != nil || len(r.Phases()) != 4 || y.last.wake != 0 || r.LostSteps != nil || r.Passed {
		t.Errorf("%+v", r)
	}
	if _, _, ok := in.Mean(); ok || in.Untold != 1 || in.Recovered != 0 {
		t.Errorf("it is not known whether it recovered: %+v", in)
	}
	if ratio, ok := y.task.Status.EffectiveTime(now.Add(time.Minute)); ok {
		t.Errorf("it never told a step, and its effective time is %v", ratio)
	}
}

func TestAFailureWhileRecoveringEndsTheFirst(t *testing.T) {
	y := newStory(t)
	y.fail(0, 0)
	y.turn(0)
	y.start(0, 2)
	y.start(1, 2)
	y.turn(time.Second)
	y.fail(1, 2*time.Second)
	in := y.turn(2 * time.Second)
	for i, r := range in.Last {
		if r.Rank == nil || *r.Rank != i || r.Replica == "" || r.Node == "" || r.Action != "restart" {
			t.Errorf("it is not told that rank %d failed: %+v", i, r)
		}
	}
	if in.Count != 2 || len(in.Last) != 2 || in.Last[0].EndedAt == nil || in.LostTime.Std() != 2*time.Second || in.Last[1].EndedAt != nil || in.Recovered != 0 {
		t.Errorf("%+v", in)
	}
}

// TestFindingTheCulpritIsAPhase: while only one that died of another is known, the leader waits for that other.
func TestFindingTheCulpritIsAPhase(t *testing.T) {
	y := newStory(t)
	y.fail(0, 0)
	y.said[0].Failed.Diagnosis.Cause = "peer-lost"
	in := y.turn(100 * time.Millisecond)
	if in.Count != 0 || len(in.Last) != 1 || in.Last[0].AttributedAt != nil {
		t.Fatalf("%+v", in)
	}
	y.fail(1, -50*time.Millisecond)
	in = y.turn(600 * time.Millisecond)
	took := in.Last[0].Phases()
	if in.Count != 1 || in.Causes["killed"] != 1 || took[api.RecoveryDetect] != 150*time.Millisecond || took[api.RecoveryAttribute] != 500*time.Millisecond {
		t.Errorf("%+v, %v", in, took)
	}
}

// TestAHangBeganWhenProgressEnded: the time in which nobody saw it is a part of what it cost.
func TestAHangBeganWhenProgressEnded(t *testing.T) {
	y := newStory(t)
	for i := range y.said {
		y.said[i].Watched, y.said[i].HungAt = true, now
		y.said[i].Hung = []link.RankState{{Rank: i, Step: 40, State: 'S', Silent: 6 * time.Second, Collective: i == 0}}
	}
	in := y.turn(time.Second)
	if in.Count != 1 || in.Causes["hang"] != 1 || in.Last[0].Phases()[api.RecoveryDetect] != 7*time.Second {
		t.Errorf("%+v", in)
	}
}

// TestEndsOnRequestAreNoFailures: ranks that are told to end say that they failed.
func TestEndsOnRequestAreNoFailures(t *testing.T) {
	y := newStory(t)
	y.task.Spec.Stop = true
	y.fail(0, 0)
	if in := y.turn(time.Second); in != nil {
		t.Errorf("%+v", in)
	}
}

func TestOnlyTheLastRecoveriesAreKept(t *testing.T) {
	y := newStory(t)
	for n := range 2 * api.MaxRecoveries {
		y.task.Spec.Restart.MaxRestarts = 1000
		begin := time.Duration(n) * time.Hour
		y.fail(0, begin)
		y.turn(begin)
		y.start(0, int64(n+2))
		y.start(1, int64(n+2))
		y.said[0].Step, y.said[1].Step = 100, 100
		y.turn(begin + time.Minute)
	}
	in := y.task.Status.Interruptions
	if in.Count != 2*api.MaxRecoveries || len(in.Last) != api.MaxRecoveries || in.Last[0].Generation != api.MaxRecoveries+2 {
		t.Errorf("%d, %d kept, the first of generation %d", in.Count, len(in.Last), in.Last[0].Generation)
	}
}

// TestAScriptThatBeginsAgainAtStepOneLosesAllSteps replays the life of a Transformers script without the SDK: its bar was at 640 when it was
// killed, and began at 1 again. It was told as "lost steps 0, recovered in 0.04 s, effective time 99.97 %".
func TestAScriptThatBeginsAgainAtStepOneLosesAllSteps(t *testing.T) {
	y := newStory(t)
	tell := func(first, step int64, after time.Duration) {
		for i := range y.said {
			y.said[i].Generation = int64(y.task.Status.Generation)
		}
		s := &y.said[0] // only the first rank prints
		s.Printed, s.Watched, s.Step = true, true, step
		if s.SteppedAt.IsZero() {
			s.SteppedAt = now.Add(after)
		}
		s.Pace.Course = link.Course{First: first, LastAt: now.Add(after), Patience: 30 * time.Second}
	}
	y.said[1] = link.Ranks{Generation: 1, Port: 4001}
	tell(1, 640, 0)
	y.turn(0)
	y.fail(0, time.Second)
	y.turn(1040 * time.Millisecond)
	y.start(0, 2)
	y.start(1, 2)
	if in := y.turn(1100 * time.Millisecond); in.Last[0].EndedAt != nil || in.Recovered != 0 {
		t.Fatalf("it runs, and has not recovered: %+v", in.Last[0])
	}
	tell(1, 3, 3*time.Second)
	if in := y.turn(3 * time.Second); in.LostSteps != 640 || in.Last[0].EndedAt != nil {
		t.Fatalf("%+v", in)
	}
	tell(1, 640, 100*time.Second)
	if in := y.turn(100 * time.Second); in.Last[0].EndedAt != nil {
		t.Fatal("it was there before")
	}
	tell(1, 641, 101*time.Second)
	in := y.turn(101 * time.Second)
	if in.Recovered != 1 || in.LostSteps != 640 || in.LostTime.Std() != 100*time.Second {
		t.Errorf("%+v", in)
	}
	spent, whole := y.task.Status.Time.Until(now.Add(101 * time.Second))
	if spent[api.TimeRecovering] != 100*time.Second || whole != spent[api.TimeRecovering]+spent[api.TimeEffective]+spent[api.TimeStarting] {
		t.Errorf("%v", spent)
	}
}

// TestAStalledGangIsNotEffective: the ranks of a gang whose launchers are stopped say nothing, and its effective time does not rise.
func TestAStalledGangIsNotEffective(t *testing.T) {
	y := newStory(t)
	step := func(n int64, after time.Duration) {
		for i := range y.said {
			y.said[i].Step, y.said[i].Pace.Course.LastAt = n, now.Add(after)
		}
	}
	y.turn(0)
	step(60, 20*time.Second)
	y.turn(21 * time.Second)
	effective, _, ok := y.task.Status.Times(now.Add(21 * time.Second))
	if !ok || effective == 0 {
		t.Fatal(effective, ok)
	}
	if y.last.wake == 0 {
		t.Fatal("nobody looks at it again")
	}
	y.turn(51 * time.Second)
	if u := y.task.Status.Time; u.Doing != api.TimeStalled {
		t.Fatalf("%+v", u)
	}
	at := now.Add(10 * time.Minute)
	later, whole, _ := y.task.Status.Times(at)
	spent, _ := y.task.Status.Time.Until(at)
	if later > now.Add(20*time.Second).Sub(y.task.Status.Time.From) || spent[api.TimeStalled] != 10*time.Minute-20*time.Second || whole != at.Sub(y.task.Status.Time.From) {
		t.Errorf("effective %s of %s, %v", later, whole, spent)
	}
	for i := range y.said { // it goes on after all
		y.said[i].Pace.Course.Stalled = 100 * time.Second
	}
	step(61, 120*time.Second)
	y.turn(121 * time.Second)
	if u := y.task.Status.Time; u.Doing != api.TimeEffective || u.Spent[api.TimeStalled].Std() != 100*time.Second {
		t.Errorf("%+v", u)
	}
}
