package process

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
		for deadline := time.Now().Add(time.Minute); (new(Census).VitalsOf(p.PID, false).State == 'T') != want; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("never stopped: %v", want)
			}
		}
	}
	d := Drag{Clock: clock.NewFake(time.Now())}
	if err := d.Begin(p); err != nil {
		t.Fatal(err)
	}
	stopped(true)
	if v := d.Look()(p.PID, true); v.State == 'T' {
		t.Error("it is taken for stopped")
	}
	if err := d.Turn(); err != nil || d.Tick == nil {
		t.Fatal(err, d.Tick)
	}
	stopped(false)
	if err := d.Turn(); err != nil {
		t.Fatal(err)
	}
	stopped(true)
	d.Rest()
	stopped(false)
	if err := d.Turn(); err != nil {
		t.Fatal(err)
	}
	d.End()
	stopped(false)
	if d.Tick != nil || d.pid.Load() != 0 {
		t.Error("it was not let go")
	}

	if err := d.Begin(p); err != nil {
		t.Fatal(err)
	}
	d.until = time.Time{} // its time is over
	if err := d.Turn(); err != nil || d.Tick != nil {
		t.Error(err, "it goes on")
	}
	stopped(false)
	if err := d.Begin(p); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	d.stopped = false
	if err := d.Turn(); err == nil || d.Tick != nil || d.pid.Load() != 0 {
		t.Error("one that has ended is dragged on")
	}
}
