package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/test/harness"
)

// launchers are the living launchers of a task, by replica.
func (w *world) launchers(task *api.TrainingTask) map[string]int {
	w.t.Helper()
	out := map[string]int{}
	dirs, err := filepath.Glob(filepath.Join(w.Dir, "engine", "replicas", task.Meta.ID+"-*"))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, dir := range dirs {
		raw, err := os.ReadFile(filepath.Join(dir, record.FileLauncher))
		var p record.Process
		if err == nil && json.Unmarshal(raw, &p) == nil && p.Alive() {
			out[filepath.Base(dir)] = p.PID
		}
	}
	return out
}

// TestMove: into a full zone a task is refused and goes on untouched; once there is room it saves,
// leaves and runs in the other zone, and both stays are charged.
func TestMove(t *testing.T) {
	w := up(t, "--demo")
	filler := waiter("filler", 4, 8, 500) // all H800 of 上海-1
	filler.Spec.Roles[0].Resources.Accelerators.Type = "H800"
	w.submit(filler)
	w.phase("filler", api.PhaseRunning)
	// V100 are in 北京-1 only.
	w.must("train", "run", "--name", "mover", "--detach", "--no-code", "--gpus", "8", "--gpu-type", "V100|H800", "--",
		"fermi", "sample", "train", "--steps", "1000000000", "--step-time", "50ms")
	w.phase("mover", api.PhaseRunning)
	before := w.launchers(w.task("mover"))
	if len(before) != 1 {
		t.Fatalf("its launchers: %v", before)
	}
	contains(t, w.must("train", "move", "mover", "--zone", "shanghai-1", "--preview"), "DevicesBusy")
	refused := w.fermi("train", "move", "mover", "--zone", "shanghai-1")
	if refused.code == 0 || !strings.Contains(refused.err, "8 × V100|H800") {
		t.Errorf("into a full zone: %+v", refused)
	}
	if bad := w.fermi("train", "move", "mover", "--zone", "nowhere"); bad.code == 0 {
		t.Error("it moved to nowhere")
	}
	task := w.task("mover")
	if now := w.launchers(task); len(now) != 1 || task.Status.Attempt != 1 || task.Status.Phase != api.PhaseRunning {
		t.Fatalf("a refused move touched it: %+v", task.Status)
	} else {
		for replica, pid := range before {
			if now[replica] != pid {
				t.Fatalf("a refused move touched it: %v is now %v", before, now)
			}
		}
	}
	w.must("train", "stop", "filler")
	w.phase("filler", api.PhaseStopped)
	preview := ""
	harness.Eventually(t, "there is room", func() bool { // once who plans has heard of it
		preview = w.must("train", "move", "mover", "--zone", "shanghai-1", "--preview")
		return !strings.Contains(preview, "DevicesBusy")
	})
	contains(t, preview, "beijing-1")
	contains(t, preview, "shanghai-1")
	contains(t, preview, "It loses at most")
	contains(t, w.must("train", "move", "mover", "--zone", "shanghai-1"), "reserved")
	moved := w.until("mover", "running in the other zone", func(t *api.TrainingTask) bool {
		return t.Status.Phase == api.PhaseRunning && t.Status.Attempt == 2
	})
	if len(moved.Status.Zones) != 1 || moved.Status.Zones[0] != "shanghai-1" || len(moved.Status.Restarts) != 0 {
		t.Errorf("%+v", moved.Status)
	}
	p, err := harness.PlaceOf(t.Context(), w.api, "mover")
	if err != nil || p.Spec.Evict != nil {
		t.Errorf("%+v %v", p, err)
	}
	contains(t, w.must("events", "task/mover"), "Moved")
	if again := w.fermi("train", "move", "mover", "--zone", "shanghai-1"); again.code == 0 {
		t.Error("it moved to where it is")
	}
	// What it left is free: all V100 can be had.
	w.submit(waiter("after", 4, 8, 500))
	w.phase("after", api.PhaseRunning)
	w.must("train", "stop", "mover", "after")
	w.phase("mover", api.PhaseStopped)
	w.phase("after", api.PhaseStopped)
	rows, err := w.api.Replicas(t.Context(), "default", "mover")
	zones := map[string]int{}
	for _, r := range rows {
		zones[r.Zone]++
	}
	if err != nil || len(rows) != 2 || zones["beijing-1"] != 1 || zones["shanghai-1"] != 1 {
		t.Errorf("the stays charged: %+v %v", rows, err)
	}
}

