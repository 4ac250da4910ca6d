package disk

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/test/harness"
)

// TestClocks: while a task runs the wall clocks of the server and of its launcher are set a day and a year ahead, and behind. What it
// costs while it runs and when it has ended, and how long it is said to have run, is what it took.
func TestClocks(t *testing.T) {
	w := newWorld(t, nil)
	w.up()
	server, err := harness.WallClockOf(w.PID())
	if err != nil {
		t.Skip("the clock of a process can't be set here:", err)
	}
	for i, skew := range []time.Duration{24 * time.Hour, -24 * time.Hour, 365 * 24 * time.Hour, -365 * 24 * time.Hour} {
		w.skewed(t, server, fmt.Sprint("task-", i), skew)
	}
}

func (w *world) skewed(t *testing.T, server *harness.WallClock, name string, skew time.Duration) {
	t.Helper()
	began := time.Now()
	task := shell(name, "sleep 100000")
	task.Spec.Roles[0].Resources.CPU = 1000
	w.submit(task)
	w.phase(name, api.PhaseRunning)
	for _, pid := range w.launchers(t) {
		c, err := harness.WallClockOf(pid)
		if err == nil {
			err = c.Set(skew)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := server.Set(skew); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Set(0); err != nil {
			t.Error(err)
		}
	}()
	running := w.charged(t, name)
	if took := time.Since(began); running <= 0 || running > took {
		t.Errorf("clock %v: while it runs %v are charged of %v", skew, running, took)
	}
	harness.Eventually(t, "it ran for a while", func() bool { return w.charged(t, name) > running })
	if err := w.api.Stop(t.Context(), "default", name); err != nil {
		t.Fatal(err)
	}
	st := w.phase(name, api.PhaseStopped).Status
	took := time.Since(began)
	if all := w.charged(t, name); all <= running || all > took {
		t.Errorf("clock %v: %v are charged of %v", skew, all, took)
	}
	if st.StartedAt == nil || st.FinishedAt == nil || st.Time == nil {
		t.Fatalf("clock %v: %+v", skew, st)
	}
	spent := time.Duration(0)
	for _, d := range st.Time.Spent {
		spent += d.Std()
	}
	for what, d := range map[string]time.Duration{"from start to end": st.FinishedAt.Sub(*st.StartedAt), "account": spent} {
		if d < 0 || d > took {
			t.Errorf("clock %v, %s: it is said to have run for %v, and took less than %v", skew, what, d, took)
		}
	}
}

// launchers are the launcher processes of this server's replicas.
func (w *world) launchers(t *testing.T) (pids []int) {
	t.Helper()
	harness.Eventually(t, "there is a launcher", func() bool {
		pids = nil
		found, _ := filepath.Glob(filepath.Join(w.Dir, "engine", "replicas", "*", record.FileLauncher))
		for _, file := range found {
			var p record.Process
			dir := filepath.Dir(file)
			if ok, err := record.Read(dir, record.FileLauncher, &p); ok && err == nil && !record.Exists(dir, record.FileExit) {
				pids = append(pids, p.PID)
			}
		}
		return len(pids) > 0
	})
	return pids
}

// charged is the time of one core that a task is charged for.
func (w *world) charged(t *testing.T, name string) time.Duration {
	t.Helper()
	return time.Duration(w.usageOf(t, name).CoreHours * float64(time.Hour))
}
