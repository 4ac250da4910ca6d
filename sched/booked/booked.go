// Package booked judges what bookings keep off which nodes.
//
// Place: layer 2. Promise, in one sentence: while a booking is active only work of its projects stands on its nodes; before that, work of
// others begins there only if it says that it will have ended, or if it may be moved; work of unknown length stays away for the booking's
// notice. Enemies: a maintenance that kills a week of training, a cluster that stands empty for two weeks because of one.
package booked

import (
	"slices"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/booking"
)

// Work is what counts of work that would begin now.
type Work struct {
	Project string
	Ends    time.Duration // within so long it has ended, as it says; 0: unknown
	Moves   bool          // it may be moved: it is preemptible, or goes on from what it has saved
}

// Keeps says that a booking keeps work off its nodes now.
func Keeps(b *booking.BookingSpec, w Work, now time.Time) bool {
	switch b.PhaseAt(now) {
	case booking.Over:
		return false
	case booking.Active:
		return !slices.Contains(b.Projects, w.Project)
	}
	switch {
	case slices.Contains(b.Projects, w.Project) || w.Moves:
		return false
	case w.Ends > 0:
		return now.Add(w.Ends).After(b.From)
	}
	return !now.Before(b.From.Add(-b.Notice.Std()))
}

// Leaves says that work of a project that stands on its nodes has to go.
func Leaves(b *booking.BookingSpec, project string, now time.Time) bool {
	return b.PhaseAt(now) == booking.Active && !slices.Contains(b.Projects, project)
}

// lookEvery is how often bookings that have not begun are looked at: work that says how long it takes comes too late by and by.
const lookEvery = time.Minute

// Next is when to judge again; zero: never by itself.
func Next(b *booking.BookingSpec, now time.Time) time.Time {
	switch b.PhaseAt(now) {
	case booking.Over:
		return time.Time{}
	case booking.Active:
		return b.To
	}
	next := now.Add(lookEvery)
	if b.From.Before(next) {
		return b.From
	}
	return next
}
