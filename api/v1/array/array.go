package array

import (
	"strconv"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/lending"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/fsm"
)

// Kind is its name.
const Kind api.Kind = "TaskArray"

// Row is its row in the table of kinds.
var Row = api.KindInfo{
	Kind: Kind, Singular: "array", Plural: "task-arrays", Aliases: []string{"arrays", "taskarray", "taskarrays", "task-array"}, IDPrefix: "arr",
	Project: true, Users: true, Class: "training", New: func() api.Object { return &TaskArray{} },
}

// TaskArray is a training task many times, each with an index of its own.
type TaskArray struct {
	Meta   api.Meta        `json:"metadata"`
	Spec   TaskArraySpec   `json:"spec"`
	Status TaskArrayStatus `json:"status,omitzero"`
}

// Kind is TaskArray.
func (*TaskArray) Kind() api.Kind { return Kind }

// GetMeta is the metadata.
func (a *TaskArray) GetMeta() *api.Meta { return &a.Meta }

// TaskArraySpec is the user's wish: a task's, and for which indexes.
type TaskArraySpec struct {
	Indexes string `json:"indexes" maxLength:"4096" doc:"As 1-100, 0-9:3 or 1,4,7-9; at most 10000. Each task finds its own in $FERMI_ARRAY_INDEX."`
	AtOnce  int    `json:"atOnce,omitempty" minimum:"0" maximum:"10000" doc:"So many of its tasks wait or run at once, the others come later; 500 when absent."`
	api.TrainingTaskSpec
}

// Phases is the table of allowed moves.
var Phases = fsm.Table[api.Phase]{
	"":               {api.PhaseRunning},
	api.PhaseRunning: {api.PhaseCompleted, api.PhaseFailed, api.PhaseStopped},
}

// TaskArrayStatus is what its controller saw.
type TaskArrayStatus struct {
	Phase      api.Phase  `json:"phase,omitempty" enum:"Running,Completed,Failed,Stopped"`
	Reason     string     `json:"reason,omitempty" doc:"Machine-readable: why it is in this phase."`
	Message    fault.Text `json:"message,omitzero"`
	Count      ArrayCount `json:"count,omitzero"`
	Begun      int        `json:"begun,omitempty" doc:"So many of its indexes, from the first on, have had their task."`
	Ended      ArrayEnded `json:"ended,omitzero"`
	FinishedAt *time.Time `json:"finishedAt,omitempty"`
}

// ArrayCount is how many of its tasks are how far.
type ArrayCount struct {
	Total     int `json:"total"`
	Held      int `json:"held,omitempty" doc:"Have no task yet."`
	Pending   int `json:"pending,omitempty"`
	Running   int `json:"running,omitempty" doc:"Also those that start or recover."`
	Completed int `json:"completed,omitempty"`
	Failed    int `json:"failed,omitempty"`
	Stopped   int `json:"stopped,omitempty" doc:"Also those that were deleted, or never begun."`
}

// ArrayEnded are the indexes whose task has ended, in the form of spec.indexes.
type ArrayEnded struct {
	Completed string `json:"completed,omitempty"`
	Failed    string `json:"failed,omitempty"`
	Stopped   string `json:"stopped,omitempty"`
}

// Label is where tasks say the id of their array.
const Label = "array"

// The variables that tasks of an array find.
const (
	IndexVariable = "FERMI_ARRAY_INDEX"
	NameVariable  = "FERMI_ARRAY_NAME"
	CountVariable = "FERMI_ARRAY_COUNT"
	FirstVariable = "FERMI_ARRAY_FIRST"
	LastVariable  = "FERMI_ARRAY_LAST"
)

// TaskName is the name of the task of an index.
func (a *TaskArray) TaskName(index int) string { return a.Meta.Name + "-" + strconv.Itoa(index) }

// task is one of its tasks, as yet without an index.
func (a *TaskArray) task() *api.TrainingTask {
	return &api.TrainingTask{Meta: a.Meta, Spec: a.Spec.TrainingTaskSpec}
}

// Workload is the view of its tasks: what the door needs to know. Its phase is never Pending, so that nobody looks for a place for
// it; its tasks have places of their own.
func (a *TaskArray) Workload() api.Workload {
	w := a.task().Workload()
	w.Kind, w.Meta, w.Phase, w.Attempt, w.Held, w.Parent, w.Host = Kind, &a.Meta, a.Status.Phase, 0, false, true, lending.Terms{}
	w.Ran = api.Ran{Reason: a.Status.Reason, Message: a.Status.Message, FinishedAt: a.Status.FinishedAt}
	return w
}

// Of is a new array of a task; text is what ParseAtOnce reads. What it can't read the server refuses.
func Of(t *api.TrainingTask, text string) *TaskArray {
	a := &TaskArray{Meta: t.Meta, Spec: TaskArraySpec{Indexes: text, TrainingTaskSpec: t.Spec}}
	if indexes, atOnce, err := ParseAtOnce(text); err == nil {
		a.Spec.Indexes, a.Spec.AtOnce = indexes, atOnce
	}
	return a
}
