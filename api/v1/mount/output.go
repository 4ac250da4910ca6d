package mount

import (
	"io/fs"
	"strconv"
	"strings"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Output is the model that a task leaves: a version is made of its outputs when it completes.
type Output struct {
	Name  string `json:"name" maxLength:"40" doc:"Name of the model; it is made where there is none."`
	Path  string `json:"path,omitempty" maxLength:"512" doc:"A file or folder in $FERMI_OUTPUT of the first replica; all of it when absent."`
	Alias string `json:"alias,omitempty" maxLength:"63" doc:"An alias that shall mean the new version, such as candidate."`
}

// Made is the version of a model that was made of a task's outputs, or why there is none.
type Made struct {
	Name    string     `json:"name,omitempty" doc:"Of the model."`
	Version int        `json:"version,omitempty"`
	Reason  string     `json:"reason,omitempty" doc:"Machine-readable: why no version was made."`
	Message fault.Text `json:"message,omitzero"`
}

// maxModelName leaves room for a number behind it.
const maxModelName = 40

// Check lists what is wrong with it; at is where it is. None is well.
func (o *Output) Check(at string) (bad []fault.Field) {
	if o == nil {
		return nil
	}
	add := func(field, en, zh string, args ...any) {
		bad = append(bad, fault.Field{Path: at + field, Message: fault.T(en, zh, args...)})
	}
	if !name.MatchString(o.Name) || len(o.Name) > maxModelName {
		add(".name", "%.64q is not the name of a model: lower-case letters, digits and '-', at most %d.", "%.64q 不是合法的模型名称：小写字母、数字和 '-'，最多 %d 个字符。", o.Name, maxModelName)
	}
	if o.Path != "" && (o.Path == "." || !fs.ValidPath(o.Path) || len(o.Path) > maxPath || strings.ContainsFunc(o.Path, func(c rune) bool { return c < ' ' || c == 0x7f })) {
		add(".path", "It must be a relative path without \"..\", such as final.", "应为不含 \"..\" 的相对路径，例如 final。")
	}
	if _, err := strconv.Atoi(strings.TrimPrefix(o.Alias, "v")); o.Alias != "" && (!name.MatchString(o.Alias) || o.Alias == "latest" || err == nil) {
		add(".alias", "%.64q is no alias of a version: a name that is no number and not latest.", "%.64q 不是合法的版本别名：不能是数字或 latest。", o.Alias)
	}
	return bad
}