// TestMovesAdmit: a task that has enough free devices but no whole node is told which task could move
// where; moved by that command, it starts.
func TestMovesAdmit(t *testing.T) {
	w := up(t, "--demo")
	run := func(name string, replicas, devices int) {
		task := waiter(name, replicas, devices, 500)
		task.Spec.Preemptible = name == "small"
		w.submit(task)
		w.phase(name, api.PhaseRunning)
	}
	run("x", 1, 6)
	run("y", 1, 6)
	run("small", 1, 2) // fills a node with one of them
	run("rest", 2, 8)
	node := func(name string) uint32 {
		p, err := harness.PlaceOf(t.Context(), w.api, name)
		if err != nil {
			t.Fatal(err)
		}
		return p.Spec.Roles[0].Slots[0].Node
	}
	beside := "x"
	if node("small") == node("y") {
		beside = "y"
	}
	if node("small") != node(beside) {
		t.Fatal("two tasks that fill a node together were not packed")
	}
	w.must("train", "stop", beside)
	w.phase(beside, api.PhaseStopped)
	w.submit(waiter("big", 1, 8, 500))
	const command = "fermi train move small --node "
	_, to, _ := strings.Cut(w.explained("big", command), command)
	w.must("train", "move", "small", "--node", strings.TrimSpace(to))
	w.phase("big", api.PhaseRunning)
	w.until("small", "running elsewhere", func(t *api.TrainingTask) bool { return t.Status.Phase == api.PhaseRunning && t.Status.Attempt == 2 })
	w.must("train", "stop", "x", "y", "small", "rest", "big")
	for _, name := range []string{"x", "y", "small", "rest", "big"} {
		w.phase(name, api.PhaseStopped)
	}
}

// TestMovesByThemselves: with short quanta, a task that saves is moved so that one that waits finds a whole node, and its events say why
// it went.
func TestMovesByThemselves(t *testing.T) {
	w := up(t, "--demo", "--quantum", "1s")
	run := func(task *api.TrainingTask) {
		w.submit(task)
		w.phase(task.Meta.Name, api.PhaseRunning)
	}
	run(waiter("x", 1, 6, 500))
	run(waiter("y", 1, 6, 500))
	small := shell("small", 1, "")
	small.Spec.Roles[0].Command = []string{"fermi", "sample", "train", "--steps", "1000000000", "--step-time", "20ms"}
	small.Spec.Roles[0].Resources.Accelerators = api.Accelerators{Type: "V100", Count: 2}
	small.Spec.Preemptible, small.Spec.ExpectedTime, small.Spec.Timeouts = true, api.Duration(100*time.Hour), patientEnd()
	small.Spec.Checkpoint = &api.Checkpoints{Local: &api.CheckpointTier{EverySteps: 40}}
	run(small)
	run(waiter("rest", 2, 8, 500))
	node := func(name string) uint32 {
		p, err := harness.PlaceOf(t.Context(), w.api, name)
		if err != nil {
			t.Fatal(err)
		}
		return p.Spec.Roles[0].Slots[0].Node
	}
	beside := "x"
	if node("small") == node("y") {
		beside = "y"
	}
	w.until("small", "saved", func(t *api.TrainingTask) bool { return t.Status.Saved != nil })
	w.must("train", "stop", beside)
	w.phase(beside, api.PhaseStopped)
	big := waiter("big", 1, 8, 500)
	big.Spec.ExpectedTime = api.Duration(1000 * time.Hour)
	w.submit(big)
	w.phase("big", api.PhaseRunning)
	w.until("small", "running elsewhere", func(t *api.TrainingTask) bool { return t.Status.Phase == api.PhaseRunning && t.Status.Attempt == 2 })
	contains(t, w.must("events", "task/small"), "MakesRoom", "so that another task finds room")
	for _, name := range []string{"x", "y", "small", "rest", "big"} {
		if name != beside {
			w.must("train", "stop", name)
			w.phase(name, api.PhaseStopped)
		}
	}
}
