package placement

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/control/placement/past"
)

// stage is a generated cluster: on each node stands one gang of one device, with more free beside it.
type stage struct {
	*Planner
	now     time.Time
	running []*api.TrainingTask
	since   []time.Duration // lost by each if it goes now, by its status
	restart []time.Duration
	least   int // who loses least
}

func (s *stage) work(name string, priority, devices int) *api.TrainingTask {
	return &api.TrainingTask{
		Meta:   api.Meta{ID: "task-" + name, Name: name, Project: "p", CreatedAt: s.now},
		Spec:   api.TrainingTaskSpec{Queue: "default", Priority: &priority, Preemptible: true, Roles: []api.Role{{Name: "worker", Replicas: 1, Resources: api.Resources{CPU: 1000, Memory: 1 << 30, Accelerators: api.Accelerators{Type: "A100", Count: devices}}}}},
		Status: api.TrainingTaskStatus{Phase: api.PhasePending},
	}
}

// newStage has so many devices a node. Gangs saved and were started again as their statuses say, at random.
func newStage(seed uint64, devices int) *stage {
	rnd := rand.New(rand.NewPCG(seed, 7))
	s := &stage{Planner: NewPlanner(), now: time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)}
	s.At(s.now)
	s.Zone(&api.Zone{Meta: api.Meta{Name: "z"}, Spec: api.ZoneSpec{Region: "r"}})
	s.Queue(&api.Queue{Meta: api.Meta{Name: "default"}, Spec: api.QueueSpec{Weight: 1}})
	count := 2 + rnd.IntN(5)
	for i := range count {
		s.Node(&api.Node{
			Meta: api.Meta{Name: fmt.Sprint("n", i)}, Status: api.NodeStatus{Ready: true},
			Spec: api.NodeSpec{Number: uint32(i + 1), Zone: "z", CPU: 64_000, Memory: 1 << 40, Devices: slices.Repeat([]api.Device{{Type: "A100", Virtual: true}}, devices)},
		})
	}
	for i := range count {
		tk := s.work(fmt.Sprint("t", i), 100, 1)
		since := s.now.Add(-time.Duration(60+rnd.IntN(100)) * time.Minute)
		s.Stand(tk, &api.Placement{Meta: api.Meta{Name: tk.Meta.ID, Project: "p", ID: tk.Meta.ID + "-place"}, Spec: api.PlacementSpec{
			TaskID: tk.Meta.ID, Attempt: 1, PlacedAt: since, Roles: []api.RoleAssignment{{Role: "worker", Slots: api.Slots{{Node: uint32(i + 1), Devices: 1}}}},
		}})
		tk.Status.Phase, tk.Status.Attempt = api.PhaseRunning, 1
		lost, restart := s.now.Sub(since), restartCost
		if rnd.IntN(3) > 0 {
			at := s.now.Add(-time.Duration(rnd.IntN(3000)) * time.Second)
			tk.Status.Saved, lost = &api.SavedStep{Step: 7, At: at}, s.now.Sub(at)
		}
		if rnd.IntN(3) > 0 {
			restart = time.Duration(1+rnd.IntN(600)) * 100 * time.Millisecond
			opened := s.now.Add(-time.Hour)
			stepped := opened.Add(restart)
			tk.Status.Interruptions = &api.Interruptions{Last: []api.Recovery{{OpenedAt: &opened, SteppedAt: &stepped}}}
		}
		s.Submit(tk)
		s.running, s.since, s.restart = append(s.running, tk), append(s.since, lost), append(s.restart, restart)
		if s.lost(i) < s.lost(s.least) {
			s.least = i
		}
	}
	return s
}

func (s *stage) lost(i int) time.Duration { return s.since[i] + s.restart[i] }

// TestWhatIsKnownIsUsed: over generated clusters, what a gang that stands would lose is what its status says (the newest checkpoint, the
// measured start), and whoever has to go for another is the one that loses least by these numbers.
func TestWhatIsKnownIsUsed(t *testing.T) {
	for seed := range uint64(150) {
		s := newStage(seed, 1)
		for i, tk := range s.running {
			if got, ok := s.m.queues.Loss(s.now, tk.Meta.ID); !ok || got.Since != s.since[i] || got.Restart != s.restart[i] || got.Total != s.lost(i) {
				t.Fatalf("seed %d: %s loses %+v, not %s and %s", seed, tk.Meta.Name, got, s.since[i], s.restart[i])
			}
		}
		s.Submit(s.work("urgent", 900, 1))
		res, victim := s.Plan(), s.running[s.least]
		if len(res.Evictions) != 1 || res.Evictions[0].ID != victim.Meta.ID || res.Evictions[0].Lost.Round(time.Millisecond) != s.lost(s.least) {
			t.Fatalf("seed %d: %+v has to go, not %s, which loses %s", seed, res.Evictions, victim.Meta.ID, s.lost(s.least))
		}
	}
}

// TestWhatIsKnownIsTold: over generated clusters, a move's preview tells what the task would lose by its status, and why another waits names the
// one as the task to move that loses least by these numbers, with them.
func TestWhatIsKnownIsTold(t *testing.T) {
	for seed := range uint64(150) {
		s := newStage(seed, 2)
		c := &Desk{seat: &seat{m: s.m, log: slog.New(slog.DiscardHandler)}, clock: clock.NewFake(s.now)}
		for i, tk := range s.running {
			view := tk.Workload()
			p := &preview{seat: c.seat, prices: prices{task: &view, now: s.now}}
			out, err := p.move(workload(tk, nil), MoveWish{Preview: true, Nodes: []string{"n0"}})
			got, want := lossOf(out.loss), api.MoveLoss{
				SinceSeconds: int64(s.since[i] / time.Second), RestartSeconds: int64(s.restart[i] / time.Second), Devices: 1, DeviceSeconds: int64(s.lost(i) / time.Second), Grace: api.Duration(saveGrace),
			}
			if err != nil || got != want {
				t.Fatalf("seed %d: the preview of %s tells %+v, not %+v: %v", seed, tk.Meta.Name, got, want, err)
			}
		}
		s.Submit(s.work("wide", 100, 2)) // it would start if one moved to another's node
		moves := c.WouldAdmit("task-wide")
		if len(moves) != 1 || !slices.Equal(moves[0].From, []string{fmt.Sprint("n", s.least)}) || moves[0].DeviceSeconds != int64(s.lost(s.least)/time.Second) {
			t.Fatalf("seed %d: %+v would have to move, not the one on n%d, which loses %s", seed, moves, s.least, s.lost(s.least))
		}
	}
}

// TestANodeThatFailedIsUsedLast: faults of the machine count against its node for a day, whoever they hit; others don't.
func TestANodeThatFailedIsUsedLast(t *testing.T) {
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	for cause, counts := range map[string]bool{"device-lost": true, "launcher-lost": true, "killed": false} {
		p := NewPlanner()
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
		if n := p.m.faults.Of("n0", now); counts != (n == 1) {
			t.Errorf("%s: %d faults", cause, n)
		}
		if n := p.m.faults.Of("n0", now.Add(past.FaultsCount)); n != 0 {
			t.Errorf("a day later: %d faults", n)
		}
	}
}
