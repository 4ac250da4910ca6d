package report

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	api "github.com/fermi-cluster/fermi/api/v1"
)

func status(ranks int, samples, busy float64) *api.TrainingTaskStatus {
	return &api.TrainingTaskStatus{Pace: &api.Pace{SamplesPerSecond: samples}, Use: &api.Use{Ranks: ranks, Devices: ranks, DeviceUse: busy, Cores: 1}}
}

func TestFiguresAreSummedUp(t *testing.T) {
	g := newGroup("p")
	g.add(status(1, 10, 0.2))
	g.add(status(3, 30, 1))
	got := map[string]float64{}
	for i, f := range figures {
		if v, ok := g.value(i); ok {
			got[f.name] = v
		}
	}
	for name, want := range map[string]float64{"samples_per_second": 40, "device_use": 0.8, "cpu_cores": 2} {
		if d := got[name] - want; d > 1e-9 || d < -1e-9 {
			t.Errorf("%s is %v, not %v", name, got[name], want)
		}
	}
	if _, ok := got["mfu"]; ok {
		t.Error("a figure that no task has")
	}
}

// TestLossScaleIsAMeter: of several tasks it is the mean, and the skipped steps are known, though none were.
func TestLossScaleIsAMeter(t *testing.T) {
	g := newGroup()
	g.add(&api.TrainingTaskStatus{Pace: &api.Pace{LossScale: 65536}})
	ch := make(chan prometheus.Metric, len(figures))
	NewTrainingMeters(nil).tell(ch, 2, []*group{g})
	if n := len(ch); n != 2 {
		t.Errorf("%d series", n)
	}
	g.add(&api.TrainingTaskStatus{Pace: &api.Pace{LossScale: 32768, SkippedSteps: 5}})
	g.add(&api.TrainingTaskStatus{Pace: &api.Pace{}}) // without
	for i, f := range figures {
		s := g.sums[i]
		if f.name == "loss_scale" && (!f.share || s.value/s.weight != 49152) || f.name == "skipped_steps" && (f.share || s.value != 5) {
			t.Errorf("%s: %+v", f.name, s)
		}
	}
}

func TestSeriesAreBounded(t *testing.T) {
	var list []*group
	for i := range 3 * maxTaskSeries {
		g := newGroup("p", fmt.Sprint(i))
		g.add(status(i+1, 1, 0.5))
		list = append(list, g)
	}
	list = largest(list, maxTaskSeries)
	if len(list) != maxTaskSeries || list[0].ranks != 3*maxTaskSeries {
		t.Errorf("%d, the first with %d ranks", len(list), list[0].ranks)
	}
	ch := make(chan prometheus.Metric, maxTaskSeries*len(figures))
	NewTrainingMeters(nil).tell(ch, 0, list)
	if n := len(ch); n != 5*maxTaskSeries { // samples, cores, memory, and two of the devices
		t.Errorf("%d series", n)
	}
}
