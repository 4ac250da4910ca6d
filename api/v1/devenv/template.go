package devenv

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// TemplateKind is the kind of what environments are made after.
const TemplateKind api.Kind = "EnvironmentTemplate"

// TemplateRow is its row in the table of kinds.
var TemplateRow = api.KindInfo{
	Kind: TemplateKind, Singular: "environment-template", Plural: "environment-templates", Aliases: []string{"template", "templates", "environmenttemplate", "environmenttemplates"},
	IDPrefix: "envtpl", Users: true, New: func() api.Object { return &EnvironmentTemplate{} },
}

// EnvironmentTemplate is what an environment has where its maker says nothing else. It changes no environment that was made after it.
type EnvironmentTemplate struct {
	Meta api.Meta     `json:"metadata"`
	Spec TemplateSpec `json:"spec"`
}

// TemplateSpec is what its writer says.
type TemplateSpec struct {
	Description fault.Text `json:"description,omitzero" doc:"What it is for, for people."`
	Project     string     `json:"project,omitempty" maxLength:"63" doc:"Whose members see, use and write it; everybody sees and uses it when absent, and administrators and operators write it."`
	Environment Spec       `json:"environment" doc:"What an environment has where its maker says nothing: the fields of its spec. What is its maker's alone has no place here."`
}

// Kind is EnvironmentTemplate.
func (*EnvironmentTemplate) Kind() api.Kind { return TemplateKind }

// GetMeta is the metadata.
func (t *EnvironmentTemplate) GetMeta() *api.Meta { return &t.Meta }

// personal are the fields of an environment that its maker alone writes.
var personal = []string{"stop", "starts", "kept", "links", "resets", "snapshots", "from"}

// Validate lists every refused field.
func (t *EnvironmentTemplate) Validate() (out []fault.Field) {
	add := func(path, en, zh string, args ...any) {
		out = append(out, fault.Field{Path: path, Message: fault.T(en, zh, args...)})
	}
	s := &t.Spec
	if s.Project != "" && !api.IsName(s.Project) {
		add("spec.project", "It is no name of a project.", "不是合法的项目名称。")
	}
	const maxText = 4096
	if len(s.Description.EN) > maxText || len(s.Description.ZH) > maxText {
		add("spec.description", "At most %d bytes.", "最多 %d 字节。", maxText)
	}
	fields, err := fieldsOf(&s.Environment)
	if err != nil {
		add("spec.environment", "It can't be read.", "无法读取。")
		return out
	}
	for _, name := range personal {
		if _, said := fields[name]; said {
			add("spec.environment."+name, "It is of one environment, and has no place in a template.", "该字段属于单个环境，不能写入模板。")
		}
	}
	if len(out) > 0 {
		return out
	}
	// As an environment that says nothing else would be.
	e := &DevEnvironment{Meta: api.Meta{Name: "template", Project: "template"}}
	if err := t.Into(&e.Spec); err != nil {
		add("spec.environment", "It can't be read.", "无法读取。")
		return out
	}
	e.Default()
	for _, f := range e.Validate() {
		f.Path = "spec.environment" + strings.TrimPrefix(f.Path, "spec")
		out = append(out, f)
	}
	return out
}

// Into gives an environment what the template has and the spec does not say: field by field, and variables by their names.
func (t *EnvironmentTemplate) Into(s *Spec) error {
	given, err := fieldsOf(s)
	if err != nil {
		return err
	}
	base, err := fieldsOf(&t.Spec.Environment)
	if err != nil {
		return err
	}
	env := slices.Clone(s.Env)
	for _, v := range t.Spec.Environment.Env {
		if !slices.ContainsFunc(s.Env, func(own api.EnvVar) bool { return own.Name == v.Name }) {
			env = append(env, v)
		}
	}
	// What a command is and what an image starts by itself shut each other out: who says the one does not get the other.
	if _, said := given["command"]; said {
		delete(base, "entryPoint")
	}
	if _, said := given["entryPoint"]; said {
		delete(base, "command")
	}
	raw, err := json.Marshal(over(base, given))
	if err != nil {
		return err
	}
	var made Spec
	if err := json.Unmarshal(raw, &made); err != nil {
		return fmt.Errorf("template %s: %w", t.Meta.Name, err)
	}
	made.Env = env
	*s = made
	return nil
}

func fieldsOf(s *Spec) (fields map[string]any, err error) {
	raw, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(raw, &fields)
	}
	return fields, err
}

// over lays what was given over a base; within objects too.
func over(base, given map[string]any) map[string]any {
	for k, v := range given {
		in, both := v.(map[string]any)
		was, there := base[k].(map[string]any)
		if both && there {
			v = over(was, in)
		}
		base[k] = v
	}
	return base
}
