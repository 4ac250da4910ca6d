package server

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/store"
)

// verbs serves what people do with a training task, and ask about it.
type verbs struct {
	*desk
	writer  *writer
	history history.History
	events  *events
	live    taskLive
}

func newVerbs(d *desk, w *writer, e *events, live taskLive) *verbs {
	return &verbs{desk: d, writer: w, history: d.finder.history, events: e, live: live}
}

type cloneBody struct {
	Name        string `json:"name,omitempty"`
	DisplayName string `json:"displayName,omitempty"`
}

// routes are the verbs that only training tasks have.
func (s *verbs) routes(reg *schemas) []*route {
	row := api.MustInfo(api.KindTrainingTask)
	one := prefix + "/" + row.Plural + "/{name}"
	both := []param{paramProject, paramRevision}
	return append(s.probeRoutes(reg, row, one), []*route{
		{
			method: http.MethodPost, path: one + "/stop", id: "stopTask", summary: "Ask the task to end; it keeps its outputs.", tag: row.Plural,
			kind: row.Kind, verb: "stop", query: []param{paramProject, paramForce}, data: reg.kind(row), handle: s.stopTask,
		},
		{
			method: http.MethodPost, path: one + "/clone", id: "cloneTask", summary: "Submit the same work again.", tag: row.Plural,
			kind: row.Kind, verb: "clone", query: []param{paramProject, paramDryRun}, data: schemaOf[submitted](reg),
			body: &bodySpec{schema: schemaOf[cloneBody](reg), media: jsonMedia}, handle: s.cloneTask,
		},
		s.moveRoute(reg, row, one),
		readRoute("events", "listTaskEvents", "What happened to the task.", append(eventPage, both...), eventsSchema(reg), s.taskEvents),
		readRoute("why", "explainTask", "Why the task is where it is.", both, schemaOf[Explanation](reg), s.why),
		readRoute("replicas", "listTaskReplicas", "Where its replicas run or ran.", both, object([]string{"items"}, map[string]*huma.Schema{"items": listOf(schemaOf[ReplicaView](reg))}), s.replicas),
	}...)
}

// readRoute is a question about a task.
func readRoute(verb, id, summary string, query []param, data *huma.Schema, h handler) *route {
	row := api.MustInfo(api.KindTrainingTask)
	return &route{
		method: http.MethodGet, path: prefix + "/" + row.Plural + "/{name}/" + verb, id: id, summary: summary, tag: row.Plural,
		kind: row.Kind, query: query, data: data, handle: h,
	}
}

func (s *verbs) stopTask(ctx context.Context, c *call) (*reply, error) {
	f, task, err := s.taskToChange(ctx, c)
	if err != nil {
		return nil, err
	}
	over := &reply{message: fault.T("The task has already ended", "任务已结束"), data: task, revision: task.Meta.Revision}
	if f.archived {
		c.note.skip = true
		return over, nil
	}
	if err := freeOf(c, task); err != nil {
		return nil, err
	}
	c.note.before(task)
	next, rev, err := s.edit(ctx, task, func(t *api.TrainingTask) bool {
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
		c.note.skip = true
		if !next.Status.Phase.Finished() {
			over.message = fault.T("The task is already stopping", "任务已在停止")
		}
		over.data = next
		return over, nil
	}
	c.note.after(next)
	c.tell(next, "StopRequested", fault.T("A stop was asked for.", "已请求停止。"))
	return &reply{message: fault.T("The task is stopping", "任务正在停止"), data: next, revision: rev}, nil
}

func (s *verbs) cloneTask(ctx context.Context, c *call) (*reply, error) {
	_, task, err := s.task(ctx, c)
	if err != nil {
		return nil, err
	}
	var body cloneBody
	if err := c.readJSON(&body, "name, displayName"); err != nil {
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
	return s.writer.make(ctx, c, next)
}

func (s *verbs) why(ctx context.Context, c *call) (*reply, error) {
	f, task, err := s.task(ctx, c)
	if err != nil {
		return nil, err
	}
	if s.live != nil && !f.archived && !task.Status.Phase.Finished() {
		e, err := s.live.Why(ctx, task)
		if err == nil {
			e, err = s.withoutOthers(ctx, c, e)
		}
		if err != nil {
			return nil, err
		}
		return &reply{data: e, revision: task.Meta.Revision}, nil
	}
	return &reply{data: written(task), revision: task.Meta.Revision}, nil
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

func (s *verbs) replicas(ctx context.Context, c *call) (*reply, error) {
	f, task, err := s.task(ctx, c)
	if err != nil {
		return nil, err
	}
	var items []ReplicaView
	if s.live != nil && !f.archived {
		if items, err = s.live.Replicas(ctx, task.Meta.ID); err != nil && !fault.Is(err, fault.NotFound) {
			return nil, err
		}
	}
	rows, err := s.history.UsageOf(ctx, task.Meta.ID)
	if err != nil {
		return nil, err
	}
	items = withStays(items, task.Meta.ID, rows)
	for _, spare := range task.Status.Spares { // only a task of one role has any
		for i := range items {
			if items[i].Index == spare.Index && items[i].Attempt == task.Status.Attempt {
				items[i].Spare = string(spare.State)
			}
		}
	}
	return &reply{data: map[string]any{"items": items}, revision: task.Meta.Revision}, nil
}

// withStays adds to what is live where it stands, and the stays that are over.
func withStays(live []ReplicaView, taskID string, rows []history.UsageRow) []ReplicaView {
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
	label, attempt := labelOf(taskID, r.Replica)
	role, index, ok := cutLabel(label)
	if !ok {
		role = label
	}
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

func (s *verbs) taskEvents(ctx context.Context, c *call) (*reply, error) {
	_, task, err := s.task(ctx, c)
	if err != nil {
		return nil, err
	}
	return s.events.of(ctx, c, history.EventQuery{ObjectID: task.Meta.ID})
}
