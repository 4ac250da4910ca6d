package report

import (
	"context"
	"net/http"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/restored"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/truth"
)

// FiguresView is how well the tasks of a project, or of all projects, do together.
type FiguresView struct {
	Running       int                `json:"running" doc:"Tasks that run and were measured."`
	Figures       map[string]float64 `json:"figures" doc:"Of the running tasks, as fermi_cluster_NAME on /metrics: mfu, device_use, samples_per_second and so on. Of all that are not in the archive: recovery_seconds (mean time to recover) and effective_time (the share of their time in which they made new steps; of tasks that tell their steps). A figure that no task has is absent."`
	Goals         map[string]float64 `json:"goals" doc:"What the platform aims at: device_use and mfu above it, recovery_seconds below it."`
	Interruptions api.Interruptions  `json:"interruptions" doc:"What failures cost the tasks that are not in the archive, together."`
}

// Figures serves how well tasks do.
type Figures struct {
	truth *truth.Truth
	judge *access.Judge
	clock clock.Clock
}

func NewFigures(t *truth.Truth, j *access.Judge, c clock.Clock) *Figures {
	return &Figures{truth: t, judge: j, clock: c}
}

func (s *Figures) Routes(reg *rest.Schemas) []*rest.Route {
	return []*rest.Route{{
		Method: http.MethodGet, Path: rest.Prefix + "/figures", ID: "sumFigures", Summary: "How well tasks do together, and what failures cost them, beside the platform's goals.", Tag: "figures",
		Query: []rest.Param{{Name: "project", Doc: "Only this project; all that you may see when absent."}},
		Data:  rest.SchemaOf[FiguresView](reg), Handle: s.sumFigures,
	}}
}

func (s *Figures) sumFigures(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	projects, err := projectsAsked(ctx, s.judge, c)
	if err != nil {
		return nil, err
	}
	if p := c.Query.Text("project"); p != "" {
		if _, err := s.truth.Find(ctx, api.Key{Kind: api.KindProject, Name: p}, 0); err != nil {
			return nil, err
		}
	}
	snap, err := s.truth.List(ctx, api.KindTrainingTask, "", 0)
	if err != nil {
		return nil, err
	}
	sums := newFigureSums(s.clock.Now())
	snap.Ascend("", func(o api.Object) bool {
		if t := o.(*api.TrainingTask); projects == nil || slices.Contains(projects, t.Meta.Project) {
			sums.add(&t.Status)
		}
		return true
	})
	return &rest.Reply{Data: sums.view()}, nil
}

// figureSums adds up tasks.
type figureSums struct {
	now       time.Time
	tasks     int
	running   *group
	failures  api.Interruptions
	effective time.Duration
	whole     time.Duration
}

func newFigureSums(now time.Time) *figureSums {
	return &figureSums{now: now, running: newGroup(), failures: api.Interruptions{Causes: map[string]int{}, Phases: map[string]api.Duration{}}}
}

func (f *figureSums) add(status *api.TrainingTaskStatus) {
	if runsMeasured(status) {
		f.tasks++
		f.running.add(status)
	}
	if effective, whole, ok := status.Times(f.now); ok {
		f.effective, f.whole = f.effective+effective, f.whole+whole
	}
	in := status.Interruptions
	if in == nil {
		return
	}
	f.failures.Count += in.Count
	f.failures.LostSteps += in.LostSteps
	f.failures.Untold += restored.Unknown(in)
	f.failures.LostTime += in.LostTime
	f.failures.Recovered += in.Recovered
	for cause, n := range in.Causes {
		f.failures.Causes[cause] += n
	}
	for phase, d := range in.Phases {
		f.failures.Phases[phase] += d
	}
}

func (f *figureSums) view() FiguresView {
	out := FiguresView{Running: f.tasks, Figures: map[string]float64{}, Goals: goals, Interruptions: f.failures}
	for i, fig := range figures {
		if v, ok := f.running.value(i); ok {
			out.Figures[fig.name] = v
		}
	}
	if _, mean, ok := f.failures.Mean(); ok {
		out.Figures["recovery_seconds"] = mean.Seconds()
	}
	if f.whole > 0 {
		out.Figures["effective_time"] = float64(f.effective) / float64(f.whole)
	}
	return out
}
