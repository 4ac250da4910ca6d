package launch

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
)

// The last save. When its ranks have ended and no other generation follows, what they saved lies in memory
// that goes with the launcher. So it says that it waits: the leader has the newest step that all hold
// persisted, due or not, and then lets go. The grace of the stop bounds it.

var errTooLate = errors.New("the time that the task had to end was over")

// lastUntil is how long the launcher may wait after the ranks of a generation ended.
func (w *warden) lastUntil() time.Time {
	if w.why != "" {
		return w.kill
	}
	return w.l.clock.Now().Add(w.l.replica.StopGrace.Std())
}

// saveLast waits until what the ranks hold is persisted, or can't be, and not beyond until.
func (l *launcher) saveLast(ctx context.Context, exit engine.Exit, until time.Time) {
	if l.open == nil || !l.clock.Now().Before(until) {
		return
	}
	l.hearOut(ctx, until)
	l.lookLast(exit.Reason)
	if !l.ranks.waitsLast(exit.Reason) {
		return
	}
	l.log.Info("ranks ended; waiting for their last step to be persisted", "until", until)
	for {
		select {
		case <-l.ranks.released:
			l.settleAll(ctx, until)
			return
		case <-ctx.Done():
			return
		case <-l.clock.After(until.Sub(l.clock.Now())):
			l.log.Warn("the last step was not persisted in time")
			l.ranks.late()
			return
		case <-l.stop.ch:
			grace, _ := l.stop.wish()
			if end := l.clock.Now().Add(grace); end.Before(until) {
				until = end
			}
		case <-l.clock.After(recordPoll):
			l.wishedStop()
		}
	}
}

// hearOut waits until everything that the ranks said before they ended is heard, and what they copied is summed.
func (l *launcher) hearOut(ctx context.Context, until time.Time) {
	late := l.clock.After(until.Sub(l.clock.Now()))
	for l.ranks.talking() {
		select {
		case <-l.ranks.gone:
		case <-late:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (r *ranks) talking() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.conns) > 0
}

// settleAll has what was committed put into order, as far as there is time.
func (l *launcher) settleAll(ctx context.Context, until time.Time) {
	late, done := l.clock.After(until.Sub(l.clock.Now())), make(chan struct{})
	select {
	case l.flush <- done:
	case <-late:
		return
	case <-ctx.Done():
		return
	}
	select {
	case <-done:
	case <-late:
	case <-ctx.Done():
	}
}

// waitsLast tells the leader that the launcher waits; false: its ranks hold nothing in common.
func (r *ranks) waitsLast(reason string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.common()) == 0 && !r.files || r.files && r.said.Keeping.File == 0 {
		return false
	}
	select {
	case <-r.released: // of nobody who waited
	default:
	}
	r.said.Keeping.Ended, r.said.Keeping.Wants = reason, nil // who could want more has ended
	r.report()
	return true
}

// late tells the leader that what is being persisted comes to nothing.
func (r *ranks) late() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.job != nil {
		left := *r.job
		left.tiers = slices.DeleteFunc(slices.Clone(left.tiers), func(tier string) bool {
			return slices.ContainsFunc(r.said.Persisted, func(p link.Persisted) bool { return p.Tier == tier && p.Step == left.step })
		})
		r.notePersisted(&left, nil, errTooLate)
	}
	r.report()
}
