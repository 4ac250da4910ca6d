package server

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/server/report"
)

// TestFiguresOfProjects has two projects with a task each that runs, and one of them with one that ended.
func TestFiguresOfProjects(t *testing.T) {
	w := newWorld(t)
	lin := w.user("lin", api.RoleMember)
	w.put(&api.Project{Meta: api.Meta{Name: "lab"}, Spec: api.ProjectSpec{Members: []string{"lin"}}})
	w.put(&api.Project{Meta: api.Meta{Name: "den"}})
	end := time.Now().Add(-time.Hour).UTC()
	put := func(project, name string, phase api.Phase, ranks int, busy float64, ran, lost time.Duration) {
		task := w.submit(name, func(t *api.TrainingTask) { t.Meta.Project = project })
		w.change(task, func(t *api.TrainingTask) {
			begin := end.Add(-ran)
			t.Status.Phase, t.Status.StartedAt, t.Status.FinishedAt = phase, &begin, &end
			if phase == api.PhaseRunning {
				t.Status.Use = &api.Use{Ranks: ranks, Devices: ranks, DeviceUse: busy}
			}
			t.Status.Time = &api.TimeUse{From: begin, At: end, Doing: api.TimeEffective, Step: 9, Spent: map[string]api.Duration{
				api.TimeEffective: api.Duration(ran - lost), api.TimeRecovering: api.Duration(lost),
			}}
			t.Status.Interruptions = &api.Interruptions{
				Count: 2, Causes: map[string]int{"killed": 2}, LostSteps: 5, LostTime: api.Duration(lost), Recovered: 2,
				Phases: map[string]api.Duration{"detect": api.Duration(lost / 2), "start": api.Duration(lost / 2)},
			}
		})
	}
	put("lab", "a", api.PhaseRunning, 1, 0.2, 100*time.Minute, 10*time.Minute)
	put("lab", "b", api.PhaseCompleted, 1, 0, 300*time.Minute, 30*time.Minute)
	put("den", "c", api.PhaseRunning, 3, 1, 400*time.Minute, 0)

	read := func(token, query string) report.FiguresView {
		t.Helper()
		var got report.FiguresView
		a := w.do("GET", "/api/v1/figures"+query, token, nil)
		must(t, json.Unmarshal(a.Data, &got))
		return got
	}
	for _, c := range []struct {
		name, token, query string
		want               report.FiguresView
	}{
		{"all", w.admin, "", report.FiguresView{
			Running: 2, Figures: map[string]float64{"device_use": 0.8, "recovery_seconds": 400, "effective_time": 0.95},
			Interruptions: api.Interruptions{Count: 6, Causes: map[string]int{"killed": 6}, LostSteps: 15, LostTime: api.Duration(40 * time.Minute), Recovered: 6},
		}},
		{"of a project", w.admin, "?project=den", report.FiguresView{
			Running: 1, Figures: map[string]float64{"device_use": 1, "recovery_seconds": 0, "effective_time": 1},
			Interruptions: api.Interruptions{Count: 2, Causes: map[string]int{"killed": 2}, LostSteps: 5, Recovered: 2},
		}},
		{"of those one is in", lin, "", report.FiguresView{
			Running: 1, Figures: map[string]float64{"device_use": 0.2, "recovery_seconds": 600, "effective_time": 0.9},
			Interruptions: api.Interruptions{Count: 4, Causes: map[string]int{"killed": 4}, LostSteps: 10, LostTime: api.Duration(40 * time.Minute), Recovered: 4},
		}},
	} {
		got := read(c.token, c.query)
		c.want.Goals = map[string]float64{"device_use": 0.85, "mfu": 0.55, "recovery_seconds": 300}
		for _, cpu := range []string{"cpu_cores", "memory_bytes", "device_memory_bytes"} {
			delete(got.Figures, cpu)
		}
		got.Interruptions.Phases = nil
		near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-6 })
		if d := cmp.Diff(c.want, got, near, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
	w.refusedTo(lin, "GET", "/api/v1/figures?project=den", nil, 403, "NotMember")
	w.refused("GET", "/api/v1/figures?project=none", nil, 404, "NotFound")
}
