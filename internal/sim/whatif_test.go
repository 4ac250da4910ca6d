package sim

import (
	"fmt"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// present is a live cluster of two nodes: one job stands on the first since 30 minutes and is
// expected to take 60 in all, one of eight devices and one of sixteen wait.
func present(t *testing.T) Config {
	t.Helper()
	cfg := config(Trace{Name: "live"}, 2)
	cfg.AsSpecified, cfg.Preemptible = true, true
	cfg.Zones[0].Meta.DisplayName = "北京-2"
	var tasks []*api.TrainingTask
	for i, devices := range []int{8, 8, 16} {
		task := newTask(i+1, fmt.Sprintf("job%d", i), "u", "default", wholeDevices(devices))
		task.Spec.ExpectedTime = api.Duration(time.Hour)
		task.Meta.CreatedAt = cfg.Begin.Add(time.Duration(i-60) * time.Minute)
		tasks = append(tasks, task)
	}
	tasks[0].Status.Phase = api.PhaseRunning
	cfg.Nodes[1].Spec.Cordoned = true // the others wait
	cfg.takeUp(tasks, map[string]*api.Placement{tasks[0].Meta.ID: {Spec: api.PlacementSpec{
		TaskID: tasks[0].Meta.ID, PlacedAt: cfg.Begin.Add(-30 * time.Minute), Roles: []api.RoleAssignment{{Role: "worker", Slots: api.Slots{{Node: 1, Devices: 0xff}}}},
	}}})
	return cfg
}

func startsOf(r *Report) string {
	out := ""
	for _, l := range r.Lives {
		out += after("en", l.Start) + ", "
	}
	return out
}

func TestLiveWhatIf(t *testing.T) {
	cfg := present(t)
	r := mustRun(t, cfg)
	if got := startsOf(r); got != "runs, +30 min, never, " {
		t.Error("as it is:", got)
	}
	if r.Lives[0].End != 30*time.Minute || r.Lives[1].Wait != 89*time.Minute || r.Utilisation != 0.5 {
		t.Errorf("%+v", r.Lives)
	}
	// Half an hour and an hour of eight devices are paid for; what was before the begin is not.
	if want := 1.5 * 8 * (8.5 + 4*0.2); r.Cost < want-1e-6 || r.Cost > want+1e-6 {
		t.Errorf("cost %v, want %v", r.Cost, want)
	}
	for _, c := range []struct {
		change Change
		want   string
	}{
		{Change{Add: []string{"1 nodes in 北京-2"}}, "runs, at once, +1 h 00 min, "},
		{Change{Add: []string{"2x8:A100@z"}}, "runs, at once, +30 min, "},
		{Change{Remove: []string{"1 nodes in z"}}, "runs, +30 min, never, "},
		// What stood on it waits again, with the half hour that it has behind it.
		{Change{Remove: []string{"z-00001"}, Add: []string{"1x8:A100@z"}}, "at once, +30 min, never, "},
	} {
		changed, err := cfg.With(c.change)
		if err != nil {
			t.Fatal(err)
		}
		if got := startsOf(mustRun(t, changed)); got != c.want {
			t.Errorf("%s: %s, want %s", c.change.String(), got, c.want)
		}
	}
	if got := startsOf(mustRun(t, cfg)); got != "runs, +30 min, never, " {
		t.Error("the base was changed:", got)
	}
}

// TestWeights: two queues fill one node; the one that weighs three times as much is served more.
func TestWeights(t *testing.T) {
	var list [][3]int
	for range 40 {
		list = append(list, [3]int{1, 0, 60})
	}
	trace := jobs(list...)
	for i := range trace.Jobs {
		trace.Jobs[i].Task.Spec.Queue = []string{"team-a", "team-b"}[i%2]
	}
	base := config(trace, 1)
	changed, err := base.With(Change{Weight: []string{"team-a=1", "team-b=3", "team-b=2x"}})
	if err != nil || len(changed.Queues) != 2 || changed.Queues[1].Spec.Weight != 6 || len(base.Queues) != 0 {
		t.Fatal(err, changed.Queues)
	}
	waits := func(r *Report) (out [2]time.Duration) {
		for i, l := range r.Lives {
			out[i%2] += l.Wait / 20
		}
		return out
	}
	was, is := waits(mustRun(t, base)), waits(mustRun(t, changed))
	if is[1] >= was[1] || is[0] <= was[0] {
		t.Errorf("waits were %v, are %v", was, is)
	}
}

func TestBadWhatIf(t *testing.T) {
	cfg := present(t)
	for _, c := range []Change{
		{Add: []string{"4 nodes in nowhere"}}, {Add: []string{"0x8:A100"}}, {Add: []string{"1x65:A100"}}, {Add: []string{"many"}}, {Add: []string{"0 nodes in z"}},
		{Add: []string{"999999x8:A100"}}, {Remove: []string{"3 nodes in z"}}, {Remove: []string{"0 nodes in z"}}, {Remove: []string{"no-such"}},
		{Weight: []string{"default"}}, {Weight: []string{"default=0"}}, {Weight: []string{"default=0.5x"}}, {Weight: []string{"default=NaN"}},
		{Weight: []string{"default=1e9"}}, {Weight: []string{"no-such=2"}}, {Weight: []string{""}},
	} {
		if _, err := cfg.With(c); err == nil {
			t.Errorf("taken: %+v", c)
		}
	}
}

// TestFairness: of eight devices one queue has six and wants eight, the other has two and wants two:
// the second has all it is due. With eight wanted by both, four each are due.
func TestFairness(t *testing.T) {
	f := newFairness(Config{Queues: []*api.Queue{{Meta: api.Meta{Name: "a"}}, {Meta: api.Meta{Name: "b"}}}})
	one := func(queue string, devices int) *Job {
		return &Job{Task: newTask(0, "j", "u", queue, wholeDevices(devices))}
	}
	f.has(one("a", 6), 6)
	if _, several := f.index(8); several {
		t.Error("one queue alone is compared")
	}
	f.wants(one("a", 2), +1)
	f.has(one("b", 2), 2)
	if got, several := f.index(8); got != 1 || !several {
		t.Errorf("%v, %v", got, several)
	}
	f.wants(one("b", 6), +1)
	// 6/4 and 2/4: (8/4)² / (2 × (36+4)/16)
	if got, _ := f.index(8); got != 0.8 {
		t.Errorf("%v, want 0.8", got)
	}
	f.of("b").weight = 3 // now 2 and 6 are due: 3 and 1/3
	if got, _ := f.index(8); got >= 0.8 {
		t.Errorf("%v with more due to who has less", got)
	}
}

func FuzzChange(f *testing.F) {
	for _, seed := range [][3]string{{"4x8:A100@z", "1 nodes in z", "default=2x"}, {"4 nodes in 北京-2", "z-00001", "default=3"}, {"1@z", "", "=1e300x"}} {
		f.Add(seed[0], seed[1], seed[2])
	}
	base := config(jobs([3]int{8, 0, 60}), 2)
	f.Fuzz(func(t *testing.T, add, remove, weight string) {
		changed, err := base.With(Change{Add: []string{add}, Remove: []string{remove}, Weight: []string{weight}})
		if err == nil && (len(changed.Nodes) > maxNodes || len(changed.Queues) != 1 || changed.Queues[0].Spec.Weight < 1) {
			t.Fatalf("%d nodes, %+v", len(changed.Nodes), changed.Queues)
		}
		if len(base.Nodes) != 2 || len(base.Queues) != 0 {
			t.Fatal("the base was changed")
		}
	})
}
