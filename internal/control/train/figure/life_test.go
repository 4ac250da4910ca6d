package figure

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
)

// The lives of tasks, made up at random, and their plain accounting: the generator knows what every millisecond was spent with and counts
// it on a sheet of its own; the figures see only what launchers say and what phases there are, in turns at odd times. Both must agree.

const patience = 10 * time.Second

// sheet is the plain accounting.
type sheet struct {
	spent                        map[api.TimeKind]time.Duration
	lost                         int64
	untold, failures, recoveries int
	recovering                   time.Duration // over all, by failures
}

// living is a task while its life is made up.
type living struct {
	t      *testing.T
	rnd    *rand.Rand
	now    time.Time
	began  time.Time
	status api.TrainingTaskStatus
	said   [2]link.Ranks
	tells  bool // its ranks tell steps

	sheet
	reached int64     // the farthest step
	made    int64     // by this generation
	last    time.Time // of the last step, or of what is not counted yet
	doing   api.TimeKind
	failed  time.Time // what is under way began then; zero: nothing failed
	owed    int64     // steps that were lost and of which none was made again yet: made when it failed
}

func (l *living) ms(from, to int) time.Duration {
	return time.Duration(from+l.rnd.IntN(to-from)) * time.Millisecond
}

// wait lets time pass, with a look now and then.
func (l *living) wait(d time.Duration) {
	until := l.now.Add(d)
	for {
		next := l.now.Add(l.ms(200, 9000))
		if !next.Before(until) {
			l.now = until
			return
		}
		l.now = next
		l.turn(nil)
	}
}

// turn is one of the controller's; change is what it decides beside figures. It is not written where nothing says that it must be.
func (l *living) turn(change func(s *api.TrainingTaskStatus)) {
	l.t.Helper()
	before := l.status
	after := l.status
	if change != nil {
		change(&after)
	}
	f := Turn{Terms: gang.Terms{Task: &api.TrainingTask{Status: before}}, Before: &before, After: &after, Now: l.now, Changed: change != nil}
	for i := range l.said {
		f.Members = append(f.Members, gang.Member{Name: engine.Name(fmt.Sprint("r", i)), Role: "worker", Index: i, State: engine.StateRunning, Attached: true, Ranking: gang.Ranking{Ranks: 1, First: i}, Said: l.said[i]})
	}
	f.Recoveries()
	f.Time()
	if f.Changed {
		l.status = after
	}
	if u := l.status.Time; u != nil {
		if _, whole := u.Until(l.now); whole != l.now.Sub(u.From) && u.Doing != api.TimeEffective {
			l.t.Fatalf("the parts are %s, the whole %s: %+v", whole, l.now.Sub(u.From), u)
		}
	}
}

// paint counts the time since the last mark.
func (l *living) paint(kind api.TimeKind) {
	l.spent[kind] += l.now.Sub(l.last)
	l.last = l.now
}

// start is of the first generation, or of the first after an end.
func (l *living) start() {
	l.said = [2]link.Ranks{}
	l.status.Generation++
	l.generation(l.rnd.Int64N(2) * l.reached / 2)
	at := l.now
	if l.last.IsZero() {
		l.last, l.began = at, at
	} else {
		l.paint(api.TimeStopped)
	}
	l.doing = api.TimeStarting
	l.wait(l.ms(0, 500))
	l.turn(func(s *api.TrainingTaskStatus) { s.Phase, s.StartedAt, s.FinishedAt = api.PhaseRunning, &at, nil })
}

// generation starts ranks that go on from a step; they are told another one at times, and go on from theirs all the same.
func (l *living) generation(from int64) {
	for i := range l.said {
		l.said[i] = link.Ranks{Generation: int64(l.status.Generation), Port: 1}
		l.said[i].Pace.Course = link.Course{LastAt: l.now, Patience: patience}
	}
	told := from
	if l.rnd.IntN(3) == 0 {
		told = 0 // as with scripts that save themselves
	}
	l.status.Rendezvous = &api.Rendezvous{Restore: told}
	for i := range l.said {
		l.said[i].Step = told
	}
	l.made = from
}

