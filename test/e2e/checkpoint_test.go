package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/test/harness"
)

// learner is the sample on four ranks of two replicas.
func learner(name, pause string, keep *api.Checkpoints) *api.TrainingTask {
	task := shell(name, 2, "")
	task.Spec.Roles[0].Command = []string{"fermi", "sample", "train", "--steps", "600", "--step-time", pause}
	task.Spec.Roles[0].Ranks, task.Spec.Checkpoint = 2, keep
	task.Spec.Restart, task.Spec.Timeouts = &api.RestartPolicy{MaxRestarts: 5}, patientEnd()
	return task
}

// patientEnd gives a task's last save the time that it needs on any disk.
func patientEnd() *api.Timeouts { return &api.Timeouts{StopGrace: api.Duration(harness.Patience)} }

// TestCheckpointsOutliveLaunchers kills all launchers with all they hold in memory: the task goes on from what
// its nodes' disks have, or, where those are not used, from the store that all share, and ends with the very bits
// of a run that nobody interrupted.
func TestCheckpointsOutliveLaunchers(t *testing.T) {
	store := t.TempDir()
	w := up(t, "--demo", "--checkpoints-store", store)
	w.submit(learner("whole", "0s", nil))
	w.phase("whole", api.PhaseCompleted)
	want := w.model("whole")
	w.must("delete", "task", "whole") // with what it saved last
	often := &api.CheckpointTier{EverySteps: 40, Keep: &api.CheckpointKeep{Last: 100}}
	off := &api.CheckpointTier{Disabled: true}
	for name, keep := range map[string]*api.Checkpoints{"local": {Local: often, Shared: off}, "shared": {Local: off, Shared: often}} {
		w.submit(learner(name, "10ms", keep))
		first := w.checkpointed(name, name, 0)
		w.killLaunchers(w.task(name))
		back := w.until(name, "back from a checkpoint", func(t *api.TrainingTask) bool {
			return t.Status.Rendezvous != nil && t.Status.Rendezvous.Origin != nil
		})
		o := back.Status.Rendezvous.Origin
		if o.Step < first || o.TaskID != back.Meta.ID {
			t.Errorf("%s: from %+v, though step %d was there", name, o, first)
		}
		w.phase(name, api.PhaseCompleted)
		contains(t, w.must("logs", name), "goes on after step=")
		if got := w.model(name); !bytes.Equal(got, want) {
			t.Errorf("%s: other weights than without the interruption", name)
		}
		contains(t, w.must("train", "checkpoints", name), "STEP", name)
		for _, c := range w.checkpoints(name) {
			if read := c.Tiers[0].VerifiedAt != nil; read != (c.Name == o.Name) {
				t.Errorf("%s: step %d, begun from %d, was read whole: %v", name, c.Step, o.Step, read)
			}
		}
		w.must("delete", "task", name)
	}
	harness.Eventually(t, "the checkpoints of deleted tasks to go", func() bool {
		left, _ := filepath.Glob(filepath.Join(store, "objects", "task-*", "packs", "*", "*"))
		disks, _ := filepath.Glob(filepath.Join(w.Dir, "checkpoints", "*", "objects", "task-*", "packs", "*", "*"))
		return len(left)+len(disks) == 0
	})
}

// TestACommitOutlivesItsServer kills the server again and again while checkpoints are made: launchers say what
// they wrote to the next one, and what it commits can be restored.
func TestACommitOutlivesItsServer(t *testing.T) {
	w := up(t, "--demo")
	task := learner("steady", "10ms", &api.Checkpoints{Local: &api.CheckpointTier{EverySteps: 1}})
	task.Spec.Roles[0].Command[4] = "3000"
	w.submit(task)
	newest := w.checkpointed("steady", "local", 0)
	for range 3 {
		w.Kill()
		w.start()
		newest = w.checkpointed("steady", "local", newest)
	}
	w.killLaunchers(w.task("steady"))
	back := w.until("steady", "back from a checkpoint", func(t *api.TrainingTask) bool {
		return t.Status.Rendezvous != nil && t.Status.Rendezvous.Origin != nil && t.Status.Phase == api.PhaseRunning
	})
	if o := back.Status.Rendezvous.Origin; o.Step < newest {
		t.Errorf("from step %d, though %d was committed", o.Step, newest)
	}
	w.must("train", "stop", "steady")
	w.phase("steady", api.PhaseStopped)
}

