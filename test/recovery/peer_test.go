package recovery

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// losesNode kills the launcher of a replica and removes what was in its memory, as the loss of its node does.
func (w *world) losesNode(tr training, index int) {
	w.t.Helper()
	w.killLauncher(tr, index)
	gone, _ := filepath.Glob(fmt.Sprintf("/dev/shm/fermi-%s-worker-%d-*", tr.id, index))
	if len(gone) == 0 || len(gone) > 2 { // its own, and what it keeps for a peer
		w.t.Fatalf("replica %d has its memory in %q", index, gone)
	}
	for _, dir := range gone {
		if err := os.RemoveAll(dir); err != nil {
			w.t.Fatal(err)
		}
	}
}

// safeAt waits until states of so many ranks are in a peer's memory, of one step, and gives the newest such step; 0: the
// training has ended meanwhile.
func (w *world) safeAt(tr training, index, ranks, after int) (newest int) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("a copy beyond step %d", after), func() bool {
		files, _ := filepath.Glob(fmt.Sprintf("/dev/shm/fermi-%s-worker-%d-*.peers/*-*", tr.id, index))
		have := map[int]int{}
		for _, f := range files {
			var rank, step int
			if n, _ := fmt.Sscanf(filepath.Base(f), "%d-%d", &rank, &step); n != 2 {
				continue
			}
			if have[step]++; have[step] == ranks {
				newest = max(newest, step)
			}
		}
		return newest > after || w.task(tr.name).Status.Phase.Finished()
	})
	if newest <= after {
		return 0
	}
	return newest
}

// known is a step whose copy the leader has heard of: a newer one is there already. 0: the task ended before.
func (w *world) known(tr training, index, ranks, after int) int {
	w.t.Helper()
	step := w.safeAt(tr, index, ranks, after)
	if step == 0 || w.safeAt(tr, index, ranks, step) == 0 {
		return 0
	}
	return step
}

// TestPeer: the launcher of a node is lost with its memory, and the training goes on from what its peer kept,
// in the same attempt, to the same curve and weights.
func TestPeer(t *testing.T) {
	w := elasticWorld(t)
	start := func(name, pause string, peer bool) training {
		task := spirals(name, 300, pause, 2, 2)
		task.Spec.Checkpoint = &api.Checkpoints{Peer: peer}
		return w.create(task)
	}
	start("whole", "0s", false)
	want := w.sums("whole")
	var tr training
	safe := 0
	for try := 0; safe == 0; try++ {
		if try == 5 {
			t.Fatal("it always ended before there was a copy")
		}
		tr = start(fmt.Sprint("lost-", try), "50ms", true)
		safe = w.known(tr, 0, 1, 0)
	}
	w.losesNode(tr, 1)
	got := w.sums(tr.name)
	s := w.task(tr.name).Status
	if s.Attempt != 1 || s.Rendezvous == nil || s.Rendezvous.Restore < int64(safe) {
		t.Errorf("attempt %d, %+v, though step %d was safe", s.Attempt, s.Rendezvous, safe)
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v instead of %v", got, want)
	}
}

// TestTorchPeer: real PyTorch on two nodes with peer memory; a node's launcher is killed and its memory
// removed, once each. Another launcher takes its place with the states that the other node kept, and the
// run ends with the bits of the one that was not interrupted. make e2e-torch runs it.
func TestTorchPeer(t *testing.T) {
	killsWanted(t)
	w := elasticWorld(t)
	const steps = 400
	start := func(name string, peer bool) torchRun {
		return w.torchTask(&api.TrainingTask{
			Meta: api.Meta{Name: name},
			Spec: api.TrainingTaskSpec{
				Restart: &api.RestartPolicy{MaxRestarts: 20}, Checkpoint: &api.Checkpoints{Peer: peer},
				Roles: []api.Role{{
					Name: "worker", Replicas: 2, Ranks: torchRanks / 2, Command: []string{torchPython, "train_ddp.py"},
					Resources: api.Resources{CPU: 1000, Memory: 1 << 30, Accelerators: api.Accelerators{Count: 1}},
					Env:       []api.EnvVar{{Name: "PACE", Value: "0.02"}},
				}},
			},
		}, steps)
	}
	want := w.digests(start("whole", false))
	r := start("lost", true)
	after := 0
	for _, c := range []struct{ lost, holder int }{{1, 0}, {0, 2}} { // replica 2 stands in for 1
		safe := w.known(r.training, c.holder, torchRanks/2, after)
		if safe == 0 && after > 0 {
			t.Log("it ended before a second node could be lost")
			break
		}
		if safe == 0 {
			t.Fatal("it ended before there was a copy")
		}
		generation := w.task(r.name).Status.Generation
		w.losesNode(r.training, c.lost)
		w.eventually("the next generation", func() bool {
			s := w.task(r.name).Status
			return s.Generation > generation || s.Phase.Finished()
		})
		s := w.task(r.name).Status
		if s.Rendezvous == nil || s.Rendezvous.Restore < int64(safe) {
			t.Fatalf("went on from %+v, though step %d was safe", s.Rendezvous, safe)
		}
		t.Logf("replica %d was lost with its memory; step %d was safe, generation %d went on from %d", c.lost, safe, s.Generation, s.Rendezvous.Restore)
		after = int(s.Rendezvous.Restore)
	}
	if got := w.digests(r); got != want {
		t.Fatalf("%sinstead of\n%s", got, want)
	}
}
