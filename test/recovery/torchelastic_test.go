package recovery

import (
	"fmt"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// virtual is a training of PyTorch on so many nodes whose bits don't depend on how many there are.
func virtual(name string, low, replicas int) *api.TrainingTask {
	return &api.TrainingTask{
		Meta: api.Meta{Name: name},
		Spec: api.TrainingTaskSpec{
			Framework: "pytorch-ddp", Restart: &api.RestartPolicy{MaxRestarts: 9}, Preemptible: true, PriorityClass: "preemptible",
			Roles: []api.Role{{
				Name: "worker", Replicas: replicas, MinReplicas: &low, MaxReplicas: &replicas,
				Resources: api.Resources{CPU: 1000, Memory: 4 << 30, Accelerators: api.Accelerators{Count: 1}},
				Command:   []string{torchPython, "train_virtual.py"},
			}},
		},
	}
}

// TestTorchElastic: real PyTorch with virtual ranks under a real server, through 4 → 2 → 3 → 4 ranks: weights,
// optimizer and sampler have the bits of a run of as many steps that never changed. make e2e-torch runs it.
func TestTorchElastic(t *testing.T) {
	killsWanted(t)
	w := elasticWorld(t)
	r := w.torchTask(virtual("elastic", 2, torchRanks), 1_000_000)
	w.through(r.name, func() int {
		_, step, _ := r.at(0)
		return step
	})
	got := w.digests(r)
	w.went(r.name)
	var rank, steps int
	if _, err := fmt.Sscan(got, &rank, &steps); err != nil {
		t.Fatal(err)
	}
	if want := w.digests(w.torchTask(virtual("whole", torchRanks, torchRanks), steps)); got != want {
		t.Errorf("after %d steps\n%sinstead of\n%s", steps, got, want)
	}
	t.Logf("the same bits after %d steps with 4, 2, 3 and 4 ranks", steps)
}
