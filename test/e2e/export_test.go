package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// TestCheckpointsLeaveAndComeBack: one is fetched into a folder, from the shared store and from nodes' disks, and a new task that
// begins from the folder comes to the very bits of the first run. What is damaged or not all there is refused on both ways.
func TestCheckpointsLeaveAndComeBack(t *testing.T) {
	store := t.TempDir()
	w := up(t, "--demo", "--checkpoints-store", store)
	tier := &api.CheckpointTier{EverySteps: 100, Keep: &api.CheckpointKeep{Last: 100}}
	off := &api.CheckpointTier{Disabled: true}
	var want []byte
	var folder string
	for name, keep := range map[string]*api.Checkpoints{"local": {Local: tier, Shared: off}, "shared": {Local: off, Shared: tier}} {
		w.submit(learner(name, "5ms", keep))
		w.phase(name, api.PhaseCompleted)
		want = w.model(name)
		list := w.checkpoints(name)
		step := list[len(list)/2].Step
		folder = filepath.Join(t.TempDir(), "step")
		w.must("train", "checkpoints", name, "--export", folder, "--step", strconv.FormatInt(step, 10))
		if got := files(t, folder, ""); len(got) != 4 {
			t.Fatalf("%s: %v", name, got)
		}
		w.beginsFrom("from-"+name, folder, step, want)
		if r := w.fermi("train", "checkpoints", name, "--export", folder); r.code == 0 || !strings.Contains(r.err, "not empty") {
			t.Errorf("into a folder with another: %d %s", r.code, r.err)
		}
		none := filepath.Join(t.TempDir(), "none")
		if r := w.fermi("train", "checkpoints", name, "--export", none, "--step", "99999"); r.code == 0 || !strings.Contains(r.err, strconv.FormatInt(step, 10)) {
			t.Errorf("a step that is not there: %d %s", r.code, r.err)
		}
		nothing(t, none)
	}
	w.refusesSlots(folder, want)
	w.exportsNoDamage("shared", store)
}

// beginsFrom runs the sample from a folder of slots.
func (w *world) beginsFrom(name, folder string, step int64, want []byte) {
	w.t.Helper()
	w.must("train", "run", "-d", "--no-code", "--name", name, "--replicas", "2", "--ranks", "2", "--from", folder+"/", "--", "fermi", "sample", "train", "--steps", "600", "--step-time", "0s")
	task := w.phase(name, api.PhaseCompleted)
	if from := task.Status.From; from == nil || from.Step != step || from.TaskID != task.Meta.ID {
		w.t.Errorf("%s began from %+v, not from step %d", name, from, step)
	}
	contains(w.t, w.must("logs", name), "goes on after step="+strconv.FormatInt(step, 10))
	if !bytes.Equal(w.model(name), want) {
		w.t.Errorf("%s: other weights than without going out and in", name)
	}
}

