package serving

import (
	"math"
	"net"
	"slices"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// What a service gets when it does not say.
const (
	defaultTimeout     = api.Duration(time.Minute)
	defaultConcurrency = 64
	defaultQueue       = 128
	defaultEvery       = api.Duration(time.Second)
	defaultAnswer      = api.Duration(2 * time.Second)
	defaultFailures    = 3
)

// Bounds of a service.
const (
	MaxReplicas    = 1000
	maxName        = 50 // its replicas' names are longer
	maxConcurrency = 100_000
	maxHealthPath  = 1024
	minEvery       = api.Duration(50 * time.Millisecond)
	maxEvery       = api.Duration(time.Hour)
	maxSpan        = api.Duration(366 * 24 * time.Hour)
)

// Default fills what the user left out.
func (s *InferenceService) Default() {
	p := &s.Spec
	p.fillZones()
	p.Gateway.fill()
	p.SLO.fill()
	if p.Replicas == 0 {
		p.Replicas = 1
	}
	if p.Timeout == 0 {
		p.Timeout = defaultTimeout
	}
	p.Contract.fill()
	p.Autoscale.fill()
	p.Traffic.fill()
	if p.MaxConcurrency == 0 {
		p.MaxConcurrency = defaultConcurrency
	}
	if p.MaxQueue == 0 {
		p.MaxQueue = defaultQueue
	}
	if r := RecipeOf(p.Template.Engine); r != nil && r.GRPC && p.Protocol == GRPC {
		if p.Template.Options == nil {
			p.Template.Options = &EngineOptions{}
		}
		p.Template.Options.GRPC = true
	}
	p.Template.fill(s.Meta.Name)
}

func (t *ServiceTemplate) fill(service string) {
	if t.Engine == "" {
		t.Engine = EngineCustom
	}
	one := *t
	one.Roles = nil
	task := one.asTask(service, 1)
	task.Default()
	t.Resources = task.Spec.Roles[0].Resources
	t.fillRoles(service)
	if t.StopGrace == 0 {
		t.StopGrace = api.DefaultStopGrace
	}
	if t.Health == nil {
		t.Health = &ServiceHealth{Path: t.healthOf(service)}
	}
	h := t.Health
	if h.Every == 0 {
		h.Every = defaultEvery
	}
	if h.Timeout == 0 {
		h.Timeout = defaultAnswer
	}
	if h.Failures == 0 {
		h.Failures = defaultFailures
	}
}

// asTask is a task whose rules a service shares: commands, variables, images, code and resources have one meaning.
func (t *ServiceTemplate) asTask(service string, replicas int) *api.TrainingTask {
	return &api.TrainingTask{Spec: api.TrainingTaskSpec{
		Framework: api.FrameworkPlain, Roles: t.roles(service, replicas), Zones: t.zones(), Code: t.Code, Credentials: t.Credentials, Datasets: t.Datasets, Models: t.Models,
	}}
}

// zones is where its replicas may stand, whatever their zone; nil: anywhere.
func (t *ServiceTemplate) zones() *api.ZoneRules {
	if t.Spot == "" && !t.Balance {
		return nil
	}
	return &api.ZoneRules{Spot: t.Spot, Balance: t.Balance}
}

// faults gather what is refused.
type faults []fault.Field

func (f *faults) add(path, en, zh string, args ...any) {
	*f = append(*f, fault.Field{Path: path, Message: fault.T(en, zh, args...)})
}

func (f *faults) count(path string, n, low, high int) {
	if n < low || n > high {
		f.add(path, "%d is out of range: %d to %d are allowed.", "%d 超出范围：允许 %d 到 %d。", n, low, high)
	}
}

func (f *faults) span(path string, d, low, high api.Duration) {
	if d < low || d > high {
		f.add(path, "%s is out of range: %s to %s are allowed.", "%s 超出范围：允许 %s 到 %s。", d, low, high)
	}
}

// Validate lists every refused field.
func (s *InferenceService) Validate() []fault.Field {
	var f faults
	p := &s.Spec
	if len(s.Meta.Name) > maxName {
		f.add("metadata.name", "The name has %d characters; that of a service has at most %d.", "名称有 %d 个字符，服务名称最多 %d 个字符。", len(s.Meta.Name), maxName)
	}
	f.count("spec.replicas", p.Replicas, 1, MaxReplicas)
	f.contract(&p.Contract)
	f.span("spec.timeout", p.Timeout, api.Duration(time.Millisecond), maxSpan)
	f.count("spec.maxConcurrency", p.MaxConcurrency, 1, maxConcurrency)
	f.count("spec.maxQueue", p.MaxQueue, 1, maxConcurrency)
	f.autoscale("spec.autoscale", p.Autoscale, &p.Template)
	f.traffic("spec.traffic", p.Traffic)
	f.gateway("spec.gateway", p)
	f.zones("spec.zones", p)
	f.slo("spec.slo", p.SLO)
	f.template("spec.template", &p.Template)
	t := p.Template.asTask(s.Meta.Name, max(p.Replicas, 1))
	t.Spec.Description, t.Spec.Queue, t.Spec.Priority = p.Description, p.Queue, p.Priority
	t.Default()
	known := slices.Contains(Engines, p.Template.Engine)
	for _, field := range t.Validate() {
		if field = moved(field, p.Template.Roles != nil); known || !strings.HasSuffix(field.Path, ".command") { // it is the engine that has none
			f = append(f, field)
		}
	}
	return f
}

// moved is what is said of a task, said of a service.
func moved(field fault.Field, gang bool) fault.Field {
	for _, own := range []string{"spec.description", "spec.queue", "spec.priority"} {
		if field.Path == own {
			return field
		}
	}
	if !gang {
		field.Path = strings.Replace(field.Path, "spec.roles[0].", "spec.", 1)
	}
	field.Path = strings.Replace(strings.Replace(field.Path, "spec.zones.spot", "spec.spot", 1), "spec.", "spec.template.", 1)
	return field
}

// template checks what an engine lets a template say.
func (f *faults) template(at string, t *ServiceTemplate) {
	f.engine(at, t)
	f.count(at+".port", t.Port, 0, 65535)
	f.span(at+".stopGrace", t.StopGrace, 0, maxSpan)
	f.health(at+".health", t.Health)
	f.model(at+".model", t)
	f.adapters(at+".adapters", t)
	f.gang(at+".roles", t)
	if t.Engine == EngineCustom {
		return
	}
	if t.Engine == EngineSample && len(t.Command) > 0 {
		f.add(at+".command", "Engine %s brings its own command; leave it out, or choose engine custom.", "engine %s 自带启动命令：请去掉 command，或选择 engine: custom。", t.Engine)
	}
	if t.Engine == EngineSample && t.Image != "" && t.Image != api.ImageHost {
		f.add(at+".image", "Engine %s runs on the node's own system; leave the image out.", "engine %s 在节点自身的系统上运行：请去掉 image。", t.Engine)
	}
}

func (f *faults) health(at string, h *ServiceHealth) {
	if h == nil {
		return
	}
	if h.Path != "" {
		if !isPath(h.Path) {
			f.add(at+".path", "It is not the path of a question: it begins with one slash, such as /healthz.", "不是合法的健康检查路径：应以一个斜杠开头，例如 /healthz。")
		}
	}
	f.span(at+".every", h.Every, minEvery, maxEvery)
	f.span(at+".timeout", h.Timeout, minEvery, maxEvery)
	f.count(at+".failures", h.Failures, 1, 100)
}

// Validate lists what a controller must not write.
func (r *ServiceReplica) Validate() []fault.Field {
	var f faults
	f.count("spec.revision", r.Spec.Revision, 1, math.MaxInt32)
	f.template("spec.template", &r.Spec.Template)
	return f
}

// Validate lists what a controller must not write.
func (e *ServiceEndpoints) Validate() []fault.Field {
	var f faults
	for _, r := range e.Spec.Replicas {
		if _, _, err := net.SplitHostPort(r.Address); err != nil {
			f.add("spec.replicas", "An address is not host:port.", "地址应为 host:port 形式。")
		}
	}
	return f
}

// model checks where a model comes from.
func (f *faults) model(at string, t *ServiceTemplate) {
	m := t.Model
	if m == nil {
		return
	}
	if t.Engine == EngineCustom && (m.Task != "" || m.File != "") {
		f.add(at, "Engine custom loads what its command names: name a model, which it finds at $FERMI_MODEL, or choose another engine.", "engine 为 custom 时由命令自行加载：请用 name 指定模型（路径见 $FERMI_MODEL），或选择其他引擎。")
	}
	if m.Name != "" && m.Task != "" {
		f.add(at+".task", "Give a model or a task, not both.", "model.name 与 model.task 只能二选一。")
	}
	if m.Name != "" && !api.IsName(m.Name) {
		f.add(at+".name", "It is not the name of a model.", "不是合法的模型名称。")
	}
	if m.Version != "" && m.Name == "" {
		f.add(at+".version", "Say of which model: name it.", "请用 name 指定模型。")
	}
	if m.Task != "" && !api.IsName(m.Task) {
		f.add(at+".task", "It is not the name of a task.", "不是合法的任务名称。")
	}
	if !isInside(m.File) {
		f.add(at+".file", "It must be a relative path without \"..\", such as model.json.", "应为不含 \"..\" 的相对路径，例如 model.json。")
	}
	if m.Task != "" && m.File == "" && t.Engine != EngineSample && t.Engine != EngineCustom {
		f.add(at+".file", "Say which file of the task's outputs is the model.", "请指明任务产出中的模型文件。")
	}
	if m.Task != "" && t.Code != nil && (t.Code.Folder != "" || t.Code.Git != nil) {
		f.add(at+".task", "A model of a task comes in place of other code; give the one or the other.", "任务的模型会占用代码位置：model.task 与 code 只能二选一。")
	}
}

// MountModel has the model that it answers with be the first of those that are mounted, in the version that its user says, and adapters the last.
func (t *ServiceTemplate) MountModel() {
	t.mountAdapters()
	m := t.Model
	if m == nil || m.Name == "" {
		return
	}
	at := mount.Models + "/" + m.Name
	t.Models = slices.DeleteFunc(slices.Clone(t.Models), func(r mount.AssetRef) bool { return r.Path == at || r.Path == "" && r.Name == m.Name })
	t.Models = append([]mount.AssetRef{{Name: m.Name, Version: m.Version, Path: at}}, t.Models...)
}
