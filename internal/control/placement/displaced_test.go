package placement

import (
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// TestDrainedComesFirst: what lost its place to an operator is told so to the planner, until it has another.
func TestDrainedComesFirst(t *testing.T) {
	tk := &api.TrainingTask{Spec: api.TrainingTaskSpec{Roles: []api.Role{{Name: "worker", Replicas: 1}}}}
	if workload(tk, nil).Displaced {
		t.Error("a new task")
	}
	tk.Status.Phase, tk.Status.Reason = api.PhasePending, reasonDrained
	if !workload(tk, nil).Displaced {
		t.Error("it waits as all others do")
	}
	tk.Status.Phase = api.PhaseRunning
	if workload(tk, nil).Displaced {
		t.Error("it runs")
	}
}
