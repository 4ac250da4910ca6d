package train

import (
	"bytes"
	"encoding/json"
	"slices"

	"sigs.k8s.io/yaml"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
)

// flatTask is the flat form of a new task, known by its taskName. Fields of features that
// are not there are refused by name, never ignored.
type flatTask struct {
	TaskName         string         `json:"taskName" doc:"Becomes displayName."`
	Name             string         `json:"name,omitempty" doc:"Made from taskName when absent."`
	Project          string         `json:"project,omitempty"`
	Description      string         `json:"description,omitempty"`
	Framework        api.Framework  `json:"framework,omitempty"`
	Queue            string         `json:"queue,omitempty"`
	Priority         *int           `json:"priority,omitempty"`
	Command          []string       `json:"command,omitempty"`
	Args             []string       `json:"args,omitempty"`
	Env              []api.EnvVar   `json:"env,omitempty"`
	WorkingDir       string         `json:"workingDir,omitempty"`
	Code             *api.Code      `json:"code,omitempty"`
	Replicas         int            `json:"replicas,omitempty"`
	Resources        api.Resources  `json:"resources,omitzero"`
	HyperParameters  map[string]any `json:"hyperParameters,omitempty"`
	DatasetID        string         `json:"datasetId,omitempty" doc:"Name or id of a dataset, found at /data/NAME."`
	DatasetVersionID string         `json:"datasetVersionId,omitempty" doc:"Its version; the newest when absent."`
	ModelID          string         `json:"modelId,omitempty" doc:"Name or id of a model, found at /models/NAME."`
	LaunchMode       string         `json:"launchMode,omitempty" doc:"Only existing: the task runs inside running ones, as with POST /api/v1/training-tasks/existing."`
	Distributed      map[string]any `json:"distributedConfig,omitempty" doc:"Only with launchMode existing."`
}

// later names the fields of the flat form that cannot be used.
var later = map[string]struct {
	en, zh string
}{
	"launchMode":        {`The only launch mode is "existing"; use that, or leave the field out.`, `启动方式只支持 "existing"；请改用它，或删除该字段。`},
	"distributedConfig": {`It belongs to launchMode "existing"; use that, or leave the field out.`, `该字段仅用于 launchMode 为 "existing" 的任务；请改用它，或删除该字段。`},
}

// flatPaths say where a flat field lands in the manifest.
var flatPaths = map[string][]string{
	"taskName": {"metadata", "displayName"}, "name": {"metadata", "name"}, "project": {"metadata", "project"},
	"description": {"spec", "description"}, "framework": {"spec", "framework"}, "queue": {"spec", "queue"},
	"priority": {"spec", "priority"}, "code": {"spec", "code"}, "hyperParameters": {"spec", "hyperParameters"},
	"command": {"role", "command"}, "args": {"role", "args"}, "env": {"role", "env"}, "workingDir": {"role", "workingDir"},
	"replicas": {"role", "replicas"}, "resources": {"role", "resources"},
}

// MaxRefused is how many refused fields an answer names at most.
const MaxRefused = 100

// decodeTask reads a manifest or the flat form.
func decodeTask(data []byte) (api.Object, error) {
	flat, ok := flatFields(data)
	if !ok {
		return api.Decode(api.KindTrainingTask, data)
	}
	parts := map[string]map[string]json.RawMessage{"metadata": {}, "spec": {}, "role": {}}
	var fields []fault.Field
	reason := "UnknownField"
	for _, name := range slices.Sorted(rest.KeysOf(flat)) {
		if len(fields) == MaxRefused { // nobody reads more
			break
		}
		path, known := flatPaths[name]
		wait, notBuilt := later[name]
		switch {
		case known:
			parts[path[0]][path[1]] = flat[name]
		case notBuilt:
			reason = "NotBuilt"
			fields = append(fields, fault.Field{Path: name, Message: fault.Text{EN: wait.en, ZH: wait.zh}})
		case slices.Contains(assetFields, name):
		default:
			fields = append(fields, fault.Field{Path: refuse.Clip(name, 64), Message: fault.T("Unknown field.", "未知字段。")})
		}
	}
	if len(fields) > 0 {
		return nil, fault.New(fault.Invalid, reason, fault.T(
			"The request has fields that cannot be used; at most %d are named.", "请求中有无法使用的字段，最多列出 %d 个。", MaxRefused)).WithFields(fields...)
	}
	if err := flatAssets(flat, parts["spec"]); err != nil {
		return nil, err
	}
	manifest, err := json.Marshal(map[string]any{
		"metadata": parts["metadata"],
		"spec":     withRole(parts["spec"], parts["role"]),
	})
	if err != nil {
		return nil, fault.New(fault.Invalid, "BadSyntax", fault.T("The request is not valid JSON.", "请求不是合法的 JSON。")).Because(err)
	}
	return api.Decode(api.KindTrainingTask, manifest)
}

func withRole(spec, role map[string]json.RawMessage) map[string]any {
	out := map[string]any{"roles": []any{role}}
	for k, v := range spec {
		out[k] = v
	}
	return out
}

// flatFields are the top-level fields of a document that has a taskName. Anything that is not
// clearly the flat form is left to the manifest decoder, which says what is wrong with it.
func flatFields(data []byte) (map[string]json.RawMessage, bool) {
	if !bytes.Contains(data, []byte("taskName")) || len(data) > api.MaxManifest {
		return nil, false
	}
	if !json.Valid(data) {
		converted, err := yaml.YAMLToJSONStrict(data)
		if err != nil {
			return nil, false
		}
		data = converted
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, false
	}
	top := map[string]json.RawMessage{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, false
		}
		name, _ := key.(string)
		var value json.RawMessage
		if _, twice := top[name]; twice || dec.Decode(&value) != nil {
			return nil, false
		}
		top[name] = value
	}
	return top, top["taskName"] != nil
}
