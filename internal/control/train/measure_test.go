package train

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/telemetry"
)

// TestARecoveryThatFailsAgainIsCounted: training passed the step that it had reached and failed again, and one turn sees both.
func TestARecoveryThatFailsAgainIsCounted(t *testing.T) {
	began := time.Date(2026, 11, 18, 17, 0, 0, 0, time.UTC)
	ended := began.Add(2 * time.Second)
	before := &api.TrainingTaskStatus{Phase: api.PhaseRunning}
	after := &api.TrainingTaskStatus{Phase: api.PhaseRecovering}
	after.Interruptions = &api.Interruptions{Count: 2, Recovered: 1, Last: []api.Recovery{
		{FailedAt: began, SeenAt: began, EndedAt: &ended, RecoverySteps: api.RecoverySteps{Step: 4, Passed: true}}, {FailedAt: ended, SeenAt: ended},
	}}
	reg := prometheus.NewRegistry()
	measure(telemetry.NewRecoveries(reg), "lab", before, after)
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() != "fermi_recovery_seconds" {
			continue
		}
		if h := f.GetMetric()[0].GetHistogram(); h.GetSampleCount() != 1 || h.GetSampleSum() != 2 {
			t.Error(h)
		}
		return
	}
	t.Error("it was not counted")
}
