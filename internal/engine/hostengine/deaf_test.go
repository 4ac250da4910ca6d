package hostengine

import (
	"syscall"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/engine"
)

// TestFrozenLauncher: a launcher that is frozen hears no order. With a grace it is waited for, and obeys when it goes on; without
// any it is killed, and what it ran with it.
func TestFrozenLauncher(t *testing.T) {
	h := newHouse(t)
	e, _ := h.open()
	e.deaf = 50 * time.Millisecond
	start := func() engine.Replica {
		r := replicaOf(taskName(), 0, nil, "/bin/sh", "-c", "sleep 1000")
		h.start(e, r)
		h.await(e, r, engine.StateRunning)
		if err := h.launcher(r).Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		return r
	}
	patient, deaf := start(), start()
	if err := e.Stop(t.Context(), patient.Name, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := e.Stop(t.Context(), deaf.Name, 0); err != nil {
		t.Fatal(err)
	}
	if o := h.await(e, deaf, engine.StateDone); o.Exit.Reason != engine.ReasonLauncherLost || h.child(deaf).Alive() {
		t.Errorf("%+v", o.Exit)
	}
	if !h.launcher(patient).Alive() {
		t.Error("the one that was given time was killed")
	}
	if err := h.launcher(patient).Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if o := h.await(e, patient, engine.StateDone); o.Exit.Reason != engine.ReasonStopped {
		t.Errorf("%+v", o.Exit)
	}
}
