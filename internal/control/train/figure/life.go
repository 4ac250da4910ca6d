package figure

import (
	"maps"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/moment"
)

// The account of a task's time. It is kept by what happens in its life, in order, and by nothing else: the same happenings make the same
// account, and its parts add up to the time from the first start.
//
// The simple story: at each moment a task does one kind of thing, and a happening says what it does from then on. What differs: a task that
// trains is believed only up to its newest step. What came after is known when the next step is told, with how much of it was a stall,
// or when it is found that it stands still. And where no step was ever told, nobody knows whether it trains: that time is unknown.

// happening is one of these.
type happening struct {
	what happens
	at   time.Time
	step int64 // stepped: that all ranks have made; failed: that one of them had; began and rewound: the one to go on from
	// generation and stalled: of the launchers that told the step, and for how long these stood still in it.
	generation int
	stalled    time.Duration
}

type happens int

const (
	began   happens = iota // its processes started, for the first time or after an end
	ran                    // all ranks of a generation run
	stepped                // a step was made
	paused                 // it is in a pause that it announced
	stood                  // since then it stands still
	failed                 // since then it has failed
	left                   // it gives its place, or its ranks, up without a failure
	rewound                // likewise, to go on from an earlier step as was asked
	looked                 // nothing happened
	ended                  // its last process ended
)

// account keeps a task's time. What it was made of is left as it is.
type account struct {
	*api.TimeUse
}

func accountOf(old *api.TimeUse) account {
	if old == nil {
		return account{}
	}
	out := *old
	out.Spent = maps.Clone(old.Spent)
	return account{&out}
}

// follow moves the account with a wall clock that was set since it was written: what was not yet counted took as long as it did by
// the other clock.
func (a *account) follow(now *moment.Mark) {
	if a.TimeUse == nil || now == nil {
		return
	}
	next := *now
	if old := a.Clock; old != nil {
		moved := now.MovedSince(old)
		a.At, next.Moved = a.At.Add(moved), old.Moved+api.Duration(moved)
	}
	a.Clock = &next
}

// pass counts the time until then for what was done.
func (a *account) pass(until time.Time) {
	if d := until.Sub(a.At); d > 0 {
		a.add(a.Doing, d)
		if a.Doing == api.TimeStalled {
			a.Counted += api.Duration(d)
		}
		a.At = until
	}
}

func (a *account) add(kind api.TimeKind, d time.Duration) {
	if a.Spent == nil {
		a.Spent = map[api.TimeKind]api.Duration{}
	}
	if a.Spent[kind] += api.Duration(d); a.Spent[kind] == 0 {
		delete(a.Spent, kind)
	}
}

// happen takes up a happening.
func (a *account) happen(h happening) {
	if a.TimeUse == nil {
		if h.what == began {
			a.TimeUse = &api.TimeUse{From: h.at, At: h.at, Doing: api.TimeUnknown}
		}
		return
	}
	if a.Doing == api.TimeStopped && h.what != began {
		return
	}
	switch h.what {
	case began:
		a.begin(h)
	case ran:
		if a.Step == 0 && (a.Doing == api.TimeRecovering || a.Doing == api.TimeAway) { // that is all that will be known
			a.pass(h.at)
			a.Doing = api.TimeUnknown
		}
	case stepped:
		a.advance(h)
	case paused:
		if a.Doing == api.TimeEffective || a.Doing == api.TimeStalled {
			a.Doing = api.TimeEffective
			a.pass(h.at)
		}
	case stood:
		if a.Doing == api.TimeEffective {
			a.pass(h.at)
			a.Doing = api.TimeStalled
		}
	case failed:
		a.fail(h)
	case left, rewound:
		a.leave(h)
	case looked:
		if a.Doing != api.TimeEffective {
			a.pass(h.at)
		}
	case ended:
		a.pass(h.at)
		a.Doing = api.TimeStopped
	}
}

// begin is the start of one that had ended.
func (a *account) begin(h happening) {
	if a.Doing != api.TimeStopped {
		return
	}
	a.pass(h.at)
	a.rewind(h.step)
	if a.Doing = api.TimeStarting; a.Step == 0 {
		a.Doing = api.TimeUnknown
	}
}

// advance is a step. One that was made before says only that it lives.
func (a *account) advance(h happening) {
	if h.step <= a.Step {
		return
	}
	switch {
	case a.Step == 0: // so there are steps, and what was before them was the start
		a.pass(h.at)
		a.add(api.TimeStarting, a.Spent[api.TimeUnknown].Std())
		a.add(api.TimeUnknown, -a.Spent[api.TimeUnknown].Std())
	case a.Doing == api.TimeEffective || a.Doing == api.TimeStalled:
		a.train(h)
	default:
		a.pass(h.at)
	}
	a.Doing, a.Step, a.Generation, a.Counted = api.TimeEffective, h.step, h.generation, api.Duration(h.stalled)
}

// train counts the time since the last step. What its launchers call a stall is one; where it was taken for one too long, or wrongly, it
// is put right.
func (a *account) train(h happening) {
	if h.generation != a.Generation {
		a.Counted = 0
	}
	window := max(h.at.Sub(a.At), 0)
	stall := max(min(h.stalled-a.Counted.Std(), window), -a.Spent[api.TimeStalled].Std())
	a.add(api.TimeStalled, stall)
	a.add(api.TimeEffective, window-stall)
	a.At = a.At.Add(window)
}

// fail is a failure. One that is found late began when it was last seen to get on: the stall that it was taken for is a part of it.
func (a *account) fail(h happening) {
	if a.Doing == api.TimeStalled && h.at.Before(a.At) {
		wrong := min(a.At.Sub(h.at), a.Spent[api.TimeStalled].Std())
		a.add(api.TimeStalled, -wrong)
		a.add(api.TimeRecovering, wrong)
	} else if a.Doing != api.TimeRecovering {
		a.pass(h.at)
	}
	a.Doing = api.TimeRecovering
	if a.Step > 0 {
		a.Step = max(a.Step, h.step)
	}
}

// leave: what it did since its last step it will do again.
func (a *account) leave(h happening) {
	if a.Doing != api.TimeEffective {
		a.pass(h.at)
	}
	if a.Doing != api.TimeRecovering { // it has yet to come back
		a.Doing = api.TimeAway
	}
	if h.what == rewound {
		a.rewind(h.step)
	}
}

// rewind: what comes behind this step is new, though it was made before; 0: the farthest that it made counts.
func (a *account) rewind(step int64) {
	if a.Step > 0 && step > 0 {
		a.Step = min(a.Step, step)
	}
}
