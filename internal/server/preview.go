package server

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
)

// previewRoutes are about where work would stand, and how far zones are from each other.
func (s *Server) previewRoutes(reg *schemas) []*route {
	task, zone := api.MustInfo(api.KindTrainingTask), api.MustInfo(api.KindZone)
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
			body: &bodySpec{schema: schemaOf[api.ExistingRequest](reg), media: []string{"application/json"}, required: true},
		},
		{
			method: http.MethodPost, path: prefix + "/" + task.Plural + "/existing/preview", id: "previewExisting", tag: task.Plural, kind: task.Kind,
			summary: "What running environments would be together as the nodes of a training: their sum, master, warnings, and what the framework makes of them. Nothing is created.",
			query:   scopeParams(task), data: schemaOf[api.ExistingPreview](reg), handle: s.previewExisting,
			body: &bodySpec{schema: schemaOf[api.ExistingRequest](reg), media: []string{"application/json"}, required: true},
		},
		{
			method: http.MethodGet, path: prefix + "/zones/{name}/outage", id: "previewOutage", tag: zone.Plural, kind: zone.Kind,
			summary: "Where each task of this zone would go if the zone were lost now, or why it would wait. Nothing changes.",
			data:    schemaOf[api.Outage](reg), handle: s.outage,
		},
		{
			method: http.MethodPost, path: prefix + "/zones/{name}/latency", id: "measureZone", tag: zone.Plural, kind: zone.Kind, verb: "measure",
			summary: "Report measured round trips from this zone; they replace declared ones.", data: reg.kind(zone), handle: s.measureZone,
			body: &bodySpec{schema: schemaOf[measurements](reg), media: []string{"application/json"}, required: true},
		},
	}
}

var noPlanner = fault.New(fault.Unavailable, "NoPlanner", fault.T("This server has no planner.", "该服务器没有调度器。"))

// wishBody is a task that is only asked about.
func wishBody(reg *schemas) *bodySpec {
	return &bodySpec{
		schema: &huma.Schema{AnyOf: []*huma.Schema{reg.kind(api.MustInfo(api.KindTrainingTask)), reg.of(reflect.TypeFor[flatTask]())}},
		media:  manifestMedia, required: true, doc: "The task's manifest, JSON or YAML.",
	}
}

