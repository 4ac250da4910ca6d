package train

import (
	"context"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/objects"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/truth"
)

// Previews answers what would become of a task, and submits work that runs inside other tasks.
type Previews struct {
	truth  *truth.Truth
	judge  *access.Judge
	writer *objects.Writer
	gate   *Gate
	around *surroundings
	live   Live
	ids    *id.Source
	body   int64 // bytes of a manifest
}

func NewPreviews(f *objects.Finder, w *objects.Writer, g *Gate, live Live, ids *id.Source, body int64) *Previews {
	return &Previews{truth: f.Truth, judge: f.Judge, writer: w, gate: g, around: &surroundings{f.Truth}, live: live, ids: ids, body: body}
}

// Routes are about where work would stand.
func (s *Previews) Routes(reg *rest.Schemas) []*rest.Route {
	task := api.MustInfo(api.KindTrainingTask)
	return []*rest.Route{
		{
			Method: http.MethodPost, Path: rest.Prefix + "/placements/preview", ID: "previewPlacement", Tag: "placements", Kind: api.KindPlacement,
			Summary: "Where a task would stand if it were submitted now, its price, latency and efficiency, and alternatives. Nothing is created.",
			Query:   rest.ScopeParams(task), Data: rest.SchemaOf[api.Preview](reg), Handle: s.preview,
			Body: wishBody(reg),
		},
		{
			Method: http.MethodPost, Path: rest.Prefix + "/" + task.Plural + "/recipe", ID: "previewRecipe", Tag: task.Plural, Kind: task.Kind,
			Summary: "What the framework makes of a task: environment, files and commands. Nothing is created.",
			Query:   rest.ScopeParams(task), Data: rest.SchemaOf[api.Recipe](reg), Handle: s.recipe, Body: wishBody(reg),
		},
		{
			Method: http.MethodPost, Path: rest.Prefix + "/" + task.Plural + "/existing", ID: "createExisting", Tag: task.Plural, Kind: task.Kind, Verb: "create",
			Summary: "Train inside running environments: a process for each of their devices, in their limits and folders.",
			Query:   append(rest.ScopeParams(task), rest.ParamDryRun), Data: rest.SchemaOf[Submitted](reg), Handle: s.createExisting,
			Body: &rest.BodySpec{Schema: rest.SchemaOf[api.ExistingRequest](reg), Media: rest.JsonMedia, Required: true},
		},
		{
			Method: http.MethodPost, Path: rest.Prefix + "/" + task.Plural + "/existing/preview", ID: "previewExisting", Tag: task.Plural, Kind: task.Kind,
			Summary: "What running environments would be together as the nodes of a training: their sum, master, warnings, and what the framework makes of them. Nothing is created.",
			Query:   rest.ScopeParams(task), Data: rest.SchemaOf[api.ExistingPreview](reg), Handle: s.previewExisting,
			Body: &rest.BodySpec{Schema: rest.SchemaOf[api.ExistingRequest](reg), Media: rest.JsonMedia, Required: true},
		},
	}
}

// wishBody is a task that is only asked about.
func wishBody(reg *rest.Schemas) *rest.BodySpec {
	return &rest.BodySpec{
		Schema: &huma.Schema{AnyOf: []*huma.Schema{reg.Kind(api.MustInfo(api.KindTrainingTask)), reg.Of(reflect.TypeFor[flatTask]())}},
		Media:  rest.ManifestMedia, Required: true, Doc: "The task's manifest, JSON or YAML.",
	}
}

func (s *Previews) preview(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	if s.live == nil {
		return nil, refuse.NoPlanner
	}
	task, err := s.wish(ctx, c, "previewPlacement")
	if err != nil {
		return nil, err
	}
	if len(task.Spec.Inside) > 0 {
		return nil, refuse.Invalid("spec.inside", fault.T("What runs inside environments has their place, and is previewed at /api/v1/training-tasks/existing/preview or /api/v1/training-tasks/recipe.",
			"在环境内运行的任务使用其位置，请在 /api/v1/training-tasks/existing/preview 或 /api/v1/training-tasks/recipe 预览。"))
	}
	if err := checkRecipe(task); err != nil {
		return nil, err
	}
	p, err := s.live.Preview(ctx, task)
	if err != nil {
		return nil, err
	}
	return &rest.Reply{Data: p}, nil
}

// wish reads a task that is only asked about: checked as a new one is, and never made. id is the
// route's.
func (s *Previews) wish(ctx context.Context, c *rest.Call, id string) (*api.TrainingTask, error) {
	data, err := c.ReadBody(s.body)
	if err != nil {
		return nil, err
	}
	o, err := decodeTask(data)
	if err != nil {
		return nil, err
	}
	task := o.(*api.TrainingTask)
	m := &task.Meta
	if err := s.writer.Scope(ctx, c, m, api.MustInfo(api.KindTrainingTask)); err != nil {
		return nil, err
	}
	if err := nameZones(ctx, s.truth, task); err != nil {
		return nil, err
	}
	*m = api.Meta{Name: m.Name, DisplayName: m.DisplayName, Project: m.Project, Labels: m.Labels, Owner: c.Who.Name()}
	if m.Name == "" && m.DisplayName == "" {
		m.DisplayName = "preview"
	}
	if err := freshTask(task, c.Who); err != nil {
		return nil, err
	}
	if err := s.judge.MayAbout(ctx, c.Who, id, task); err != nil {
		return nil, err
	}
	if err := api.Prepare(task, s.ids.Random); err != nil {
		return nil, err
	}
	if err := s.gate.admitTask(ctx, c, &objects.Birth{Object: task}, task, true); err != nil {
		return nil, err
	}
	return task, nil
}
