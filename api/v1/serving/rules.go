package serving

import (
	"math"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	api "github.com/fermi-cluster/fermi/api/v1"
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
	if p.Replicas == 0 {
		p.Replicas = 1
	}
	if p.Protocol == "" {
		p.Protocol = REST
	}
	if p.Timeout == 0 {
		p.Timeout = defaultTimeout
	}
	if p.MaxConcurrency == 0 {
		p.MaxConcurrency = defaultConcurrency
	}
	if p.MaxQueue == 0 {
		p.MaxQueue = defaultQueue
	}
	p.Template.fill()
}

func (t *ServiceTemplate) fill() {
	if t.Engine == "" {
		t.Engine = EngineCustom
	}
	task := t.asTask(1)
	task.Default()
	t.Resources = task.Spec.Roles[0].Resources
	if t.StopGrace == 0 {
		t.StopGrace = api.DefaultStopGrace
	}
	if t.Health == nil {
		t.Health = &ServiceHealth{}
		if t.Engine == EngineSample {
			t.Health.Path = "/healthz"
		}
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
func (t *ServiceTemplate) asTask(replicas int) *api.TrainingTask {
	return &api.TrainingTask{Spec: api.TrainingTaskSpec{Framework: api.FrameworkPlain, Roles: []api.Role{t.role(replicas)}, Code: t.Code, Credentials: t.Credentials}}
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
	if !slices.Contains(Protocols, p.Protocol) {
		f.add("spec.protocol", "One of rest, grpc, websocket.", "必须是 rest、grpc、websocket 之一。")
	}
	f.span("spec.timeout", p.Timeout, api.Duration(time.Millisecond), maxSpan)
	f.count("spec.maxConcurrency", p.MaxConcurrency, 1, maxConcurrency)
	f.count("spec.maxQueue", p.MaxQueue, 1, maxConcurrency)
	f.template("spec.template", &p.Template)
	t := p.Template.asTask(max(p.Replicas, 1))
	t.Spec.Description, t.Spec.Queue, t.Spec.Priority = p.Description, p.Queue, p.Priority
	t.Default()
	for _, field := range t.Validate() {
		f = append(f, moved(field))
	}
	return f
}

// moved is what is said of a task, said of a service.
func moved(field fault.Field) fault.Field {
	for _, own := range []string{"spec.description", "spec.queue", "spec.priority"} {
		if field.Path == own {
			return field
		}
	}
	field.Path = strings.Replace(field.Path, "spec.roles[0].", "spec.", 1)
	field.Path = strings.Replace(field.Path, "spec.", "spec.template.", 1)
	return field
}

// template checks what an engine lets a template say.
func (f *faults) template(at string, t *ServiceTemplate) {
	if !slices.Contains(Engines, t.Engine) {
		f.add(at+".engine", "One of custom, sample.", "必须是 custom、sample 之一。")
	}
	f.count(at+".port", t.Port, 0, 65535)
	f.span(at+".stopGrace", t.StopGrace, 0, maxSpan)
	f.health(at+".health", t.Health)
	if t.Engine == EngineCustom {
		if t.Model != nil {
			f.add(at+".model", "Engine custom loads what its command names; leave the model out, or choose engine sample.", "engine 为 custom 时由命令自行加载模型：请去掉 model，或选择 engine: sample。")
		}
		return
	}
	if len(t.Command) > 0 {
		f.add(at+".command", "Engine %s brings its own command; leave it out, or choose engine custom.", "engine %s 自带启动命令：请去掉 command，或选择 engine: custom。", t.Engine)
	}
	if t.Image != "" && t.Image != api.ImageHost {
		f.add(at+".image", "Engine %s runs on the node's own system; leave the image out.", "engine %s 在节点自身的系统上运行：请去掉 image。", t.Engine)
	}
	if m := t.Model; m != nil {
		if m.Task != "" && !api.IsName(m.Task) {
			f.add(at+".model.task", "It is not the name of a task.", "不是合法的任务名称。")
		}
		if strings.HasPrefix(m.File, "/") || slices.Contains(strings.Split(m.File, "/"), "..") || strings.ContainsRune(m.File, 0) || len(m.File) > maxHealthPath {
			f.add(at+".model.file", "It must be a relative path without \"..\", such as model.json.", "应为不含 \"..\" 的相对路径，例如 model.json。")
		}
		if m.Task != "" && t.Code != nil && (t.Code.Folder != "" || t.Code.Git != nil) {
			f.add(at+".model.task", "A model of a task comes in place of other code; give the one or the other.", "任务的模型会占用代码位置：model.task 与 code 只能二选一。")
		}
	}
}

func (f *faults) health(at string, h *ServiceHealth) {
	if h == nil {
		return
	}
	if h.Path != "" {
		u, err := url.ParseRequestURI(h.Path)
		if err != nil || u.Host != "" || len(h.Path) > maxHealthPath || !strings.HasPrefix(h.Path, "/") || strings.HasPrefix(h.Path, "//") || strings.ContainsFunc(h.Path, func(r rune) bool { return !unicode.IsGraphic(r) || r == ' ' }) {
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
