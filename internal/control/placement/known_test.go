package placement

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// TestWhatIsKnownIsUsed: over generated clusters, what a gang that stands would lose is what its status says (the newest checkpoint, the
// measured start), whoever has to go for another is the one that loses least by these numbers, and a node that failed lately is used last.
func TestWhatIsKnownIsUsed(t *testing.T) {
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	for seed := range uint64(150) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		p := NewPlanner(slog.New(slog.DiscardHandler))
		p.At(now)
		p.Zone(&api.Zone{Meta: api.Meta{Name: "z"}, Spec: api.ZoneSpec{Region: "r"}})
		p.Queue(&api.Queue{Meta: api.Meta{Name: "default"}, Spec: api.QueueSpec{Weight: 1}})
		count := 2 + rnd.IntN(5)
		node := func(i int) *api.Node {
			return &api.Node{
				Meta: api.Meta{Name: fmt.Sprint("n", i)}, Status: api.NodeStatus{Ready: true},
				Spec: api.NodeSpec{Number: uint32(i + 1), Zone: "z", CPU: 64_000, Memory: 1 << 40, Devices: []api.Device{{Type: "A100", Virtual: true}}},
			}
		}
		for i := range count {
			p.Node(node(i))
		}
		work := func(name string, priority int) *api.TrainingTask {
			return &api.TrainingTask{
				Meta:   api.Meta{ID: "task-" + name, Name: name, Project: "p", CreatedAt: now},
				Spec:   api.TrainingTaskSpec{Queue: "default", Priority: &priority, Preemptible: true, Roles: []api.Role{{Name: "worker", Replicas: 1, Resources: api.Resources{CPU: 1000, Memory: 1 << 30, Accelerators: api.Accelerators{Type: "A100", Count: 1}}}}},
				Status: api.TrainingTaskStatus{Phase: api.PhasePending},
			}
		}
		// One stands on each node since a time; saved and restarted as its status says.
		least, victim := time.Duration(1<<62), ""
		for i := range count {
			tk := work(fmt.Sprint("t", i), 100)
			since := now.Add(-time.Duration(60+rnd.IntN(100)) * time.Minute)
			p.Stand(tk, &api.Placement{Meta: api.Meta{Name: tk.Meta.ID, Project: "p", ID: tk.Meta.ID + "-place"}, Spec: api.PlacementSpec{
				TaskID: tk.Meta.ID, Attempt: 1, PlacedAt: since, Roles: []api.RoleAssignment{{Role: "worker", Slots: api.Slots{{Node: uint32(i + 1), Devices: 1}}}},
			}})
			tk.Status.Phase, tk.Status.Attempt = api.PhaseRunning, 1
			lost, restart := now.Sub(since), restartCost
			if rnd.IntN(3) > 0 {
				at := now.Add(-time.Duration(rnd.IntN(3000)) * time.Second)
				tk.Status.Saved, lost = &api.SavedStep{Step: 7, At: at}, now.Sub(at)
			}
			if rnd.IntN(3) > 0 {
				restart = time.Duration(1+rnd.IntN(600)) * 100 * time.Millisecond
				opened := now.Add(-time.Hour)
				stepped := opened.Add(restart)
				tk.Status.Interruptions = &api.Interruptions{Last: []api.Recovery{{OpenedAt: &opened, SteppedAt: &stepped}}}
			}
			p.Submit(tk)
			got, ok := p.m.queues.Loss(now, tk.Meta.ID)
			if !ok || got.Since != lost || got.Restart != restart || got.Total != lost+restart {
				t.Fatalf("seed %d: %s loses %+v, not %s and %s", seed, tk.Meta.Name, got, lost, restart)
			}
			if lost+restart < least {
				least, victim = lost+restart, tk.Meta.ID
			}
		}
		p.Submit(work("urgent", 900))
		res := p.Plan()
		if len(res.Evictions) != 1 || res.Evictions[0].ID != victim || res.Evictions[0].Lost.Round(time.Millisecond) != least {
			t.Fatalf("seed %d: %+v has to go, not %s, which loses %s", seed, res.Evictions, victim, least)
		}
	}
}

// TestANodeThatFailedIsUsedLast: faults of the machine count against its node for a day, whoever they hit; others don't.
func TestANodeThatFailedIsUsedLast(t *testing.T) {
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	for cause, counts := range map[string]bool{"device-lost": true, "launcher-lost": true, "killed": false} {
		p := NewPlanner(slog.New(slog.DiscardHandler))
		p.At(now)
		p.Zone(&api.Zone{Meta: api.Meta{Name: "z"}, Spec: api.ZoneSpec{Region: "r"}})
		p.Queue(&api.Queue{Meta: api.Meta{Name: "default"}, Spec: api.QueueSpec{Weight: 1}})
		for i := range 2 {
			p.Node(&api.Node{Meta: api.Meta{Name: fmt.Sprint("n", i)}, Status: api.NodeStatus{Ready: true}, Spec: api.NodeSpec{Number: uint32(i + 1), Zone: "z", CPU: 64_000, Memory: 1 << 40}})
		}
		hit := &api.TrainingTask{Meta: api.Meta{ID: "task-hit", Name: "hit", Project: "p"}, Spec: api.TrainingTaskSpec{Queue: "default"}}
		hit.Status.Phase = api.PhaseFailed
		hit.Status.Faults = []api.PastFault{{At: now.Add(-time.Hour), Generation: 1, Role: "worker", Node: "n0", Cause: cause}}
		p.Submit(hit)
		p.Submit(hit) // it is told again
		p.Submit(&api.TrainingTask{
			Meta:   api.Meta{ID: "task-next", Name: "next", Project: "p", CreatedAt: now},
			Spec:   api.TrainingTaskSpec{Queue: "default", Roles: []api.Role{{Name: "worker", Replicas: 1, Resources: api.Resources{CPU: 1000}}}},
			Status: api.TrainingTaskStatus{Phase: api.PhasePending},
		})
		res := p.Plan()
		if len(res.Decisions) != 1 {
			t.Fatalf("%+v", res)
		}
		if on := res.Decisions[0].At[0][0].Node; counts != (on == 2) {
			t.Errorf("after %s it stands on node %d", cause, on)
		}
		if n := p.m.trials.faults.of("n0", now); counts != (n == 1) {
			t.Errorf("%s: %d faults", cause, n)
		}
		if n := p.m.trials.faults.of("n0", now.Add(faultsCount)); n != 0 {
			t.Errorf("a day later: %d faults", n)
		}
	}
}