// TestATaskGoesOnFromAChosenCheckpoint: one that has completed is sent back to a step and comes to the very bits of the
// first run; a kill of the server in between changes nothing. A new task begins there too, with fewer ranks.
func TestATaskGoesOnFromAChosenCheckpoint(t *testing.T) {
	store := t.TempDir()
	w := up(t, "--demo", "--checkpoints-store", store)
	all := &api.CheckpointTier{EverySteps: 20, Keep: &api.CheckpointKeep{Last: 100}}
	task := learner("back", "10ms", &api.Checkpoints{Local: &api.CheckpointTier{Disabled: true}, Shared: all})
	task.Spec.Roles[0].Command = append(task.Spec.Roles[0].Command, "--shards", "4")
	w.submit(task)
	w.phase("back", api.PhaseCompleted)
	want, list := w.model("back"), w.checkpoints("back")
	w.storedOnce(list, filepath.Join(store, "objects", "task-*", "packs", "*", "*"))
	chosen := list[len(list)/2]
	w.must("train", "restore", "back", "--step", strconv.FormatInt(chosen.Step, 10))
	w.Kill()
	w.start()
	w.began("back", chosen)
	w.phase("back", api.PhaseCompleted)
	if !bytes.Equal(w.model("back"), want) {
		t.Error("other weights than without going back")
	}
	contains(t, w.must("logs", "back"), "goes on after step="+strconv.FormatInt(chosen.Step, 10))
	contains(t, w.must("train", "checkpoints", "back", "--pin", strconv.FormatInt(chosen.Step, 10)), "shared*")
	if r := w.fermi("train", "restore", "back", "--step", "7"); r.code == 0 || !strings.Contains(r.err, strconv.FormatInt(chosen.Step, 10)) {
		t.Errorf("a step that is not there: %d %s", r.code, r.err)
	}
	next := learner("next", "0s", &api.Checkpoints{From: &api.CheckpointFrom{Task: "back", Step: chosen.Step}})
	next.Spec.Roles[0].Replicas, next.Spec.Roles[0].Command = 1, append(next.Spec.Roles[0].Command, "--shards", "4")
	w.submit(next)
	w.phase("next", api.PhaseCompleted)
	if got := w.task("next").Status; got.Rendezvous.Origin == nil || got.Rendezvous.Origin.Name != chosen.Name || got.Rendezvous.World != 2 {
		t.Errorf("it began from %+v", got.Rendezvous)
	}
	if !bytes.Equal(w.model("next"), want) {
		t.Error("other weights with two ranks than with four")
	}
}

// TestARunningTaskIsSentBack ends what runs only when that is asked for.
func TestARunningTaskIsSentBack(t *testing.T) {
	w := up(t, "--demo", "--checkpoints-store", t.TempDir())
	task := learner("long", "10ms", &api.Checkpoints{Shared: &api.CheckpointTier{EverySteps: 10, Keep: &api.CheckpointKeep{Last: 1000}}})
	task.Spec.Roles[0].Command[4] = "1000000"
	w.submit(task)
	w.checkpointed("long", "shared", 0)
	chosen := w.checkpoints("long")[0]
	w.checkpointed("long", "shared", chosen.Step+50)
	step := strconv.FormatInt(chosen.Step, 10)
	if r := w.fermi("train", "restore", "long", "--step", step); r.code == 0 || !strings.Contains(r.err, "--stop") {
		t.Errorf("%d %s", r.code, r.err)
	}
	w.must("train", "restore", "long", "--step", step, "--stop")
	w.began("long", chosen)
	harness.Eventually(t, "the future that was given up to go", func() bool {
		return !slices.ContainsFunc(w.checkpoints("long"), func(c api.Checkpoint) bool { return w.task("long").Spec.Restore.Abandons(c.Name) })
	})
	w.must("train", "stop", "long")
	w.phase("long", api.PhaseStopped)
}

