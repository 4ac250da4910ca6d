package launch

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

// drag makes one rank slow, by stopping it for a part of the time: nothing else slows a process that waits
// for a card, and a CPU quota of its own is not to be had where groups with processes have no children. It is
// the warden's: its loop takes every turn and lets go in the end, so that a process stays stopped
// only if the launcher itself is killed in that moment, and then the engine ends the whole tree.
type drag struct {
	clock   clock.Clock
	proc    record.Process
	until   time.Time
	stopped bool
	tick    <-chan time.Time // nil: nobody is dragged
	pid     atomic.Int64     // whom the watch for hangs must not take for stopped; 0: nobody
}

// begin takes another one, or the same for longer.
func (d *drag) begin(p record.Process) error {
	d.end()
	d.proc, d.until = p, d.clock.Now().Add(dragFor)
	d.pid.Store(int64(p.PID))
	return d.turn()
}

// turn stops it, or lets it run, until the next.
func (d *drag) turn() error {
	if d.stopped || !d.clock.Now().Before(d.until) {
		return d.run()
	}
	if err := d.proc.Signal(unix.SIGSTOP); err != nil { // it has ended
		d.tick = nil
		d.pid.Store(0)
		return err
	}
	d.stopped, d.tick = true, d.clock.After(dragStop)
	return nil
}

// run lets it run for a turn, or for good when its time is over.
func (d *drag) run() error {
	err := d.proc.Signal(unix.SIGCONT)
	d.stopped, d.tick = false, nil
	if err == nil && d.clock.Now().Before(d.until) {
		d.tick = d.clock.After(dragRun)
		return nil
	}
	d.pid.Store(0)
	return err
}

// rest lets it run for a turn, so that it can answer.
func (d *drag) rest() {
	if d.stopped {
		_ = d.run()
	}
}

// end lets go.
func (d *drag) end() {
	if d.tick == nil {
		return
	}
	d.until = time.Time{}
	_ = d.run()
}

// look is a census for the watch for hangs: one that we stop for a moment is slow, not stopped.
func (d *drag) look() func(pid int, whole bool) *vitals {
	var c census
	return func(pid int, whole bool) *vitals {
		v := c.vitalsOf(pid, whole)
		if v != nil && v.state == 'T' && d.pid.Load() == int64(pid) {
			v.state = 'S'
		}
		return v
	}
}
