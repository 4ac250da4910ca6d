package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
)

// TestArchivedTasksAreStillThere lets finished tasks leave the store at once: get, list, logs,
// outputs, events and clone go on as before.
func TestArchivedTasksAreStillThere(t *testing.T) {
	w := up(t, "--demo", "--archive-after", "1ms")
	task := shell("old", 1, "echo remembered; echo kept > $FERMI_OUTPUT/f")
	task.Meta.DisplayName = "全球翻译推理服务"
	w.submit(task)
	w.phase("old", api.PhaseCompleted)
	deadline := time.Now().Add(harness.Patience)
	for { // archived: its replica's folder is gone, and it is no longer live
		dirs, _ := filepath.Glob(filepath.Join(w.Dir, "engine", "replicas", "task-*"))
		metrics, err := w.api.Raw(t.Context(), "/training-tasks/old", nil)
		if err == nil && len(dirs) == 0 && strings.Contains(string(metrics), "Completed") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("its folder is still there:", dirs, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err := w.Stop(); err != nil {
		t.Fatal(err)
	}
	w.start()
	contains(t, w.must("get", "task", "old"), "Completed", "全球翻译推理服务")
	contains(t, w.must("get", "tasks", "--search", "翻译"), "old")
	contains(t, w.must("logs", "old"), "remembered")
	contains(t, w.must("logs", "old", "-f"), "remembered")
	contains(t, w.must("events", "task/old"), "Completed")
	dir := t.TempDir()
	w.must("train", "outputs", "old", "--get", dir)
	if raw, err := os.ReadFile(filepath.Join(dir, "worker-0", "f")); err != nil || string(raw) != "kept\n" {
		t.Errorf("output: %q %v", raw, err)
	}
	w.must("train", "clone", "old", "--name", "again")
	w.phase("again", api.PhaseCompleted)
	page, err := client.List[*api.TrainingTask](t.Context(), w.api, client.ListOptions{Project: "default", Sort: "name"})
	if err != nil || len(page.Items) != 2 || page.Items[0].Meta.Name != "again" {
		t.Errorf("%v %+v", err, page.Items)
	}
	w.must("delete", "task", "old")
	if r := w.fermi("get", "task", "old"); r.code != 5 {
		t.Errorf("a deleted archived task: %d %s", r.code, r.out)
	}
}

// TestADamagedFolderIsRefused garbles etcd's files: the start names the file and changes nothing.
func TestADamagedFolderIsRefused(t *testing.T) {
	w := up(t)
	if err := w.Stop(); err != nil {
		t.Fatal(err)
	}
	db := filepath.Join(w.Dir, "etcd", "member", "snap", "db")
	whole, err := os.ReadFile(db)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(db, []byte(strings.Repeat("garbage ", len(whole)/8)), 0o600); err != nil {
		t.Fatal(err)
	}
	r := w.fermi("up", "--data", w.Dir, "--listen", "127.0.0.1:0")
	if r.code == 0 || !strings.Contains(r.err, db) || !strings.Contains(r.err, "restore") {
		t.Errorf("%d %s", r.code, r.err)
	}
	if err := os.WriteFile(db, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	w.start() // the refusal changed nothing
}

// TestNothingIsLeftBehind runs and stops tasks: no zombie, no process, no folder, no cgroup.
func TestNothingIsLeftBehind(t *testing.T) {
	w := up(t, "--demo")
	for _, script := range []string{"true", "exit 3", "(sleep 0.2 &) ; true", "kill -9 $$"} {
		task := shell("", 2, script)
		task.Meta.DisplayName = "left " + script[:4]
		sub, err := w.api.Submit(t.Context(), task, false)
		if err != nil {
			t.Fatal(err)
		}
		done := w.until(sub.Name, "finished", func(t *api.TrainingTask) bool { return t.Status.Phase.Finished() })
		if left := marked(done.Meta.ID); len(left) > 0 {
			t.Errorf("%q left %v", script, left)
		}
	}
	deadline := time.Now().Add(harness.Patience)
	for {
		dirs, _ := filepath.Glob(filepath.Join(w.Dir, "engine", "replicas", "*"))
		zombies := zombiesOf(w.PID())
		if len(dirs) == 0 && len(zombies) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("folders %v, zombies %v", dirs, zombies)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// zombiesOf lists ended children that nobody waited for.
func zombiesOf(pid int) []string {
	var out []string
	stats, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, path := range stats {
		raw, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(raw), "State:\tZ") && strings.Contains(string(raw), "PPid:\t"+strconv.Itoa(pid)+"\n") {
			out = append(out, path)
		}
	}
	return out
}