// step is one of all ranks; stalled is for how long they stood still before it.
func (l *living) step(stalled time.Duration) {
	l.made++
	if l.failed.IsZero() || !l.tells {
		switch {
		case l.made > l.reached && l.doing == api.TimeEffective && stalled > 0:
			l.paint(api.TimeStalled)
		case l.made > l.reached:
			l.paint(l.doing)
			l.doing = api.TimeEffective
		}
	} else if l.made > l.reached {
		l.paint(api.TimeRecovering)
		l.recovering += l.now.Sub(l.failed)
		l.recoveries++
		l.failed, l.doing = time.Time{}, api.TimeEffective
	}
	l.reached = max(l.reached, l.made)
	for i := range l.said {
		s := &l.said[i]
		if !l.tells {
			continue
		}
		if s.SteppedAt.IsZero() {
			s.SteppedAt, s.Pace.Course.First = l.now, l.made
			if i == 0 { // what the failed ones had made is lost from here on
				l.lost += max(l.owed-(l.made-1), 0)
				l.owed = 0
			}
		}
		s.Step, s.Pace.Course.LastAt = l.made, l.now
		s.Pace.Course.Stalled += stalled
	}
}

// train makes some steps, and is looked at now and then; when it passes the farthest it is looked at at once, as it is once a second then.
func (l *living) train(steps int) {
	pace := l.ms(50, 3000)
	for range steps {
		l.wait(pace)
		passes := l.made == l.reached
		l.step(0)
		if passes && l.tells && l.status.Time.Doing != api.TimeEffective {
			l.turn(nil)
		}
	}
}

// fail kills a rank, or the launcher, some time after the last step.
func (l *living) fail() {
	l.wait(l.ms(0, 40))
	at := l.now
	launcher := l.rnd.IntN(3) == 0 && l.tells && l.said[0].Pace.Course.First > 0
	l.wait(l.ms(0, 5000)) // until it is found
	if launcher {
		at = l.said[0].Pace.Course.LastAt // what is known is when it was last well
	}
	l.failing(at, func(s *api.TrainingTaskStatus) {
		rank := 1
		s.Failure = &api.ReplicaFailure{Replica: "r1", Role: "worker", Index: 1, Cause: "killed", Reason: engine.ReasonSignaled, At: at, Rank: &rank, Generation: s.Generation}
		if launcher {
			s.Failure.Rank, s.Failure.Reason, s.Failure.At = nil, engine.ReasonLauncherLost, l.now
		}
	})
}

// failing is what follows from a failure at a time.
func (l *living) failing(at time.Time, decide func(s *api.TrainingTaskStatus)) {
	l.failures++
	if l.failed.IsZero() {
		l.spent[l.doing] += at.Sub(l.last)
		l.last = at
	} else { // it failed again on the way back
		l.recovering += at.Sub(l.failed)
	}
	l.failed = at
	if l.reached > 0 {
		l.owed = max(l.owed, l.said[0].Step)
	}
	l.turn(func(s *api.TrainingTaskStatus) {
		s.Phase = api.PhaseRecovering
		decide(s)
	})
	l.wait(l.ms(0, 3000))
	from := l.rnd.Int64N(l.made + 1)
	if l.rnd.IntN(3) == 0 {
		from = 0 // it begins again at step 1
	}
	l.turn(func(s *api.TrainingTaskStatus) {
		s.Generation++
		s.Rendezvous = &api.Rendezvous{Restore: from}
	})
	l.generation(from)
	l.wait(l.ms(0, 3000))
	l.turn(func(s *api.TrainingTaskStatus) { s.Phase = api.PhaseRunning })
	if !l.tells || l.reached == 0 {
		l.recovering += l.now.Sub(l.failed)
		l.untold++
		l.paint(api.TimeRecovering)
		l.failed, l.doing = time.Time{}, api.TimeStarting
	}
}

// stall has nobody get on for a while, at last with a failure or not.
func (l *living) stall() {
	if !l.failed.IsZero() || l.doing != api.TimeEffective || !l.tells {
		return
	}
	gap := patience + l.ms(1000, 90_000)
	l.wait(gap)
	if l.rnd.IntN(2) == 0 {
		l.step(l.now.Sub(l.last))
		return
	}
	rank, silent := 0, l.now.Sub(l.last)
	for i := range l.said {
		l.said[i].Watched, l.said[i].HungAt = true, l.now
		l.said[i].Hung = []link.RankState{{Rank: i, State: 'S', Silent: silent}}
	}
	at := l.now
	l.failing(l.last, func(s *api.TrainingTaskStatus) {
		s.Failure = &api.ReplicaFailure{Replica: "r0", Role: "worker", Cause: "hang", Reason: "Hung", At: at, Rank: &rank, Generation: s.Generation}
	})
}

