package figure

import (
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/moment"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Turn is what figures are made of, and what they bring.
type Turn struct {
	gang.Terms
	Members gang.Members
	Before  *api.TrainingTaskStatus // as it was read; never changed
	After   *api.TrainingTaskStatus // as it will be written; figures are put in here
	Over    bool                    // the task leaves the store: nothing is written down any more
	Leaves  bool                    // it was told to end, to leave or to go back: ends of ranks are no failures
	Now     time.Time
	Clock   *moment.Mark // the same by a clock that nobody sets; nil: there is none

	Changed bool // something was put in
	Events  []Event
	Wake    time.Duration // when to look again; 0: on a change
}

// Event is something for people to know.
type Event struct {
	Warning bool
	Reason  string
	Message fault.Text
	// Once names the happening within the task, so that a repeat is not told twice.
	Once string
}

func (t *Turn) tell(warning bool, reason, once string, message fault.Text) {
	t.Events = append(t.Events, Event{warning, reason, message, once})
}

func (t *Turn) wakeIn(d time.Duration) {
	if t.Wake == 0 || t.Wake > d {
		t.Wake = d
	}
}

func (t *Turn) crew() *crew {
	return &crew{Terms: t.Terms, members: t.Members, tells: t.Before.Time != nil && t.Before.Time.Step > 0}
}

// at is the time, to keep.
func (t *Turn) at() *time.Time {
	now := t.Now
	return &now
}
