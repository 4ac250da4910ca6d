package train

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
)

func TestThePaceIsOfAllRanks(t *testing.T) {
	y := newStory(t)
	for i := range y.said {
		y.said[i].SteppedAt = time.Time{}
	}
	if y.turn(0); y.task.Status.Pace != nil || y.last.wake != 0 {
		t.Fatal("a pace of ranks that don't report")
	}
	for i := range y.said { // one rank each, 10 steps of half a second
		y.said[i].SteppedAt = now
		y.said[i].Pace = link.Pace{Steps: 10, Seconds: 5, Samples: 320, Tokens: 1000, Flops: 5e14, Waited: 1}
	}
	y.said[0].Pace.Scale, y.said[0].Pace.Skipped = 65536, 1
	y.said[1].Pace.Scale, y.said[1].Pace.Skipped = 32768, 2 // it is a step ahead
	y.turn(time.Second)
	want := &api.Pace{
		At: now.Add(time.Second), Step: 40, StepTime: api.Duration(500 * time.Millisecond),
		SamplesPerSecond: 128, TokensPerSecond: 400, FlopsPerSecond: 2e14, DataWait: 0.2, LossScale: 32768, SkippedSteps: 2,
	}
	if d := cmp.Diff(want, y.task.Status.Pace); d != "" {
		t.Error(d)
	}
	y.said[0].Pace.Samples *= 2
	if y.turn(2 * time.Second); y.last.commit || y.last.wake == 0 || y.last.wake > 10*time.Second {
		t.Errorf("commit %v, wake %s", y.last.commit, y.last.wake)
	}
	if y.turn(20 * time.Second); y.task.Status.Pace.SamplesPerSecond != 192 {
		t.Errorf("%+v", y.task.Status.Pace)
	}
	// The end is written whenever it comes.
	s := snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: y.task, Placement: placed()}}}
	for i := range y.said {
		y.said[i].Step = 99
		m := at(i, 1, engine.StateDone, false, &engine.Exit{Reason: engine.ReasonSucceeded, At: now})
		m.Said = y.said[i]
		s.Members = append(s.Members, m)
	}
	if p := decide(s, now.Add(21*time.Second)); p.status.Phase != api.PhaseCompleted || p.status.Pace.Step != 99 {
		t.Errorf("%s at %+v", p.status.Phase, p.status.Pace)
	}
}
