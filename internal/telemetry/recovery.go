package telemetry

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Recoveries counts failures of tasks and the ways back. Its labels are closed sets, or bounded ones: no
// name of a task or a user is one. The zero value of a pointer counts nothing.
type Recoveries struct {
	phases   *prometheus.HistogramVec
	whole    prometheus.Histogram
	failures *prometheus.CounterVec
	steps    prometheus.Counter
	seconds  *prometheus.CounterVec
	tasks    *prometheus.CounterVec
	projects *prometheus.CounterVec
	saves    *prometheus.CounterVec

	mu    sync.Mutex
	known map[string]bool // projects with a series of their own
}

// maxProjects is how many projects have series; the rest share one.
const maxProjects = 100

// NewRecoveries makes them in reg.
func NewRecoveries(reg prometheus.Registerer) *Recoveries {
	buckets := []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600}
	r := &Recoveries{
		phases: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "fermi_recovery_phase_seconds", Help: "Time of each phase of a recovery: detect, attribute, place, start, restore, catchUp.", Buckets: buckets,
		}, []string{"phase"}),
		whole: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "fermi_recovery_seconds", Help: "From a failure until the steps it cost were made up.", Buckets: buckets,
		}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "fermi_task_failures_total", Help: "Failures of running tasks by cause."}, []string{"cause"}),
		steps:    prometheus.NewCounter(prometheus.CounterOpts{Name: "fermi_lost_steps_total", Help: "Steps that had to be made again."}),
		seconds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fermi_task_seconds_total", Help: "Time of finished tasks from their start to their first end, by what it was spent with: effective, starting, recovering, stalled, away, unknown.",
		}, []string{"kind"}),
		tasks: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "fermi_tasks_finished_total", Help: "Finished tasks by phase."}, []string{"phase"}),
	}
	r.projects = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "fermi_project_tasks_finished_total", Help: "Finished tasks by project (the first 100; the rest are other) and phase."}, []string{"project", "phase"})
	r.saves = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "fermi_saves_total", Help: "Checkpoints that ranks began, and those of them that are whole."}, []string{"state"})
	r.known = map[string]bool{}
	reg.MustRegister(r.phases, r.whole, r.failures, r.steps, r.seconds, r.tasks, r.projects, r.saves)
	return r
}

// Failed counts a failure.
func (r *Recoveries) Failed(cause string) {
	if r != nil {
		r.failures.WithLabelValues(cause).Inc()
	}
}

// Recovered counts a way back.
func (r *Recoveries) Recovered(phases map[string]time.Duration, whole time.Duration) {
	if r == nil {
		return
	}
	for name, d := range phases {
		r.phases.WithLabelValues(name).Observe(d.Seconds())
	}
	r.whole.Observe(whole.Seconds())
}

// LostSteps counts steps that have to be made again.
func (r *Recoveries) LostSteps(n int64) {
	if r != nil {
		r.steps.Add(float64(max(n, 0)))
	}
}

// Saved counts checkpoints.
func (r *Recoveries) Saved(begun, whole int64) {
	if r != nil {
		r.saves.WithLabelValues("begun").Add(float64(max(begun, 0)))
		r.saves.WithLabelValues("whole").Add(float64(max(whole, 0)))
	}
}

// Finished counts a task that ended in a phase, and how its time was spent.
func (r *Recoveries) Finished(project, phase string, spent map[string]time.Duration) {
	if r == nil {
		return
	}
	r.tasks.WithLabelValues(phase).Inc()
	r.projects.WithLabelValues(r.series(project), phase).Inc()
	for kind, d := range spent {
		r.seconds.WithLabelValues(kind).Add(max(d, 0).Seconds())
	}
}

// series is the project, or that of all beyond the bound.
func (r *Recoveries) series(project string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.known[project] {
		if len(r.known) >= maxProjects {
			return "other"
		}
		r.known[project] = true
	}
	return project
}
