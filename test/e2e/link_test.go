package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// TestLinkOverTLS: with FERMI_LINK=tls launchers read no orders in their folders and dial no unix socket, and a server that is started
// again at another port is found.
func TestLinkOverTLS(t *testing.T) {
	t.Setenv("FERMI_LINK", "tls")
	w := up(t, "--demo")
	w.submit(shell("far", 2, `trap 'echo got TERM; exit 0' TERM; echo up; while true; do sleep 0.1; done`))
	w.phase("far", api.PhaseRunning)
	commands := launchersOf(w.task("far").Meta.ID)
	if len(commands) != 2 {
		t.Fatalf("launchers: %q", commands)
	}
	for _, c := range commands {
		if !strings.Contains(c, " --replica ") || !strings.Contains(c, "link.remote") {
			t.Errorf("it is started as %q", c)
		}
	}
	remote := func() string {
		raw, err := os.ReadFile(filepath.Join(w.Dir, "link.remote"))
		if err != nil || strings.Count(string(raw), "tls://") != 1 || strings.Contains(string(raw), "unix://") {
			t.Errorf("targets: %q, %v", raw, err)
		}
		return string(raw)
	}
	before := remote()
	if err := os.Remove(filepath.Join(w.Dir, "link.sock")); err != nil { // nobody misses it
		t.Error(err)
	}
	if err := w.Stop(); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.must("train", "stop", "far")
	if task := w.phase("far", api.PhaseStopped); task.Status.Attempt != 1 {
		t.Errorf("attempt %d", task.Status.Attempt)
	}
	if remote() == before {
		t.Error("the server is where it was: nothing was shown")
	}
	contains(t, w.must("logs", "far"), "up", "got TERM")
}

// launchersOf are the commands of a task's launchers.
func launchersOf(taskID string) (out []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		raw, _ := os.ReadFile(f)
		if c := strings.ReplaceAll(string(raw), "\x00", " "); strings.Contains(c, " launch --dir ") && strings.Contains(c, taskID) {
			out = append(out, c)
		}
	}
	return out
}