func (s *Server) preview(ctx context.Context, c *call) (*reply, error) {
	if s.Live == nil {
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
	p, err := s.Live.Preview(ctx, task)
	if err != nil {
		return nil, err
	}
	return &reply{data: p}, nil
}

// wish reads a task that is only asked about: checked as a new one is, and never made. id is the
// route's.
func (s *Server) wish(ctx context.Context, c *call, id string) (*api.TrainingTask, error) {
	data, err := c.readBody(s.Limits.Body)
	if err != nil {
		return nil, err
	}
	o, err := decodeTask(data)
	if err != nil {
		return nil, err
	}
	task := o.(*api.TrainingTask)
	m := &task.Meta
	if err := s.scope(ctx, c, m, api.MustInfo(api.KindTrainingTask)); err != nil {
		return nil, err
	}
	if err := s.nameZones(ctx, task); err != nil {
		return nil, err
	}
	*m = api.Meta{Name: m.Name, DisplayName: m.DisplayName, Project: m.Project, Labels: m.Labels, Owner: c.who.name()}
	if m.Name == "" && m.DisplayName == "" {
		m.DisplayName = "preview"
	}
	if err := fresh(task, c.who); err != nil {
		return nil, err
	}
	if err := s.mayAbout(ctx, c.who, id, task); err != nil {
		return nil, err
	}
	if err := api.Prepare(task, s.IDs.Random); err != nil {
		return nil, err
	}
	if err := s.admitTask(ctx, c, &birth{object: task}, task, true); err != nil {
		return nil, err
	}
	return task, nil
}

func (s *Server) outage(ctx context.Context, c *call) (*reply, error) {
	if s.Live == nil {
		return nil, noPlanner
	}
	zone, err := s.zoneNamed(ctx, c.r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	if _, err := s.find(ctx, api.Key{Kind: api.KindZone, Name: zone}, 0); err != nil {
		return nil, err
	}
	out, err := s.Live.Outage(ctx, zone)
	if err != nil {
		return nil, err
	}
	return &reply{data: out}, nil
}

// mayAbout refuses who may not do this about a task: by the table's own row, not by who may change it.
func (s *Server) mayAbout(ctx context.Context, w *caller, id string, task *api.TrainingTask) error {
	if w.reach(id) == all {
		return nil
	}
	ok, err := s.owns(ctx, w, task)
	if err != nil || ok {
		return err
	}
	return fault.New(fault.Forbidden, "NotMember", fault.T(
		"The project %q does not exist, or you are not a member of it.", "项目 %q 不存在，或您不是其成员。", clip(task.Meta.Project, 64)))
}

// measurements are round trips from a zone to others.
type measurements struct {
	To map[string]measurement `json:"to" doc:"By the other zone's name."`
}

type measurement struct {
	P50Ms   float64 `json:"p50Ms" doc:"The usual round trip in milliseconds."`
	P99Ms   float64 `json:"p99Ms" doc:"The slow one."`
	Samples int     `json:"samples" doc:"How many were measured."`
}

// measureZone keeps measurements beside those of other zones that were there.
func (s *Server) measureZone(ctx context.Context, c *call) (*reply, error) {
	row, name := api.MustInfo(api.KindZone), c.r.PathValue("name")
	c.note.kind, c.note.name = row.Kind, clip(name, 128)
	data, err := c.readBody(64 << 10)
	if err != nil {
		return nil, err
	}
	seen, err := decodeMeasured(data, name, s.Clock.Now().UTC())
	if err != nil {
		return nil, err
	}
	for to := range seen {
		if _, err := s.refer(ctx, api.Key{Kind: row.Kind, Name: to}, "to"); err != nil {
			return nil, err
		}
	}
	return s.keepMeasured(ctx, c, row, name, seen)
}

// decodeMeasured reads a report about a zone, strictly.
func decodeMeasured(data []byte, zone string, now time.Time) (map[string]api.MeasuredLatency, error) {
	var body measurements
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&body); err != nil || dec.More() {
		return nil, fault.New(fault.Invalid, "BadBody", fault.T(
			`The body is not the JSON expected here, such as {"to":{"beijing-2":{"p50Ms":1.3,"p99Ms":2,"samples":100}}}.`,
			`请求体不是此处要求的 JSON，例如 {"to":{"beijing-2":{"p50Ms":1.3,"p99Ms":2,"samples":100}}}。`)).Because(err)
	}
	seen := map[string]api.MeasuredLatency{}
	for to, m := range body.To {
		seen[to] = api.MeasuredLatency{P50Ms: m.P50Ms, P99Ms: m.P99Ms, Samples: m.Samples, At: now}
	}
	if fields := api.CheckMeasured("to", zone, seen); len(fields) > 0 {
		return nil, fault.New(fault.Invalid, "InvalidField", fault.T("A measurement cannot be used.", "某项测量值无法使用。")).WithFields(fields...)
	}
	return seen, nil
}

func (s *Server) keepMeasured(ctx context.Context, c *call, row api.KindInfo, name string, seen map[string]api.MeasuredLatency) (*reply, error) {
	f, err := s.resolve(ctx, c, row, name)
	if err != nil {
		return nil, err
	}
	zone := f.object.(*api.Zone)
	if err := s.mayWrite(ctx, c.who, zone); err != nil {
		return nil, err
	}
	c.note.before(zone)
	var next *api.Zone
	var rev int64
	for range retries {
		if next, rev, err = s.writeMeasured(ctx, zone, seen); fault.ReasonOf(err) != "Stale" {
			break
		}
		again, lookErr := s.find(ctx, api.KeyOf(zone), zone.Meta.Revision+1)
		if lookErr != nil {
			return nil, lookErr
		}
		zone = again.(*api.Zone)
	}
	if err != nil {
		return nil, err
	}
	c.note.after(next)
	return &reply{data: next, revision: rev}, nil
}

func (s *Server) writeMeasured(ctx context.Context, zone *api.Zone, seen map[string]api.MeasuredLatency) (*api.Zone, int64, error) {
	next := store.Clone(zone)
	if next.Status.Measured == nil {
		next.Status.Measured = map[string]api.MeasuredLatency{}
	}
	maps.Copy(next.Status.Measured, seen)
	for to := range next.Status.Measured { // zones that are gone leave no trace
		if _, err := s.find(ctx, api.Key{Kind: api.KindZone, Name: to}, s.newest.Load()); fault.Is(err, fault.NotFound) {
			delete(next.Status.Measured, to)
		}
	}
	next.Meta.UpdatedAt = s.Clock.Now().UTC()
	rev, err := s.commit(ctx, store.Update(next))
	return next, rev, err
}