// TestTheBestStay: of all that the nodes' disks keep, the store has the newest and the two with the most loss, which are
// old ones; each says the loss that its very step had.
func TestTheBestStay(t *testing.T) {
	w := up(t, "--demo", "--checkpoints-store", t.TempDir())
	task := learner("best", "5ms", &api.Checkpoints{
		Local:  &api.CheckpointTier{EverySteps: 20, Keep: &api.CheckpointKeep{Last: 1000}},
		Shared: &api.CheckpointTier{EverySteps: 20, Keep: &api.CheckpointKeep{Last: 1, Best: &api.CheckpointBest{Metric: "loss", Order: api.OrderMax, Count: 2}}},
	})
	task.Spec.Roles[0].Command = append(task.Spec.Roles[0].Command, "--log-every", "1")
	w.submit(task)
	w.phase("best", api.PhaseCompleted)
	all := w.checkpoints("best")
	lost := map[int64]float64{}
	for line := range bytes.Lines(w.written("best", "worker-0/metrics.jsonl")) {
		var r struct {
			Step int64
			Loss float64
		}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		lost[r.Step] = r.Loss
	}
	var stayed []string
	for _, c := range all {
		if c.Metrics["loss"] != lost[c.Step] || c.Metrics["acc"] == 0 {
			t.Errorf("step %d: %v, not %v", c.Step, c.Metrics, lost[c.Step])
		}
		if slices.ContainsFunc(c.Tiers, func(t api.CheckpointCopy) bool { return t.Tier == "shared" }) {
			stayed = append(stayed, c.Name)
		}
	}
	want := []string{all[len(all)-1].Name}
	slices.SortStableFunc(all, func(a, b api.Checkpoint) int { return cmp.Compare(lost[b.Step], lost[a.Step]) })
	want = append(want, all[0].Name, all[1].Name)
	slices.Sort(want)
	if len(all) < 5 || !slices.Equal(stayed, slices.Compact(want)) {
		t.Errorf("of %d the store has %v, not %v", len(all), stayed, want)
	}
	contains(t, w.must("train", "checkpoints", "best"), "METRICS", "loss=")
}

// TestCheckpointsAreVerified: what was only written has not been verified; what was read back says when; one with a
// flipped bit is found, named, refused, and nothing newer begins from it.
func TestCheckpointsAreVerified(t *testing.T) {
	store := t.TempDir()
	w := up(t, "--demo", "--checkpoints-store", store)
	task := learner("whole", "5ms", &api.Checkpoints{
		Local: &api.CheckpointTier{Disabled: true}, Shared: &api.CheckpointTier{EverySteps: 100, Keep: &api.CheckpointKeep{Last: 100}},
	})
	w.submit(task)
	w.phase("whole", api.PhaseCompleted)
	all := w.checkpoints("whole")
	if slices.ContainsFunc(all, func(c api.Checkpoint) bool { return c.Tiers[0].VerifiedAt != nil }) {
		t.Errorf("nobody has read them: %+v", all)
	}
	w.must("train", "checkpoints", "whole", "--verify")
	for _, c := range w.checkpoints("whole") {
		if c.Tiers[0].VerifiedAt == nil || c.Tiers[0].Damage != nil {
			t.Errorf("step %d: %+v", c.Step, c.Tiers)
		}
	}
	newest := all[len(all)-1]
	packs, err := filepath.Glob(filepath.Join(store, "objects", "task-*", "packs", "*", "*"))
	if err != nil || len(packs) == 0 {
		t.Fatal(packs, err)
	}
	slices.SortFunc(packs, func(a, b string) int { return changed(t, a).Compare(changed(t, b)) })
	last := packs[len(packs)-1]
	raw, err := os.ReadFile(last)
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)/2] ^= 1
	if err := errors.Join(os.Chmod(last, 0o600), os.WriteFile(last, raw, 0o600)); err != nil {
		t.Fatal(err)
	}
	step := strconv.FormatInt(newest.Step, 10)
	if r := w.fermi("train", "checkpoints", "whole", "--verify"); r.code == 0 || !strings.Contains(r.out, "damaged") || !strings.Contains(r.err, filepath.Base(last)) {
		t.Errorf("%d %s %s", r.code, r.out, r.err)
	}
	if r := w.fermi("train", "restore", "whole", "--step", step); r.code == 0 || !strings.Contains(r.err, "damaged") {
		t.Errorf("%d %s", r.code, r.err)
	}
	next := learner("next", "0s", &api.Checkpoints{From: &api.CheckpointFrom{Task: "whole"}})
	w.submit(next)
	if from := w.task("next").Status.From; from == nil || from.Step >= newest.Step {
		t.Errorf("it begins from %+v, step %s is damaged", from, step)
	}
	w.phase("next", api.PhaseCompleted)
}

func changed(t *testing.T, path string) time.Time {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime()
}

