package sim

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Half of its nodes are twice the time; more of them are taken once they are free, and given back to
// whom else they would be taken from.
func TestElasticByHand(t *testing.T) {
	cfg := config(jobs([3]int{16, 0, 60}), 1)
	cfg.Elastic = .5
	if r := mustRun(t, cfg); r.Ended != 1 || r.Makespan != 120*time.Minute || r.Resizes != 0 || r.Utilisation < .999 {
		t.Errorf("%+v", r)
	}
	if cfg.Elastic = 0; mustRun(t, cfg).Never != 1 {
		t.Error("it needs two nodes")
	}
	// The first has a node for an hour; the gang grows after it.
	cfg = config(jobs([3]int{8, 0, 60}, [3]int{16, 0, 60}), 2)
	cfg.Elastic, cfg.Restart = .5, 0
	r := mustRun(t, cfg)
	if r.Ended != 2 || r.Resizes != 1 || r.Makespan < 90*time.Minute || r.Makespan > 105*time.Minute {
		t.Errorf("%+v", r)
	}
	for _, bad := range []float64{-1, 1.5} {
		cfg.Elastic = bad
		if _, err := Run(t.Context(), cfg); err == nil {
			t.Error("taken:", bad)
		}
	}
}

// TestElasticWork: whatever breaks and whoever gives way, all end, devices are used for what was
// asked for and what was lost, and no more than beginning again explains.
func TestElasticWork(t *testing.T) {
	resizes := 0
	rapid.Check(t, func(rt *rapid.T) {
		var list [][3]int
		for range rapid.IntRange(1, 20).Draw(rt, "jobs") {
			list = append(list, [3]int{
				rapid.SampledFrom([]int{1, 4, 8, 16, 24, 32}).Draw(rt, "devices"), rapid.IntRange(0, 500).Draw(rt, "at"), rapid.IntRange(1, 500).Draw(rt, "length"),
			})
		}
		cfg := config(jobs(list...), 4)
		cfg.Seed, cfg.Elastic, cfg.Preemptible = rapid.Uint64().Draw(rt, "seed"), rapid.SampledFrom([]float64{.25, .5}).Draw(rt, "elastic"), rapid.Bool().Draw(rt, "preemptible")
		cfg.Moves = cfg.Preemptible && rapid.Bool().Draw(rt, "moves")
		if rapid.Bool().Draw(rt, "faults") {
			cfg.Faults = DefaultFaults()
			cfg.Faults.NodeDay, cfg.Faults.RepairMedian, cfg.Faults.RepairSigma = 5, time.Hour, 0.5
		}
		w := newWorld(cfg)
		for w.goesOn() {
			w.step()
		}
		if w.left != 0 || w.stat.waiting != 0 || w.stat.running < -1e-6 || w.stat.running > 1e-6 {
			rt.Fatalf("left over: %d jobs, %+v", w.left, w.stat)
		}
		var asked, begun float64
		for _, l := range w.jobs {
			devices := float64(l.job.Devices()) / 1000
			asked += (l.job.Length + l.lost).Hours() * devices
			begun += float64(l.turn-1) * cfg.Restart.Hours() * devices
		}
		if used := w.stat.used; used < asked-1e-6 || used > asked+begun+1e-6 {
			rt.Fatalf("%v device-hours for %v and at most %v of beginning again", used, asked, begun)
		}
		resizes += w.stat.Resizes
		if d := cmp.Diff(w.report(), mustRun(t, cfg)); d != "" {
			rt.Fatal("not the same twice:", d)
		}
	})
	if resizes == 0 {
		t.Error("no gang ever changed its size")
	}
}
