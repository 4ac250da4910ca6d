package serving

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/mount"
)

// Adapter is a small model (LoRA) that an engine lays over its own for questions that name it.
type Adapter struct {
	Name    string `json:"name" maxLength:"63" doc:"What questions call it: the model SERVICE:NAME."`
	Model   string `json:"model" maxLength:"40" doc:"A model of the project: its version is mounted read-only at /models/adapters/NAME."`
	Version string `json:"version,omitempty" maxLength:"63" doc:"A number, an alias or a stage; latest when absent. The number that it means then is written here when the service is made or changed."`
	File    string `json:"file,omitempty" maxLength:"1024" doc:"A file or folder of the version; all of it when absent, of engine sample model.json."`
}

// underAdapters is where adapters are mounted, each in a folder of its name.
const underAdapters = mount.Models + "/adapters/"

// adapterWords are how an engine is told of adapters; the zero value: it can't be.
type adapterWords struct {
	before []string // stand once before them
	flag   string
	each   bool // the flag stands before each of them, not once before all
	full   bool // it knows them as SERVICE:NAME; otherwise it reads that itself
}

func (w adapterWords) make(t *ServiceTemplate, service string) (out []string) {
	if len(t.Adapters) == 0 {
		return nil
	}
	out = slices.Clone(w.before)
	for i, a := range t.Adapters {
		if w.each || i == 0 {
			out = append(out, w.flag)
		}
		name := a.Name
		if w.full {
			name = service + ":" + name
		}
		file := a.File
		if t.Engine == EngineSample {
			file = cmp.Or(file, DefaultFile)
		}
		out = append(out, name+"="+path.Join(underAdapters+a.Name, file))
	}
	return out
}

// mountAdapters has replicas find the adapters, and nothing of those that were taken away.
func (t *ServiceTemplate) mountAdapters() {
	t.Models = slices.DeleteFunc(slices.Clone(t.Models), func(r mount.AssetRef) bool { return strings.HasPrefix(r.Path, underAdapters) })
	for _, a := range t.Adapters {
		t.Models = append(t.Models, mount.AssetRef{Name: a.Model, Version: a.Version, Path: underAdapters + a.Name})
	}
}

// TakeVersions writes down which versions the mounted model and adapters are, once that is settled.
func (t *ServiceTemplate) TakeVersions() {
	if t.Model != nil && t.Model.Name != "" {
		m := *t.Model
		m.Name, m.Version = t.Models[0].Name, t.Models[0].Version
		t.Model = &m
	}
	t.Adapters = slices.Clone(t.Adapters)
	for i := range t.Adapters {
		a := &t.Adapters[i]
		if at := slices.IndexFunc(t.Models, func(r mount.AssetRef) bool { return r.Path == underAdapters+a.Name }); at >= 0 {
			a.Model, a.Version = t.Models[at].Name, t.Models[at].Version
		}
	}
}

// AdapterNames are those of adapters, in order.
func AdapterNames(list []Adapter) (out []string) {
	for _, a := range list {
		out = append(out, a.Name)
	}
	slices.Sort(out)
	return out
}

// adapters checks them.
func (f *faults) adapters(at string, t *ServiceTemplate) {
	if len(t.Adapters) == 0 {
		return
	}
	if r := RecipeOf(t.Engine); r != nil && r.adapters.flag == "" {
		f.add(at, "Engine %s has no adapters; vllm, sglang, sample and custom do.", "引擎 %s 不支持适配器；支持的有 vllm、sglang、sample 和 custom。", t.Engine)
	}
	if t.Model != nil && t.Model.Name == "adapters" {
		f.add(at, "The model \"adapters\" is mounted where adapters are; give it another name.", "模型 adapters 的挂载位置与适配器冲突，请改名。")
	}
	if len(t.Adapters) > 64 {
		f.add(at, "There are %d; at most %d are allowed.", "有 %d 项，最多 %d 项。", len(t.Adapters), 64)
		return
	}
	taken := map[string]bool{}
	for i, a := range t.Adapters {
		here := fmt.Sprintf("%s[%d]", at, i)
		if !api.IsName(a.Name) || taken[a.Name] {
			f.add(here+".name", "It must be a name of its own: lower-case letters, digits and '-'.", "应为唯一的名称：小写字母、数字和 '-'。")
		}
		taken[a.Name] = true
		if !api.IsName(a.Model) {
			f.add(here+".model", "It is not the name of a model.", "不是合法的模型名称。")
		}
		if !isInside(a.File) {
			f.add(here+".file", "It must be a relative path without \"..\", such as final.", "应为不含 \"..\" 的相对路径，例如 final。")
		}
	}
}

// isInside says that a path leads nowhere else.
func isInside(file string) bool {
	return !strings.HasPrefix(file, "/") && !slices.Contains(strings.Split(file, "/"), "..") && !strings.ContainsRune(file, 0) && len(file) <= maxHealthPath
}
