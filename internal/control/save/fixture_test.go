package save

import (
	"fmt"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
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
func at(i, attempt int, state engine.State, attached bool) gang.Member {
	m := gang.Member{
		Name: engine.NameOf("task-1", "worker", i, attempt), Role: "worker", Index: i, Stand: gang.Stand{Node: fmt.Sprintf("n%d", i)},
		Ranking: gang.Ranking{Ranks: 1, First: i}, State: state, Attached: attached, Observed: engine.Observation{Started: now, Address: "127.0.0.1", LauncherAddress: "127.0.0.1"},
	}
	if attached {
		m.Said.Port = 4000 + i
	}
	if state == engine.StateRunning {
		m.Said.Generation = int64(attempt)
	}
	return m
}

// gathered is a task whose two launchers are there, in the second attempt.
func gathered() *gang.Gang {
	g := &gang.Gang{Terms: gang.Terms{Task: task(api.PhaseInitializing, 2, 1), Placement: placed()}}
	g.Task.Status.Rendezvous = nil
	g.Members = gang.Members{at(0, 2, engine.StateCreated, true), at(1, 2, engine.StateCreated, true)}
	g.Rank()
	return g
}

// main is the unit that saves.
func main(g *gang.Gang) *gang.Unit {
	u := g.Main()
	return &u
}

// turnOf is a turn's judgement of a task that keeps checkpoints in all tiers.
func turnOf(g *gang.Gang, full bool) *decision {
	d := decision{sight: &sight{Gang: *g, keeps: true, tiers: map[string]tier{}, full: &full}, now: now}
	for _, name := range tiers {
		d.sight.tiers[name] = tier{there: true, open: true}
	}
	d.next = (&memory{}).again()
	return &d
}
