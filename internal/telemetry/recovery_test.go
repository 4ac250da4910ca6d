package telemetry

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestRecoveriesAreCounted(t *testing.T) {
	var nobody *Recoveries // a controller without a registry
	nobody.Failed("Signaled")
	nobody.LostSteps(1)
	nobody.Recovered(nil, time.Second)
	nobody.Saved(1, 1)
	nobody.Finished("p", "Completed", nil)

	reg := prometheus.NewRegistry()
	r := NewRecoveries(reg)
	r.Failed("Signaled")
	r.LostSteps(-5)
	r.LostSteps(3)
	r.Recovered(map[string]time.Duration{"detect": time.Second, "start": 2 * time.Second}, 3*time.Second)
	r.Saved(3, 2)
	r.Saved(-1, -1)
	for i := range 2 * maxProjects {
		r.Finished(fmt.Sprint("p", i), "Failed", nil)
	}
	r.Finished("p0", "Completed", map[string]time.Duration{"effective": time.Minute, "stalled": time.Minute, "away": -1})
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		if n := len(f.GetMetric()); n > maxProjects+2 {
			t.Errorf("%d series of %s", n, f.GetName())
		}
		for _, m := range f.GetMetric() {
			switch {
			case m.GetHistogram() != nil:
				got[f.GetName()] += m.GetHistogram().GetSampleSum()
			default:
				got[f.GetName()] += m.GetCounter().GetValue()
			}
		}
	}
	for name, want := range map[string]float64{
		"fermi_recovery_phase_seconds": 3, "fermi_recovery_seconds": 3, "fermi_task_failures_total": 1,
		"fermi_lost_steps_total": 3, "fermi_task_seconds_total": 120, "fermi_tasks_finished_total": 2*maxProjects + 1,
		"fermi_project_tasks_finished_total": 2*maxProjects + 1, "fermi_saves_total": 5,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, not %v", name, got[name], want)
		}
	}
}