// refusesSlots: a folder that is not a whole checkpoint makes no task; bytes that were changed start none, which then still takes
// the right ones.
func (w *world) refusesSlots(folder string, want []byte) {
	w.t.Helper()
	run := func(name, from string) result {
		return w.fermi("train", "run", "-d", "--no-code", "--name", name, "--replicas", "2", "--ranks", "2", "--from", from+"/", "--", "fermi", "sample", "train", "--steps", "600", "--step-time", "0s")
	}
	short := filepath.Join(w.t.TempDir(), "short")
	if err := errors.Join(os.CopyFS(short, os.DirFS(folder)), os.Remove(filepath.Join(short, "rank-2.slot"))); err != nil {
		w.t.Fatal(err)
	}
	if r := run("short", short); r.code == 0 || !strings.Contains(r.err, "rank-2.slot is missing") {
		w.t.Errorf("without a rank: %d %s", r.code, r.err)
	}
	if r := run("empty", w.t.TempDir()); r.code == 0 || !strings.Contains(r.err, "fermi.convert") {
		w.t.Errorf("an empty folder: %d %s", r.code, r.err)
	}
	for _, name := range []string{"short", "empty"} {
		if r := w.fermi("get", "task", name); r.code == 0 {
			w.t.Errorf("there is a task %s", name)
		}
	}
	bent := filepath.Join(w.t.TempDir(), "bent")
	if err := os.CopyFS(bent, os.DirFS(folder)); err != nil {
		w.t.Fatal(err)
	}
	flip(w.t, filepath.Join(bent, "rank-3.slot"), 4096+100)
	if r := run("patient", bent); r.code == 0 || !strings.Contains(r.err, "rank-3.slot") || !strings.Contains(r.err, "damaged") {
		w.t.Errorf("a flipped bit: %d %s", r.code, r.err)
	}
	if task := w.task("patient"); !task.AwaitsCheckpoint() || task.Status.Phase != api.PhasePending {
		w.t.Errorf("%+v", task.Status)
	}
	contains(w.t, w.must("why", "patient"), "uploaded")
	w.must("train", "checkpoints", "patient", "--import", folder)
	w.phase("patient", api.PhaseCompleted)
	if !bytes.Equal(w.model("patient"), want) {
		w.t.Error("other weights")
	}
	if r := w.fermi("train", "checkpoints", "patient", "--import", folder); r.code == 0 || !strings.Contains(r.err, "waits for no checkpoint") {
		w.t.Errorf("a second time: %d %s", r.code, r.err)
	}
}

// exportsNoDamage: what has a flipped bit in the store is found on the way out, named, and leaves nothing behind.
func (w *world) exportsNoDamage(name, store string) {
	w.t.Helper()
	packs, err := filepath.Glob(filepath.Join(store, "objects", w.task(name).Meta.ID, "packs", "*", "*"))
	if err != nil || len(packs) == 0 {
		w.t.Fatal(packs, err)
	}
	slices.SortFunc(packs, func(a, b string) int { return changed(w.t, a).Compare(changed(w.t, b)) })
	last := packs[len(packs)-1]
	flip(w.t, last, 50)
	list := w.checkpoints(name)
	folder := filepath.Join(w.t.TempDir(), "damaged")
	for range 2 { // found, and known
		r := w.fermi("train", "checkpoints", name, "--export", folder, "--step", strconv.FormatInt(list[len(list)-1].Step, 10))
		if r.code == 0 || !strings.Contains(r.err, filepath.Base(last)) {
			w.t.Errorf("%d %s", r.code, r.err)
		}
		nothing(w.t, folder)
	}
	contains(w.t, w.must("train", "checkpoints", name), "damaged")
	w.must("train", "checkpoints", name, "--export", folder) // the newest that is whole
}

// nothing fails if there is a folder, or what was meant to become it.
func nothing(t *testing.T, folder string) {
	t.Helper()
	if left := files(t, filepath.Dir(folder), ""); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func flip(t *testing.T, path string, at int) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[at] ^= 1
	if err := errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, raw, 0o600)); err != nil {
		t.Fatal(err)
	}
}

