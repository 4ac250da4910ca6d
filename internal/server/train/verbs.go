package train

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/server/objects"
	"github.com/fermi-cluster/fermi/internal/server/report"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Verbs serves what people do with a training task, and ask about it.
type Verbs struct {
	desk    *Desk
	writer  *objects.Writer
	history history.History
	events  *report.Events
	live    Live
}

func NewVerbs(d *Desk, w *objects.Writer, e *report.Events, live Live) *Verbs {
	return &Verbs{desk: d, writer: w, history: d.finder.History, events: e, live: live}
}

type cloneBody struct {
	Name        string `json:"name,omitempty"`
	DisplayName string `json:"displayName,omitempty"`
}

// Routes are the verbs that only training tasks have.
func (s *Verbs) Routes(reg *rest.Schemas) []*rest.Route {
	row := api.MustInfo(api.KindTrainingTask)
	one := rest.Prefix + "/" + row.Plural + "/{name}"
	both := []rest.Param{rest.ParamProject, rest.ParamRevision}
	return append(s.probeRoutes(reg, row, one), []*rest.Route{
		{
			Method: http.MethodPost, Path: one + "/stop", ID: "stopTask", Summary: "Ask the task to end; it keeps its outputs.", Tag: row.Plural,
			Kind: row.Kind, Verb: "stop", Query: []rest.Param{rest.ParamProject, rest.ParamForce}, Data: reg.Kind(row), Handle: s.stopTask,
		},
		{
			Method: http.MethodPost, Path: one + "/clone", ID: "cloneTask", Summary: "Submit the same work again.", Tag: row.Plural,
			Kind: row.Kind, Verb: "clone", Query: []rest.Param{rest.ParamProject, rest.ParamDryRun}, Data: rest.SchemaOf[Submitted](reg),
			Body: &rest.BodySpec{Schema: rest.SchemaOf[cloneBody](reg), Media: rest.JsonMedia}, Handle: s.cloneTask,
		},
		s.moveRoute(reg, row, one),
		readRoute("events", "listTaskEvents", "What happened to the task.", append(report.EventPage, both...), report.EventsSchema(reg), s.taskEvents),
		readRoute("why", "explainTask", "Why the task is where it is.", both, rest.SchemaOf[Explanation](reg), s.why),
		readRoute("replicas", "listTaskReplicas", "Where its replicas run or ran.", both, rest.Object([]string{"items"}, map[string]*huma.Schema{"items": rest.ListOf(rest.SchemaOf[ReplicaView](reg))}), s.replicas),
	}...)
}

// readRoute is a question about a task.
func readRoute(verb, id, summary string, query []rest.Param, data *huma.Schema, h rest.Handler) *rest.Route {
	row := api.MustInfo(api.KindTrainingTask)
	return &rest.Route{
		Method: http.MethodGet, Path: rest.Prefix + "/" + row.Plural + "/{name}/" + verb, ID: id, Summary: summary, Tag: row.Plural,
		Kind: row.Kind, Query: query, Data: data, Handle: h,
	}
}

func (s *Verbs) stopTask(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	f, task, err := s.desk.taskToChange(ctx, c)
	if err != nil {
		return nil, err
	}
	over := &rest.Reply{Message: fault.T("The task has already ended", "任务已结束"), Data: task, Revision: task.Meta.Revision}
	if f.Archived {
		c.Note.Skip = true
		return over, nil
	}
	if err := freeOf(c, task); err != nil {
		return nil, err
	}
	c.Note.Before(task)
	next, rev, err := s.desk.edit(store.Urgent(ctx), task, func(t *api.TrainingTask) bool {
		if t.Spec.Stop || t.Status.Phase.Finished() && !t.Spec.Restore.Due(t.Status.Attempt) {
			return false
		}
		t.Spec.Stop = true
		return true
	})
	if err != nil {
		return nil, err
	}
	if rev == 0 {
		c.Note.Skip = true
		if !next.Status.Phase.Finished() {
			over.Message = fault.T("The task is already stopping", "任务已在停止")
		}
		over.Data = next
		return over, nil
	}
	c.Note.After(next)
	c.Tell(next, "StopRequested", fault.T("A stop was asked for.", "已请求停止。"))
	return &rest.Reply{Message: fault.T("The task is stopping", "任务正在停止"), Data: next, Revision: rev}, nil
}