// pause is an announced one: an evaluation.
func (l *living) pause() {
	if !l.failed.IsZero() || l.doing != api.TimeEffective || !l.tells {
		return
	}
	at := func(on bool) {
		for i := range l.said {
			l.said[i].Pace.Course.LastAt, l.said[i].Pace.Course.Pausing = l.now, on
		}
	}
	at(true)
	l.wait(patience + l.ms(1000, 90_000))
	at(false)
	l.wait(l.ms(10, 1000))
	l.step(0)
}

// move gives the place up and goes on elsewhere.
func (l *living) move() {
	if !l.failed.IsZero() || l.doing != api.TimeEffective || !l.tells {
		return
	}
	l.wait(l.ms(0, 3000)) // it ends, and saves
	l.doing = api.TimeAway
	l.turn(func(s *api.TrainingTaskStatus) { s.Phase, s.Reason = api.PhasePending, "Preempted" })
	l.wait(l.ms(0, 60_000))
	from := l.rnd.Int64N(l.made + 1)
	l.turn(func(s *api.TrainingTaskStatus) {
		s.Phase, s.Generation, s.Rendezvous = api.PhaseInitializing, s.Generation+1, &api.Rendezvous{Restore: from}
	})
	l.generation(from)
	l.wait(l.ms(0, 3000))
	l.turn(func(s *api.TrainingTaskStatus) { s.Phase = api.PhaseRunning })
}

// end ends it; what was under way stays as it is.
func (l *living) end() {
	l.wait(l.ms(0, 3000))
	at := l.now
	kind := l.doing
	if !l.failed.IsZero() {
		kind = api.TimeRecovering
		l.recovering += at.Sub(l.failed)
	}
	l.paint(kind)
	l.failed, l.owed = time.Time{}, 0
	l.turn(func(s *api.TrainingTaskStatus) { s.Phase, s.FinishedAt = api.PhaseStopped, &at })
}

// restore takes up a task that had ended, from a step.
func (l *living) restore() {
	l.end()
	l.wait(l.ms(0, 60_000))
	l.turn(func(s *api.TrainingTaskStatus) {
		s.Phase, s.StartedAt, s.FinishedAt, s.Rendezvous, s.Failure = api.PhasePending, nil, nil, nil, nil
	})
	l.start()
	if told := l.status.Rendezvous.Restore; told > 0 { // what comes behind the step that was asked for is new
		l.reached = min(l.reached, told)
	}
}

// TestLives: 200 of them.
func TestLives(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			l := &living{t: t, rnd: rand.New(rand.NewPCG(seed, 1)), now: now, tells: seed%7 != 0, sheet: sheet{spent: map[api.TimeKind]time.Duration{}}}
			l.start()
			for range 2 + l.rnd.IntN(12) {
				l.train(l.rnd.IntN(30))
				switch l.rnd.IntN(7) {
				case 0, 1:
					l.fail()
				case 2:
					l.stall()
				case 3:
					l.pause()
				case 4:
					l.move()
				case 5:
					l.restore()
				}
			}
			l.end()
			l.compare()
		})
	}
}

func (l *living) compare() {
	l.t.Helper()
	u := l.status.Time
	want := map[api.TimeKind]time.Duration{}
	for kind, d := range l.spent {
		if !l.tells && (kind == api.TimeStarting || kind == api.TimeEffective) || l.reached == 0 && kind == api.TimeStarting {
			kind = api.TimeUnknown
		}
		if d > 0 {
			want[kind] += d
		}
	}
	got, whole := u.Until(l.now)
	if d := cmp.Diff(want, got); d != "" {
		l.t.Errorf("time: %s", d)
	}
	if whole != l.now.Sub(l.began) || !u.From.Equal(l.began) {
		l.t.Errorf("the parts add up to %s, its life was %s", whole, l.now.Sub(l.began))
	}
	if ratio, ok := l.status.EffectiveTime(l.now); ok != (l.tells && l.reached > 0) || ok && !(ratio >= 0 && ratio <= 1) {
		l.t.Errorf("effective time %v %v", ratio, ok)
	}
	in := CopyInterruptions(l.status.Interruptions)
	if in.Count != l.failures || in.LostSteps != l.lost || in.Untold != l.untold || in.Recovered != l.recoveries || in.LostTime.Std() != l.recovering {
		l.t.Errorf("%d failures (%d), %d steps lost (%d), %d untold (%d), %d recovered (%d), in %s (%s)",
			in.Count, l.failures, in.LostSteps, l.lost, in.Untold, l.untold, in.Recovered, l.recoveries, in.LostTime, l.recovering)
	}
}
