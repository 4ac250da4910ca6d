package server

import (
	"context"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// previews answers what would become of a task, and submits work that runs inside other tasks.
type previews struct {
	truth  *truth
	judge  *judge
	writer *writer
	gate   *gate
	around *surroundings
	live   taskLive
}

func newPreviews(w *writer, g *gate, live taskLive) *previews {
	return &previews{truth: w.truth, judge: w.judge, writer: w, gate: g, around: &surroundings{w.truth}, live: live}
}

// routes are about where work would stand.
func (s *previews) routes(reg *schemas) []*route {
	task := api.MustInfo(api.KindTrainingTask)
	return []*route{
		{
			method: http.MethodPost, path: prefix + "/placements/preview", id: "previewPlacement", tag: "placements", kind: api.KindPlacement,
			summary: "Where a task would stand if it were submitted now, its price, latency and efficiency, and alternatives. Nothing is created.",
			query:   scopeParams(task), data: schemaOf[api.Preview](reg), handle: s.preview,
			body: wishBody(reg),
		},
		{
			method: http.MethodPost, path: prefix + "/" + task.Plural + "/recipe", id: "previewRecipe", tag: task.Plural, kind: task.Kind,
			summary: "What the framework makes of a task: environment, files and commands. Nothing is created.",
			query:   scopeParams(task), data: schemaOf[api.Recipe](reg), handle: s.recipe, body: wishBody(reg),
		},
		{
			method: http.MethodPost, path: prefix + "/" + task.Plural + "/existing", id: "createExisting", tag: task.Plural, kind: task.Kind, verb: "create",
			summary: "Train inside running environments: a process for each of their devices, in their limits and folders.",
			query:   append(scopeParams(task), paramDryRun), data: schemaOf[submitted](reg), handle: s.createExisting,
			body: &bodySpec{schema: schemaOf[api.ExistingRequest](reg), media: jsonMedia, required: true},
		},
		{
			method: http.MethodPost, path: prefix + "/" + task.Plural + "/existing/preview", id: "previewExisting", tag: task.Plural, kind: task.Kind,
			summary: "What running environments would be together as the nodes of a training: their sum, master, warnings, and what the framework makes of them. Nothing is created.",
			query:   scopeParams(task), data: schemaOf[api.ExistingPreview](reg), handle: s.previewExisting,
			body: &bodySpec{schema: schemaOf[api.ExistingRequest](reg), media: jsonMedia, required: true},
		},
	}
}

// wishBody is a task that is only asked about.
func wishBody(reg *schemas) *bodySpec {
	return &bodySpec{
		schema: &huma.Schema{AnyOf: []*huma.Schema{reg.kind(api.MustInfo(api.KindTrainingTask)), reg.of(reflect.TypeFor[flatTask]())}},
		media:  manifestMedia, required: true, doc: "The task's manifest, JSON or YAML.",
	}
}

func (s *previews) preview(ctx context.Context, c *call) (*reply, error) {
	if s.live == nil {
		return nil, noPlanner
	}
	task, err := s.wish(ctx, c, "previewPlacement")
	if err != nil {
		return nil, err
	}
	if len(task.Spec.Inside) > 0 {
		return nil, invalid("spec.inside", fault.T("What runs inside environments has their place, and is previewed at /api/v1/training-tasks/existing/preview or /api/v1/training-tasks/recipe.",
			"在环境内运行的任务使用其位置，请在 /api/v1/training-tasks/existing/preview 或 /api/v1/training-tasks/recipe 预览。"))
	}
	if err := checkRecipe(task); err != nil {
		return nil, err
	}
	p, err := s.live.Preview(ctx, task)
	if err != nil {
		return nil, err
	}
	return &reply{data: p}, nil
}

// wish reads a task that is only asked about: checked as a new one is, and never made. id is the
// route's.
func (s *previews) wish(ctx context.Context, c *call, id string) (*api.TrainingTask, error) {
	data, err := c.readBody(s.writer.body)
	if err != nil {
		return nil, err
	}
	o, err := decodeTask(data)
	if err != nil {
		return nil, err
	}
	task := o.(*api.TrainingTask)
	m := &task.Meta
	if err := s.writer.scope(ctx, c, m, api.MustInfo(api.KindTrainingTask)); err != nil {
		return nil, err
	}
	if err := nameZones(ctx, s.truth, task); err != nil {
		return nil, err
	}
	*m = api.Meta{Name: m.Name, DisplayName: m.DisplayName, Project: m.Project, Labels: m.Labels, Owner: c.who.name()}
	if m.Name == "" && m.DisplayName == "" {
		m.DisplayName = "preview"
	}
	if err := freshTask(task, c.who); err != nil {
		return nil, err
	}
	if err := s.judge.mayAbout(ctx, c.who, id, task); err != nil {
		return nil, err
	}
	if err := api.Prepare(task, s.writer.ids.Random); err != nil {
		return nil, err
	}
	if err := s.gate.admitTask(ctx, c, &birth{object: task}, task, true); err != nil {
		return nil, err
	}
	return task, nil
}