// TestUploadsNeedASharedStore: without one there is no task, and the setting is named.
func TestUploadsNeedASharedStore(t *testing.T) {
	w := up(t)
	folder := t.TempDir()
	slot := make([]byte, 4097)
	copy(slot, "FERMIL0\x01")
	slot[16], slot[32], slot[48] = 1, 1, 1 // one rank, step 1, a tree of a byte
	if err := os.WriteFile(filepath.Join(folder, "rank-0.slot"), slot, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := w.fermi("train", "run", "--no-code", "--name", "t", "--from", folder, "--", "true"); r.code == 0 || !strings.Contains(r.err, "--checkpoints-store") {
		t.Errorf("%d %s", r.code, r.err)
	}
}

// torchTrainer trains a model on two ranks; each has a part of one tensor. What rank 0 holds after step 20 it also writes with
// torch.save; after the last step all do.
const torchTrainer = `
import os, torch, fermi
fermi.init()
rank, world = fermi.rank(), fermi.world_size()
torch.manual_seed(1)
model = torch.nn.Linear(8, 4)
optimizer = torch.optim.Adam(model.parameters())
table = torch.arange(24.0).reshape(4, 6)
rows = 4 // world
mine, step = table[rank * rows:(rank + 1) * rows].clone(), 0
got = fermi.checkpoint.restore()
if got:
    step = got.state["step"]
    model.load_state_dict(got.state["model"])
    mine = got.state["table"].tensor if hasattr(got.state["table"], "tensor") else got.state["table"]
    mine = mine[rank * rows:(rank + 1) * rows] if len(mine) == 4 else mine
    print("goes on after", step, got.step, flush=True)
out = os.environ["FERMI_OUTPUT"]
while step < 40:
    step += 1
    torch.manual_seed(step)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.zero_grad()
    model(torch.randn(16, 8)).square().mean().backward()
    optimizer.step()
    mine = mine * 1.5 - step
    state = {"model": model.state_dict(), "table": fermi.checkpoint.shard(mine, (4, 6), (rank * rows, 0)), "step": step}
    fermi.checkpoint.save(step, state, wait="shared" if step == 20 else False)
    if step in (20, 40):
        torch.save({"model": model.state_dict(), "mine": mine}, "%s/%d-%d.pt" % (out, step, rank))
`

// compareStates: what was exported is what the ranks held.
const compareStates = `
import sys, torch
got, a, b = (torch.load(p, weights_only=True) for p in sys.argv[1:4])
assert got["step"] == 20, got["step"]
assert list(got["model"]) == list(a["model"]) and all(torch.equal(v, a["model"][k]) for k, v in got["model"].items())
assert torch.equal(got["table"], torch.cat([a["mine"], b["mine"]]))
`

// TestPyTorchReadsWhatIsExported: what real PyTorch loads from an export is what the ranks held; the file, brought back as
// slots, is what a new task goes on from, to the same bits.
func TestPyTorchReadsWhatIsExported(t *testing.T) {
	if err := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", "import torch").Run(); err != nil {
		t.Fatal("there is no PyTorch here: make e2e installs it")
	}
	w := up(t, "--checkpoints-store", t.TempDir())
	sdk, err := filepath.Abs("../../sdk/python/src")
	if err != nil {
		t.Fatal(err)
	}
	python := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", args...)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+sdk)
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("python3 %s: %v\n%s", args[1], err, said)
		}
	}
	train := func(name string, more ...string) string {
		t.Helper()
		args := append([]string{"train", "run", "-d", "--no-code", "--name", name, "--ranks", "2", "--env", "OMP_NUM_THREADS=1"}, more...)
		w.must(append(args, "--", "/usr/bin/python3", "-c", torchTrainer)...)
		w.phase(name, api.PhaseCompleted)
		w.written(name, "40-1.pt")
		dir := t.TempDir()
		w.must("train", "outputs", name, "--get", dir)
		return filepath.Join(dir, "worker-0")
	}
	first, dir := train("first"), t.TempDir()
	slots, file, back := filepath.Join(dir, "slots"), filepath.Join(dir, "out.pt"), filepath.Join(dir, "back")+"/"
	w.must("train", "checkpoints", "first", "--export", slots, "--step", "20")
	python("-m", "fermi.convert", slots, file)
	python("-c", compareStates, file, filepath.Join(first, "20-0.pt"), filepath.Join(first, "20-1.pt"))
	python("-m", "fermi.convert", slots, filepath.Join(dir, "model.safetensors"), "--only", "model")
	python("-m", "fermi.convert", file, back, "--step", "20")
	second := train("second", "--from", back)
	contains(t, w.must("logs", "second"), "goes on after 20 20")
	for _, name := range []string{"40-0.pt", "40-1.pt"} {
		a, errA := os.ReadFile(filepath.Join(first, name))
		b, errB := os.ReadFile(filepath.Join(second, name))
		if err := errors.Join(errA, errB); err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s: other bits: %v", name, err)
		}
	}
}
