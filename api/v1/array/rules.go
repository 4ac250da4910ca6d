package array

import (
	"errors"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// maxName leaves room for the longest index in the names of tasks.
const maxName = 55

var _ interface {
	api.Defaulter
	api.Validator
	api.Work
} = (*TaskArray)(nil)

// Default fills what the user left out.
func (a *TaskArray) Default() {
	t := a.task()
	t.Default()
	a.Spec.TrainingTaskSpec = t.Spec
}

// Validate lists every refused field.
func (a *TaskArray) Validate() []fault.Field {
	out := a.task().Validate()
	add := func(path, en, zh string, args ...any) {
		out = append(out, fault.Field{Path: path, Message: fault.T(en, zh, args...)})
	}
	var bad *Error
	if _, err := Parse(a.Spec.Indexes); errors.As(err, &bad) {
		out = append(out, fault.Field{Path: "spec.indexes", Message: bad.Text})
	}
	if n := a.Spec.AtOnce; n < 0 || n > MaxIndexes {
		add("spec.atOnce", "%d is out of range: 0 to %d are allowed.", "%d 超出范围：允许 0 到 %d。", n, MaxIndexes)
	}
	if len(a.Meta.Name) > maxName {
		add("metadata.name", "The name of an array has at most %d characters: its tasks' names are longer.", "任务阵列的名称最多 %d 个字符：其任务的名称更长。", maxName)
	}
	if len(a.Spec.Inside) > 0 {
		add("spec.inside", "Tasks of an array have places of their own; leave it out.", "任务阵列中的任务各有自己的位置，请删除该字段。")
	}
	if c := a.Spec.Checkpoint; c != nil && c.From != nil {
		add("spec.checkpoint.from", "Tasks of an array begin from nothing; leave it out.", "任务阵列中的任务从头开始，请删除该字段。")
	}
	return out
}
