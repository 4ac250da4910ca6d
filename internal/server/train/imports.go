package train

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
)

// Imports takes checkpoints that are brought from elsewhere into the shared store.
type Imports interface {
	// Receive writes one rank's state: the file of a slot as header, tree, table, data. Nothing of it counts before Commit. Fault
	// Invalid: it is damaged, or of another rank or step.
	Receive(ctx context.Context, taskID string, step int64, rank int, in io.Reader) (api.CheckpointPart, error)
	// Commit makes a checkpoint of the parts of all ranks; it may be said again.
	Commit(ctx context.Context, taskID string, step int64, parts []api.CheckpointPart) (*api.CheckpointOrigin, error)
}

// ImportWish is what was uploaded of all ranks.
type ImportWish struct {
	Step  int64                `json:"step" minimum:"1" doc:"That the slots hold."`
	Parts []api.CheckpointPart `json:"parts" minItems:"1" doc:"What the uploads answered, of every rank."`
}

func (s *States) importRoutes(reg *rest.Schemas, row api.KindInfo, one string) []*rest.Route {
	return []*rest.Route{
		{
			Method: http.MethodPut, Path: one + "/checkpoints/{step}/ranks/{rank}", ID: "putCheckpointRank", Tag: row.Plural, Long: true,
			Summary: "Upload a rank's state into a task that waits for its checkpoint: the file of a slot as header (4096 bytes), tree, table, data; see docs/reference/checkpoint-format.md.",
			Kind:    row.Kind, Verb: "upload", Query: []rest.Param{rest.ParamProject}, Data: rest.SchemaOf[api.CheckpointPart](reg), Handle: s.putRank,
			Body: &rest.BodySpec{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}, Media: []string{"application/octet-stream"}, Required: true},
		},
		{
			Method: http.MethodPost, Path: one + "/checkpoints", ID: "importCheckpoint", Tag: row.Plural, Long: true,
			Summary: "Make a checkpoint of what was uploaded of all ranks; the task begins from it.",
			Kind:    row.Kind, Verb: "import", Query: []rest.Param{rest.ParamProject}, Data: reg.Kind(row), Handle: s.importCheckpoint,
			Body: &rest.BodySpec{Schema: rest.SchemaOf[ImportWish](reg), Media: rest.JsonMedia, Required: true},
		},
	}
}

// awaiting is a task that the caller may bring a checkpoint to.
func (s *States) awaiting(ctx context.Context, c *rest.Call) (*api.TrainingTask, error) {
	_, task, err := s.desk.taskToChange(ctx, c)
	if err != nil {
		return nil, err
	}
	if s.imports == nil {
		return nil, noStore()
	}
	return task, waits(task)
}

// waits refuses a task that waits for no checkpoint.
func waits(t *api.TrainingTask) error {
	if t.AwaitsCheckpoint() && t.Meta.DeletedAt == nil && !t.Spec.Stop && t.Status.Phase == api.PhasePending {
		return nil
	}
	return fault.New(fault.Conflict, "NotAwaited", fault.T("The task waits for no checkpoint.", "该任务不在等待检查点。")).WithHint(fault.T(
		"A new one does: fermi train run --from FOLDER/, or spec.checkpoint.from: {upload: true}.", "请新建任务：fermi train run --from FOLDER/，或 spec.checkpoint.from: {upload: true}。"))
}

func noStore() error {
	return fault.New(fault.Conflict, "NoSharedStore", fault.T("The server has no shared store, which uploaded checkpoints go to.", "服务器没有共享存储，无法存放上传的检查点。")).WithHint(fault.T(
		"Start it with fermi up --checkpoints-store.", "请用 fermi up --checkpoints-store 启动服务器。"))
}

func (s *States) putRank(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	task, err := s.awaiting(ctx, c)
	if err != nil {
		return nil, err
	}
	step, rank, err := stepAndRank(c.R)
	if err != nil {
		return nil, err
	}
	if c.R.ContentLength > s.limits.State {
		return nil, rest.BodyTooLarge(s.limits.State)
	}
	if err := s.gate.roomForState(ctx, task, c.R.ContentLength); err != nil {
		return nil, err
	}
	defer s.streams.Guard(ctx, c, task)()
	body := http.MaxBytesReader(c.W, io.NopCloser(c.Uploaded()), s.limits.State)
	part, err := s.imports.Receive(ctx, task.Meta.ID, step, rank, body)
	if err != nil {
		if fault.Is(err, fault.Invalid) {
			_, _ = io.Copy(io.Discard, body) // who still sends hears nothing
		}
		return nil, cmp.Or(c.WasCut(), err)
	}
	c.Note.What = `{"step":` + strconv.FormatInt(step, 10) + `,"rank":` + strconv.Itoa(rank) + `,"size":` + strconv.FormatInt(part.Size, 10) + `}`
	return &rest.Reply{Message: fault.T("Rank %d is stored", "进程 %d 已保存", rank), Data: part, Revision: task.Meta.Revision}, nil
}

// importCheckpoint commits, and lets the task go.
func (s *States) importCheckpoint(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	data, err := c.ReadBody(s.limits.Body)
	if err != nil {
		return nil, err
	}
	var wish ImportWish
	if err := rest.Strictly(data, &wish, "step, parts"); err != nil {
		return nil, err
	}
	task, err := s.awaiting(ctx, c)
	if err != nil {
		return nil, err
	}
	if wish.Step < 1 {
		return nil, refuse.Invalid("step", fault.T("At least 1.", "至少为 1。"))
	}
	from, err := s.imports.Commit(ctx, task.Meta.ID, wish.Step, wish.Parts)
	if err != nil {
		return nil, err
	}
	c.Note.Before(task)
	var refused error
	next, rev, err := s.desk.edit(ctx, task, func(t *api.TrainingTask) bool {
		if refused = waits(t); refused != nil {
			return false
		}
		t.Status.From = from
		t.Status.Reason, t.Status.Message = SubmittedReason, submittedMessage
		return true
	})
	if refused != nil || err != nil {
		return nil, cmp.Or(refused, err)
	}
	c.Note.After(next)
	c.Tell(next, "CheckpointImported", fault.T("A checkpoint of step %d was uploaded; the task begins from it.", "已上传第 %d 步的检查点，任务将从此开始。", from.Step))
	return &rest.Reply{Message: fault.T("The task begins from step %d", "任务将从第 %d 步开始", from.Step), Data: next, Revision: rev}, nil
}

// stepAndRank are those of the path.
func stepAndRank(r *http.Request) (step int64, rank int, err error) {
	step, err = strconv.ParseInt(r.PathValue("step"), 10, 64)
	if err != nil || step < 1 {
		return 0, 0, refuse.Invalid("step", fault.T("A number, at least 1.", "应为不小于 1 的数字。"))
	}
	n, err := strconv.ParseUint(r.PathValue("rank"), 10, 31)
	if err != nil {
		return 0, 0, refuse.Invalid("rank", fault.T("A number, at least 0.", "应为不小于 0 的数字。"))
	}
	return step, int(n), nil
}