// TestNodesKeepWhatIsPinned, and nothing else that the policy does not keep.
func TestNodesKeepWhatIsPinned(t *testing.T) {
	w := up(t, "--demo")
	task := learner("pins", "20ms", &api.Checkpoints{Local: &api.CheckpointTier{EverySteps: 10, Keep: &api.CheckpointKeep{Last: 3}}})
	task.Spec.Roles[0].Command[4] = "1000000"
	w.submit(task)
	var pinned api.Checkpoint
	harness.Eventually(t, "a checkpoint to pin", func() bool {
		list, err := w.api.Checkpoints(t.Context(), "default", "pins")
		if err != nil || len(list) == 0 {
			return false
		}
		pinned = list[len(list)-1]
		return w.api.Pin(t.Context(), "default", "pins", pinned.Step, true) == nil // it may have gone meanwhile
	})
	onDisks := func() (names []string) {
		found, _ := filepath.Glob(filepath.Join(w.Dir, "checkpoints", "*", "objects", "task-*", "manifests", "*"))
		for _, path := range found {
			names = append(names, filepath.Base(path))
		}
		return names
	}
	w.checkpointed("pins", "local", pinned.Step+100)
	if names := onDisks(); !slices.Contains(names, pinned.Name) || len(names) > 2*6 {
		t.Errorf("%s is pinned; the nodes have %v", pinned.Name, names)
	}
	if err := w.api.Pin(t.Context(), "default", "pins", pinned.Step, false); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "what is pinned no more to go from the nodes", func() bool { return !slices.Contains(onDisks(), pinned.Name) })
	w.must("train", "stop", "pins")
	w.phase("pins", api.PhaseStopped)
}

func (w *world) checkpoints(name string) []api.Checkpoint {
	w.t.Helper()
	list, err := w.api.Checkpoints(w.t.Context(), "default", name)
	if err != nil || len(list) == 0 {
		w.t.Fatal(list, err)
	}
	return list
}

// storedOnce fails unless the state that all four ranks hold, on two replicas, lies in the packs once for each checkpoint.
func (w *world) storedOnce(list []api.Checkpoint, packs string) {
	w.t.Helper()
	var fresh, one, there int64
	for _, c := range list {
		fresh, one = fresh+int64(c.Tiers[0].New), one+int64(c.Size)/4
	}
	files, err := filepath.Glob(packs)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, path := range files {
		info, err := os.Stat(path)
		if err != nil {
			w.t.Fatal(err)
		}
		there += info.Size()
	}
	w.t.Logf("%d checkpoints: a rank has %d bytes, %d were written, the store has %d", len(list), one, fresh, there)
	if fresh > one || there > one+2*one/int64(len(list)) { // a step or two that came to nothing
		w.t.Errorf("a rank has %d bytes, %d were written, the store has %d", one, fresh, there)
	}
}

// began waits until a task runs from a checkpoint since it was asked to.
func (w *world) began(name string, from api.Checkpoint) {
	w.t.Helper()
	w.until(name, "back at the chosen step", func(t *api.TrainingTask) bool {
		r := t.Status.Rendezvous
		return t.Spec.Restore != nil && t.Status.Attempt > t.Spec.Restore.Attempt && r != nil && r.Origin != nil && r.Origin.Name == from.Name
	})
}

// checkpointed waits for a checkpoint in a tier beyond a step, and gives its step.
func (w *world) checkpointed(name, tier string, beyond int64) (step int64) {
	w.t.Helper()
	harness.Eventually(w.t, "a checkpoint of "+name, func() bool {
		list, err := w.api.Checkpoints(w.t.Context(), "default", name)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, c := range list {
			if c.Step > beyond && c.Tiers[0].Tier == tier && c.Size > 0 && c.Ranks == 4 {
				step = c.Step
			}
		}
		return step > 0
	})
	return step
}

// killLaunchers kills what is beside a task's replicas; what their ranks hold in memory goes too.
func (w *world) killLaunchers(task *api.TrainingTask) {
	w.t.Helper()
	found := w.launchers(task)
	if len(found) == 0 {
		w.t.Fatal("no launcher lives")
	}
	for name, pid := range found {
		if err := errors.Join(syscall.Kill(pid, syscall.SIGKILL), os.RemoveAll(record.SharedMemory(engine.Name(name)))); err != nil {
			w.t.Fatal(err)
		}
	}
}

// model is what a task learned.
func (w *world) model(name string) []byte {
	w.t.Helper()
	return w.written(name, "worker-0/model.json")
}

// written waits for an output of a task.
func (w *world) written(name, path string) []byte {
	w.t.Helper()
	var found client.Output
	harness.Eventually(w.t, path+" of "+name, func() bool {
		outs, err := w.api.Outputs(w.t.Context(), "default", name)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, o := range outs {
			if strings.HasSuffix(o.Path, path) {
				found = o
			}
		}
		return found.Path != ""
	})
	return w.output(name, found)
}

func (w *world) output(name string, o client.Output) []byte {
	w.t.Helper()
	dir := w.t.TempDir()
	w.must("train", "outputs", name, "--get", dir)
	raw, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(o.Path)))
	if err != nil {
		w.t.Fatal(err)
	}
	return raw
}
