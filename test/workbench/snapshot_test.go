package workbench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
)

// TestSnapshot: a home is kept, another begins with it, and nobody but its owner gets at it.
func TestSnapshot(t *testing.T) {
	w := newWorld(t)
	size := []string{"--cpu", "500m", "--memory", "256Mi"}
	w.must("ann", append([]string{"env", "create", "lab"}, size...)...)
	w.must("ann", "env", "shell", "lab", "--", "sh", "-c", "mkdir -p code/empty; echo one > code/file; printf '#!/bin/sh\necho tool' > tool; chmod 750 tool; ln -s code/file link; chmod 600 code/file")
	if out, code := w.fermi("ann", "", "env", "snapshot", "lab", "--no-wait"); code == 0 || !strings.Contains(out, "stop it first") {
		t.Errorf("of one that runs, by the platform: exit code %d\n%s", code, out)
	}
	live := w.must("ann", "env", "snapshot", "lab")
	w.must("ann", "env", "stop", "lab")
	snapshot := func() string { // the last line; before it stands what happened
		lines := strings.Split(strings.TrimSpace(w.must("ann", "env", "snapshot", "lab")), "\n")
		return lines[len(lines)-1]
	}
	first := snapshot()
	kept, _, _ := strings.Cut(first, "@")
	if !strings.Contains(live, first) {
		t.Errorf("while it ran it was another one than after its stop: %s", live)
	}
	if !strings.HasSuffix(first, "@1") || !strings.HasPrefix(first, "home-lab-") {
		t.Fatal(first)
	}
	// Nothing changed: it is the same one. Then a second.
	if again := snapshot(); again != first {
		t.Errorf("nothing changed: %s after %s", again, first)
	}
	w.must("ann", "env", "start", "lab")
	w.must("ann", "env", "shell", "lab", "--", "sh", "-c", "echo two > code/file; touch unread; chmod 0 unread")
	w.must("ann", "env", "stop", "lab")
	if out, code := w.fermi("ann", "", "env", "snapshot", "lab"); code == 0 || !strings.Contains(out, "No snapshot") {
		t.Errorf("of what can't be read: exit code %d\n%s", code, out)
	}
	if out := w.must("ann", "env", "logs", "lab", "--tail", "5"); !strings.Contains(out, "unread") {
		t.Errorf("its log: %s", out)
	}
	w.must("ann", "env", "start", "lab")
	w.must("ann", "env", "shell", "lab", "--", "rm", "-f", "unread")
	w.must("ann", "env", "stop", "lab")
	if out := snapshot(); out != kept+"@2" {
		t.Fatal(out)
	}
	if out := w.must("ann", "env", "snapshots", "lab"); !strings.Contains(out, "lab@2") || !strings.Contains(out, "lab@1") {
		t.Error(out)
	}

	const look = "cat code/file; ./tool; readlink link; stat -c %a tool code/file; ls -A"
	want := map[string]string{"@1": "one", "": "two"}
	for version, text := range want {
		name := "new" + strings.TrimPrefix(version, "@")
		w.must("ann", append([]string{"env", "create", name, "--from", "lab" + version}, size...)...)
		out := w.must("ann", "env", "shell", name, "--", "sh", "-c", look)
		if !strings.HasPrefix(out, text+"\ntool\ncode/file\n750\n600\n") || strings.Contains(out, ".fermi") {
			t.Errorf("from %q: %s", version, out)
		}
		// Its own from now on, also over a start; what it began with is not brought again.
		w.must("ann", "env", "shell", name, "--", "sh", "-c", "echo own > code/file; rm tool")
		w.must("ann", "env", "stop", name)
		w.must("ann", "env", "start", name)
		if out := w.must("ann", "env", "shell", name, "--", "sh", "-c", "cat code/file; ls tool 2>&1 || true"); !strings.HasPrefix(out, "own\n") || !strings.Contains(out, "No such file") {
			t.Errorf("after a start: %s", out)
		}
	}

	// Nobody else sees it, uses it, or puts something there.
	for who, project := range map[string]string{"bob": "lab", "mal": "lab"} {
		for _, args := range [][]string{
			{"env", "create", "stolen", "--from", kept}, {"env", "create", "stolen", "--from", "lab"}, {"env", "snapshot", "lab"}, {"data", "show", kept}, {"data", "ls", kept},
			{"data", "cat", kept, "code/file"}, {"data", "download", kept, t.TempDir()}, {"data", "upload", kept, w.Dir}, {"get", "dataset", kept},
			{"train", "run", "--dataset", kept, "--", "true"}, {"env", "create", "stolen2", "--dataset", kept},
		} {
			if out, code := w.fermi(who, "", append([]string{"--project", project}, args...)...); code == 0 || strings.Contains(out, "two") {
				t.Errorf("%s: fermi %s: exit code %d\n%s", who, strings.Join(args, " "), code, out)
			}
		}
		if out, _ := w.fermi(who, "", "--project", project, "data", "list"); strings.Contains(out, kept) {
			t.Errorf("%s sees it: %s", who, out)
		}
		if out, _ := w.fermi(who, "", "--project", project, "get", "asset-versions"); strings.Contains(out, kept) {
			t.Errorf("%s sees its versions: %s", who, out)
		}
		if out, _ := w.fermi(who, "", "--project", project, "events"); strings.Contains(out, "/"+kept) { // the environment's own events name it
			t.Errorf("%s hears of it: %s", who, out)
		}
	}
	// What is no snapshot, and what does not fit.
	file := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(file, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.must("ann", "data", "upload", "plain", file)
	for want, args := range map[string][]string{
		"no snapshot of a home": {"--from", "plain"}, "--from": {"--from", "nothing"}, "no version": {"--from", "lab@9"},
	} {
		if out, code := w.fermi("ann", "", append(append([]string{"env", "create", "bad"}, size...), args...)...); code == 0 || !strings.Contains(out, want) {
			t.Errorf("%v: exit code %d\n%s", args, code, out)
		}
	}
}

// TestSnapshotSurvives: a server that is killed while a home is being saved costs nothing, and a stop gives it up.
func TestSnapshotSurvives(t *testing.T) {
	w := newWorld(t)
	w.must("ann", "env", "create", "big", "--cpu", "500m", "--memory", "256Mi")
	w.must("ann", "env", "shell", "big", "--", "sh", "-c", "head -c 200000000 /dev/urandom > data; sha256sum data > sum")
	w.must("ann", "env", "stop", "big")
	w.must("ann", "env", "snapshot", "big", "--no-wait")
	saves := func(e *devenv.DevEnvironment) bool { return e.Saves() && e.Status.Phase == api.PhaseRunning }
	get := func() *devenv.DevEnvironment {
		e, err := client.Get[*devenv.DevEnvironment](t.Context(), w.people["ann"], "lab", "big")
		if err != nil {
			return &devenv.DevEnvironment{}
		}
		return e
	}
	harness.Eventually(t, "its home is being saved", func() bool { return saves(get()) || get().Status.Reason == "SnapshotMade" })
	if out, code := w.fermi("ann", "", "env", "shell", "big", "--", "true"); code == 0 {
		t.Errorf("a shell while its home is saved: %s", out)
	}
	w.Kill()
	time.Sleep(5 * time.Second) // longer than a client's own tries
	harness.Ready(t, w.Cluster)
	harness.Eventually(t, "the snapshot is made", func() bool { return get().Status.Reason == "SnapshotMade" })
	w.must("ann", "env", "create", "copy", "--from", "big", "--cpu", "500m", "--memory", "256Mi")
	w.must("ann", "env", "shell", "copy", "--", "sha256sum", "-c", "sum")

	w.must("ann", "env", "start", "big")
	w.must("ann", "env", "shell", "big", "--", "sh", "-c", "head -c 900000000 /dev/urandom > data")
	w.must("ann", "env", "stop", "big")
	w.must("ann", "env", "snapshot", "big", "--no-wait")
	harness.Eventually(t, "it is begun", func() bool { return get().Saves() })
	w.must("ann", "env", "stop", "big")
	harness.Eventually(t, "it ends", func() bool { return !get().Saves() })
	w.must("ann", "env", "start", "big")
}
