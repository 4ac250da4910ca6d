package mount

import (
	"io/fs"
	"strconv"
	"strings"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Output is the model or the dataset that a task leaves: a version is made of its outputs when it completes.
type Output struct {
	Name  string `json:"name" maxLength:"40" doc:"Name of the model or dataset; it is made where there is none."`
	Path  string `json:"path,omitempty" maxLength:"512" doc:"A file or folder in $FERMI_OUTPUT, of a model of the first replica; all of it when absent."`
	Alias string `json:"alias,omitempty" maxLength:"63" doc:"Of a model: an alias that shall mean the new version, such as candidate."`
}

// Leaves are what a task leaves.
type Leaves struct {
	Model   *Output `json:"model,omitempty" doc:"A version of this model is made of the outputs when the task completes."`
	Dataset *Output `json:"dataset,omitempty" doc:"A version of this dataset is made of the outputs of all replicas when the task completes."`
}

// Left are what was made of it.
type Left struct {
	Model   *Made `json:"model,omitempty" doc:"The version of a model that was made of its outputs."`
	Dataset *Made `json:"dataset,omitempty" doc:"The version of a dataset that was made of its outputs."`
}

// OwesModel and OwesDataset say that it was wished and is not made; Owes says that one of them was not.
func (l *Leaves) OwesModel(done *Left) bool { return l.Model != nil && done.Model == nil }

// OwesDataset is likewise.
func (l *Leaves) OwesDataset(done *Left) bool { return l.Dataset != nil && done.Dataset == nil }

// Owes is likewise.
func (l *Leaves) Owes(done *Left) bool { return l.OwesModel(done) || l.OwesDataset(done) }

// Made is the version of a model or dataset that was made of a task's outputs, or why there is none.
type Made struct {
	Name    string     `json:"name,omitempty" doc:"Of the model or dataset."`
	Version int        `json:"version,omitempty"`
	Reason  string     `json:"reason,omitempty" doc:"Machine-readable: why no version was made."`
	Message fault.Text `json:"message,omitzero"`
}

// maxModelName leaves room for a number behind it.
const maxModelName = 40

// Check lists what is wrong with what a task leaves; at is where it says so.
func (l *Leaves) Check(at string) []fault.Field {
	bad := append(l.Model.check(at+".model"), l.Dataset.check(at+".dataset")...)
	if l.Dataset != nil && l.Dataset.Alias != "" {
		bad = append(bad, fault.Field{Path: at + ".dataset.alias", Message: fault.T("Versions of datasets have no aliases; leave it out.", "数据集版本没有别名，请去掉。")})
	}
	return bad
}

func (o *Output) check(at string) (bad []fault.Field) {
	if o == nil {
		return nil
	}
	add := func(field, en, zh string, args ...any) {
		bad = append(bad, fault.Field{Path: at + field, Message: fault.T(en, zh, args...)})
	}
	if !name.MatchString(o.Name) || len(o.Name) > maxModelName {
		add(".name", "%.64q is not the name of a model or dataset: lower-case letters, digits and '-', at most %d.", "%.64q 不是合法的模型或数据集名称：小写字母、数字和 '-'，最多 %d 个字符。", o.Name, maxModelName)
	}
	if o.Path != "" && (o.Path == "." || !fs.ValidPath(o.Path) || len(o.Path) > maxPath || strings.ContainsFunc(o.Path, func(c rune) bool { return c < ' ' || c == 0x7f })) {
		add(".path", "It must be a relative path without \"..\", such as final.", "应为不含 \"..\" 的相对路径，例如 final。")
	}
	if _, err := strconv.Atoi(strings.TrimPrefix(o.Alias, "v")); o.Alias != "" && (!name.MatchString(o.Alias) || o.Alias == "latest" || err == nil) {
		add(".alias", "%.64q is no alias of a version: a name that is no number and not latest.", "%.64q 不是合法的版本别名：不能是数字或 latest。", o.Alias)
	}
	return bad
}
