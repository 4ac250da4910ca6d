package process

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine/record"
)

const (
	dragFor  = 20 * time.Second // a rank is made slow, then it is let go
	dragStop = 60 * time.Millisecond
	dragRun  = 40 * time.Millisecond // so it takes two and a half times as long: less than a hang
)

// Drag makes one rank slow, by stopping it for a part of the time: nothing else slows a process that waits
// for a card, and a CPU quota of its own is not to be had where groups with processes have no children. It is
// the warden's: its loop takes every turn and lets go in the end, so that a process stays stopped
// only if the launcher itself is killed in that moment, and then the engine ends the whole tree.
type Drag struct {
	Clock   clock.Clock
	proc    record.Process
	until   time.Time
	stopped bool
	Tick    <-chan time.Time // nil: nobody is dragged
	pid     atomic.Int64     // whom the watch for hangs must not take for stopped; 0: nobody
}

// Begin takes another one, or the same for longer.
func (d *Drag) Begin(p record.Process) error {
	d.End()
	d.proc, d.until = p, d.Clock.Now().Add(dragFor)
	d.pid.Store(int64(p.PID))
	return d.Turn()
}

// Turn stops it, or lets it run, until the next.
func (d *Drag) Turn() error {
	if d.stopped || !d.Clock.Now().Before(d.until) {
		return d.run()
	}
	if err := d.proc.Signal(unix.SIGSTOP); err != nil { // it has ended
		d.Tick = nil
		d.pid.Store(0)
		return err
	}
	d.stopped, d.Tick = true, d.Clock.After(dragStop)
	return nil
}

// run lets it run for a turn, or for good when its time is over.
func (d *Drag) run() error {
	err := d.proc.Signal(unix.SIGCONT)
	d.stopped, d.Tick = false, nil
	if err == nil && d.Clock.Now().Before(d.until) {
		d.Tick = d.Clock.After(dragRun)
		return nil
	}
	d.pid.Store(0)
	return err
}

// Rest lets it run for a turn, so that it can answer.
func (d *Drag) Rest() {
	if d.stopped {
		_ = d.run()
	}
}

// End lets go.
func (d *Drag) End() {
	if d.Tick == nil {
		return
	}
	d.until = time.Time{}
	_ = d.run()
}

// Look is a census for the watch for hangs: one that we stop for a moment is slow, not stopped.
func (d *Drag) Look() func(pid int, whole bool) *Vitals {
	var c Census
	return func(pid int, whole bool) *Vitals {
		v := c.VitalsOf(pid, whole)
		if v != nil && v.State == 'T' && d.pid.Load() == int64(pid) {
			v.State = 'S'
		}
		return v
	}
}
