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
	return &story{t: t, task: tk, said: [2]link.Ranks{{Generation: 1, Port: 4000, Step: 40}, {Generation: 1, Port: 4001, Step: 41}}}
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
	y.said[i] = link.Ranks{Generation: generation, Port: 4000 + i, Step: y.task.Status.Rendezvous.Restore}
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
	if ratio, ok := y.task.Status.EffectiveTime(now.Add(20 * time.Second)); !ok || ratio != 0.95 {
		t.Error(ratio, ok)
	}
}

func TestARecoveryWithoutStepsEndsWhenAllRun(t *testing.T) {
	y := newStory(t)
	y.said[0].Step, y.said[1].Step = 0, 0
	y.fail(1, 0)
	y.turn(0)
	y.start(0, 2)
	y.start(1, 2)
	in := y.turn(time.Second)
	if r := in.Last[0]; r.EndedAt == nil || r.SteppedAt != nil || len(r.Phases()) != 4 || y.last.wake != 0 {
		t.Errorf("%+v", r)
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
