package recovery

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
)

// TestTorchFromDisk: real PyTorch, whose launcher is killed with all that its ranks hold in memory: only the
// node's disk has the state, and the run ends with the bits of the one that was not interrupted. make e2e-torch runs it.
func TestTorchFromDisk(t *testing.T) {
	killsWanted(t)
	w := newWorld(t)
	const steps = 120
	want := w.digests(w.torch("whole", steps))
	r := w.torchTask(&api.TrainingTask{
		Meta: api.Meta{Name: "disk"},
		Spec: api.TrainingTaskSpec{
			Restart:    &api.RestartPolicy{MaxRestarts: 5},
			Checkpoint: &api.Checkpoints{Local: &api.CheckpointTier{EverySteps: 5}},
			Roles: []api.Role{{
				Name: "worker", Ranks: torchRanks, Resources: api.Resources{CPU: 1000, Memory: 4 << 30}, Command: []string{torchPython, "train_ddp.py"},
			}},
		},
	}, steps)
	w.eventually("a checkpoint", func() bool {
		list, err := w.cl.Checkpoints(t.Context(), "default", r.name)
		return err == nil && len(list) > 0
	})
	name := engine.NameOf(r.id, "worker", 0, 1)
	var p record.Process
	if ok, err := record.Read(filepath.Join(w.c.Dir, "engine", "replicas", string(name)), record.FileLauncher, &p); !ok || err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(syscall.Kill(p.PID, syscall.SIGKILL), os.RemoveAll(record.SharedMemory(name))); err != nil {
		t.Fatal(err)
	}
	if got := w.digestsIn(r, 2); got != want {
		t.Errorf("other bits:\n%s\nwanted\n%s", got, want)
	}
	if s := w.task(r.name).Status; s.Rendezvous == nil || s.Rendezvous.Origin == nil {
		t.Errorf("it did not begin from a checkpoint: %+v", s.Rendezvous)
	}
}
