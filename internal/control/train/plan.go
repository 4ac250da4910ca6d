package train

import (
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/fence"
	"github.com/fermi-cluster/fermi/internal/control/train/figure"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// plan is what to do, in the order apply does it.
type plan struct {
	status    api.TrainingTaskStatus
	usage     bool // write the usage rows of members that run or ended first
	commit    bool // status changed, or the placement must go or change
	dropPlace bool
	moveOn    bool               // the place reserved for it becomes its place
	resize    *api.PlacementSpec // its place, with replicas that came or went; nil: as it is
	fence     []fence.Given      // who is given up in silence
	orders
	archive bool // move the task to history
	erase   bool // delete the task and its bytes
	swap    shun // what to get away from; no node: nothing
	events  []event
	wake    time.Duration
}

// orders are for the engine and for launchers.
type orders struct {
	start   []int // of everybody
	stop    []engine.Name
	goAhead []int // members
	check   []int // of the roll call: who is asked for its preflight
	late    []int // of everybody: who came later and is asked for its preflight
	freeze  []int // members whose ranks keep what they hold until the next generation
	remove  []engine.Name
	hurry   bool // who is stopped waits for somebody who is gone, and can save nothing
}

type event = figure.Event

func (p *plan) to(phase api.Phase, reason string, message fault.Text) {
	if !api.TaskPhases.Allows(p.status.Phase, phase) {
		panic("train: no move from " + string(p.status.Phase) + " to " + string(phase))
	}
	p.status.Phase, p.status.Reason, p.status.Message = phase, reason, message
	if phase == api.PhasePending || phase.Finished() {
		p.status.Spares = nil
	}
	p.commit = true
}

// note changes only why the task is where it is.
func (p *plan) note(reason string, message fault.Text) {
	if p.status.Reason != reason {
		p.status.Reason, p.status.Message, p.commit = reason, message, true
	}
}

func (p *plan) tell(warning bool, reason, once string, message fault.Text) {
	p.events = append(p.events, event{Warning: warning, Reason: reason, Message: message, Once: once})
}

// wakeIn asks for a turn within d.
func (p *plan) wakeIn(d time.Duration) {
	if p.wake == 0 || p.wake > d {
		p.wake = d
	}
}
