package launch

import (
	"os/exec"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine/record"
)

// TestDrag: whoever is dragged is stopped for a part of the time, is never seen as stopped by the watch for
// hangs, and runs when it was let go.
func TestDrag(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	p, err := record.Describe(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	stopped := func(want bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); (new(census).vitalsOf(p.PID, false).state == 'T') != want; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("never stopped: %v", want)
			}
		}
	}
	d := drag{clock: clock.NewFake(time.Now())}
	if err := d.begin(p); err != nil {
		t.Fatal(err)
	}
	stopped(true)
	if v := d.look()(p.PID, true); v.state == 'T' {
		t.Error("it is taken for stopped")
	}
	if err := d.turn(); err != nil || d.tick == nil {
		t.Fatal(err, d.tick)
	}
	stopped(false)
	if err := d.turn(); err != nil {
		t.Fatal(err)
	}
	stopped(true)
	d.rest()
	stopped(false)
	if err := d.turn(); err != nil {
		t.Fatal(err)
	}
	d.end()
	stopped(false)
	if d.tick != nil || d.pid.Load() != 0 {
		t.Error("it was not let go")
	}

	if err := d.begin(p); err != nil {
		t.Fatal(err)
	}
	d.until = time.Time{} // its time is over
	if err := d.turn(); err != nil || d.tick != nil {
		t.Error(err, "it goes on")
	}
	stopped(false)
	if err := d.begin(p); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	d.stopped = false
	if err := d.turn(); err == nil || d.tick != nil || d.pid.Load() != 0 {
		t.Error("one that has ended is dragged on")
	}
}
