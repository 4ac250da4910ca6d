package gang

import (
	"fmt"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
)

var now = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// task is one of two workers.
func task(phase api.Phase, attempt, generation int) *api.TrainingTask {
	out := &api.TrainingTask{
		Meta:   api.Meta{ID: "task-1", Name: "t", Project: "p", CreatedAt: now.Add(-time.Minute)},
		Spec:   api.TrainingTaskSpec{Roles: []api.Role{{Name: "worker", Replicas: 2}}},
		Status: api.TrainingTaskStatus{Phase: phase, Attempt: attempt, Generation: generation},
	}
	if generation == attempt && generation > 0 {
		out.Status.Rendezvous = &api.Rendezvous{Members: "m", Lead: "127.0.0.1:4000", World: 2}
	}
	return out
}

func placed() *api.Placement {
	return &api.Placement{Meta: api.Meta{Name: "task-1", DisplayName: "t", Project: "p"}, Spec: api.PlacementSpec{TaskID: "task-1", Attempt: 1}}
}

// at is a worker as the engine and its launcher have it.
func at(i, attempt int, state engine.State, attached bool) Member {
	m := Member{
		Name: engine.NameOf("task-1", "worker", i, attempt), Role: "worker", Index: i, Stand: Stand{Node: fmt.Sprintf("n%d", i)},
		Ranking: Ranking{Ranks: 1, First: i}, State: state, Attached: attached, Observed: engine.Observation{Started: now, Address: "127.0.0.1", LauncherAddress: "127.0.0.1"},
	}
	if attached {
		m.Said.Port = 4000 + i
	}
	if state == engine.StateRunning {
		m.Said.Generation = int64(attempt)
	}
	return m
}
