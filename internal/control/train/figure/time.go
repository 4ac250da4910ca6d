package figure

import (
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// stallLook is how often a task that trains is looked at: a launcher that is stopped with its ranks says nothing.
const stallLook = 30 * time.Second

// Time keeps the account of the task's time: what happened by this turn, in order. It comes after Recoveries, whose failures it takes up.
// It is written where something else is, where what the task does has changed, and else as rarely as its pace.
func (t *Turn) Time() {
	if t.Over || t.Before.Phase.Finished() && t.After.Phase.Finished() {
		return
	}
	a := accountOf(t.Before.Time)
	a.follow(t.Clock)
	for _, h := range t.happenings(&a) {
		a.happen(h)
	}
	if a.TimeUse == nil || t.Before.Phase.Finished() {
		return
	}
	old := t.Before.Time
	every := min(max(t.Now.Sub(a.From)/10, paceFirst), paceLast)
	if !t.Changed && old != nil && old.Doing == a.Doing && (a.Doing != api.TimeEffective || a.At.Sub(old.At) < every) {
		return
	}
	if a.Clock == nil { // it begins with this turn
		a.follow(t.Clock)
	}
	a.happen(happening{what: looked, at: t.Now})
	t.After.Time, t.Changed = a.TimeUse, true
	a.endTruly(t.After)
}

// endTruly puts the end of a task whose wall clock was set while it ran where it belongs: so long after its start as it took.
func (a account) endTruly(status *api.TrainingTaskStatus) {
	if a.Clock == nil || a.Clock.Moved == 0 || status.FinishedAt == nil || !status.Phase.Finished() {
		return
	}
	at := status.FinishedAt.Add(-a.Clock.Moved.Std())
	status.FinishedAt = &at
}

// happenings are what this turn brought; a is the account before it.
func (t *Turn) happenings(a *account) (list []happening) {
	add := func(h happening) { list = append(list, h) }
	if start := t.After.StartedAt; start != nil && (a.TimeUse == nil || t.Before.StartedAt == nil) {
		h := happening{what: began, at: *start}
		if t.Before.StartedAt != nil { // it ran before accounts were kept
			h.at = t.Now
		}
		if r := t.After.Rendezvous; r != nil {
			h.step = stepOf(t.Task, r.Restore)
		}
		add(h)
	}
	trains := t.Before.Phase == api.PhaseRunning
	if trains {
		list = append(list, t.steps()...)
	}
	open := openRecovery(t.After.Interruptions)
	fails := open != nil && open.Role == ""
	switch {
	case fails:
		add(happening{what: failed, at: open.FailedAt, step: open.Step})
	case t.After.Phase == api.PhaseRecovering && t.After.Reason == "Restoring":
		add(happening{what: rewound, at: t.Now, step: t.rewindsTo()})
	case t.After.Phase == api.PhasePending && t.Before.Phase != api.PhasePending, trains && t.After.Phase == api.PhaseRecovering && t.crew().mains(),
		trains && t.After.Generation > t.Before.Generation:
		add(happening{what: left, at: t.Now})
	}
	if t.After.Phase == api.PhaseRunning && !trains {
		add(happening{what: ran, at: t.Now})
	}
	if t.After.Phase.Finished() {
		at := t.Now
		if t.After.FinishedAt != nil {
			at = *t.After.FinishedAt
		}
		add(happening{what: ended, at: at})
	}
	return list
}

// rewindsTo is the step that somebody asked the task to go on from.
func (t *Turn) rewindsTo() int64 {
	if r := t.Task.Spec.Restore; r != nil {
		return stepOf(t.Task, r.Step)
	}
	return 0
}

// stepOf is the step of the checkpoint that a task goes on from as was asked. Where its number need be no step all that is made from there on is new.
func stepOf(task *api.TrainingTask, step int64) int64 {
	if task.Spec.CheckpointFolder() != "" {
		return min(step, 1)
	}
	return step
}

// steps is what a generation that runs did, and that it stands still.
func (t *Turn) steps() (list []happening) {
	p := t.crew().progress("", t.Before.Generation)
	if !p.begun || p.step <= 0 {
		return nil
	}
	at := notAfter(p.lastAt, t.Now)
	if p.first > 0 {
		list = append(list, happening{what: stepped, at: notAfter(p.firstAt, t.Now), step: p.first, generation: t.Before.Generation})
	}
	list = append(list, happening{what: stepped, at: at, step: p.step, generation: t.Before.Generation, stalled: p.stalled})
	switch {
	case p.pausing:
		list = append(list, happening{what: paused, at: t.Now})
	case p.patience > 0 && t.Now.Sub(at) > p.patience:
		list = append(list, happening{what: stood, at: at})
	}
	if !t.After.Phase.Finished() {
		t.wakeIn(stallLook)
	}
	return list
}