func (s *Verbs) cloneTask(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	_, task, err := s.desk.task(ctx, c)
	if err != nil {
		return nil, err
	}
	var body cloneBody
	if err := c.ReadJSON(&body, "name, displayName"); err != nil {
		return nil, err
	}
	next := store.Clone(task)
	next.Meta = api.Meta{Name: body.Name, DisplayName: body.DisplayName, Project: task.Meta.Project, Labels: next.Meta.Labels}
	if next.Meta.DisplayName == "" && next.Meta.Name == "" {
		next.Meta.DisplayName = task.Meta.DisplayName
	}
	next.Spec.Stop, next.Spec.Restore = false, nil
	if from := task.Status.From; from != nil && task.Spec.Checkpoint.From.Upload { // nobody need upload it again
		next.Spec.Checkpoint.From = &api.CheckpointFrom{Task: task.Meta.ID, Step: from.Step}
	}
	return s.writer.Make(ctx, c, next)
}

func (s *Verbs) why(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	f, task, err := s.desk.task(ctx, c)
	if err != nil {
		return nil, err
	}
	if s.live != nil && !f.Archived && !task.Status.Phase.Finished() {
		e, err := s.live.Why(ctx, task)
		if err == nil {
			e, err = s.withoutOthers(ctx, c, e)
		}
		if err != nil {
			return nil, err
		}
		return &rest.Reply{Data: e, Revision: task.Meta.Revision}, nil
	}
	return &rest.Reply{Data: written(task), Revision: task.Meta.Revision}, nil
}

// written explains by what is written down.
func written(task *api.TrainingTask) Explanation {
	e := Explanation{Reason: task.Status.Reason, Message: task.Status.Message}
	if e.Reason == "" {
		e.Reason = string(task.Status.Phase)
	}
	if e.Message.IsZero() {
		e.Message = fault.T("The task is %s.", "任务状态为 %s。", task.Status.Phase)
	}
	if fl := task.Status.Failure; fl != nil {
		e.Evidence = append(e.Evidence, fault.T("%s-%d on %s: %s, exit code %d.", "%s-%d 位于 %s：%s，退出码 %d。", fl.Role, fl.Index, fl.Node, fl.Reason, fl.ExitCode))
		if !strings.HasPrefix(e.Message.EN, fl.Message.EN) { // else it was said
			e.Evidence = append(e.Evidence, fl.Message)
		}
		e.Action = fl.Advice
	}
	return e
}

func (s *Verbs) replicas(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	f, task, err := s.desk.task(ctx, c)
	if err != nil {
		return nil, err
	}
	var items []ReplicaView
	if s.live != nil && !f.Archived {
		if items, err = s.live.Replicas(ctx, task.Meta.ID); err != nil && !fault.Is(err, fault.NotFound) {
			return nil, err
		}
	}
	rows, err := s.history.UsageOf(ctx, task.Meta.ID)
	if err != nil {
		return nil, err
	}
	items = WithStays(items, task.Meta.ID, rows)
	for _, spare := range task.Status.Spares { // only a task of one role has any
		for i := range items {
			if items[i].Index == spare.Index && items[i].Attempt == task.Status.Attempt {
				items[i].Spare = string(spare.State)
			}
		}
	}
	return &rest.Reply{Data: map[string]any{"items": items}, Revision: task.Meta.Revision}, nil
}

// WithStays adds to what is live where it stands, and the stays that are over.
func WithStays(live []ReplicaView, taskID string, rows []history.UsageRow) []ReplicaView {
	out := make([]ReplicaView, 0, len(rows)+len(live))
	for _, r := range rows {
		i := slices.IndexFunc(live, func(v ReplicaView) bool { return v.Name == r.Replica })
		if i < 0 {
			out = append(out, viewOf(taskID, r))
			continue
		}
		live[i].Zone, live[i].Node, live[i].Devices = r.Zone, r.Node, r.Devices
	}
	return append(out, live...)
}

// viewOf is a replica as its usage row remembers it.
func viewOf(taskID string, r history.UsageRow) ReplicaView {
	role, index, attempt := engine.Name(r.Replica).Parse(taskID)
	v := ReplicaView{
		Name: r.Replica, Role: role, Index: index, Attempt: attempt, Zone: r.Zone, Node: r.Node, Devices: r.Devices,
		State: "Running", Reason: r.Reason, CPUTime: r.CPUTime, PeakBytes: r.PeakBytes, StartedAt: momentOf(r.Start),
	}
	if !r.Stop.IsZero() {
		v.State, v.StoppedAt, v.ExitCode = "Done", momentOf(r.Stop), &r.ExitCode
	}
	return v
}

func momentOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func (s *Verbs) taskEvents(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	_, task, err := s.desk.task(ctx, c)
	if err != nil {
		return nil, err
	}
	return s.events.Of(ctx, c, history.EventQuery{ObjectID: task.Meta.ID})
}
