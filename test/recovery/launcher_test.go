package recovery

import (
	"testing"

	"github.com/fermi-cluster/fermi/internal/engine"
)

// TestLauncherLost: a launcher of a task that restarts as a whole is killed with SIGKILL. Its ranks are ended with it, the
// others too, and the next attempt, of all of them, ends with the weights and the curve of the run that was
// not interrupted; no process of the first is left.
func TestLauncherLost(t *testing.T) {
	w := newWorld(t)
	w.submit("whole", "0s")
	want, _, line := w.ended("whole")
	for try, name := range []string{"lost-0", "lost-1", "lost-2"} {
		tr := w.submit(name, "20ms")
		if !w.reach(tr, 10) && try < 2 {
			continue // it had ended by then
		}
		w.killLauncher(tr, 0)
		w.eventually("the next attempt", func() bool { return w.task(name).Status.Attempt == 2 })
		got, _, curve := w.ended(name)
		s := w.task(name).Status
		if got != want || len(curve) != len(line) {
			t.Errorf("other weights, or %d steps instead of %d", len(curve), len(line))
		}
		in := s.Interruptions
		if s.Phase != "Completed" || s.Attempt != 2 || len(s.Restarts) != 1 || in == nil || in.Count != 1 || in.Recovered != 1 {
			t.Errorf("%s in attempt %d after %d restarts: %s %+v", s.Phase, s.Attempt, len(s.Restarts), s.Message, in)
		}
		if f := in.Newest(); f == nil || f.Cause == "" || f.Kept != 0 {
			t.Errorf("%+v", f)
		}
		t.Logf("%s: %s, recovered in %v", engine.ReasonLauncherLost, in.Newest().Cause, in.Newest().Phases())
		return
	}
}
