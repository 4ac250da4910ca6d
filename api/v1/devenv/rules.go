package devenv

import (
	"fmt"
	"slices"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// The most that one environment may have, whatever its operator says (Policy).
const (
	MaxAccelerators = 64
	MaxCores        = 1024
	MaxMemory       = api.Bytes(16 << 40)
	MaxStorage      = api.Bytes(64 << 40)
)

const (
	defaultRestarts = 3
	minStorage      = api.Bytes(1 << 20)
	maxPorts        = 32
)

// Default fills what was left out.
func (e *DevEnvironment) Default() {
	s := &e.Spec
	if s.Type == "" {
		s.Type = Custom
	}
	if s.Image == api.ImageHost {
		s.Image = ""
	}
	if s.Restart == nil {
		s.Restart = &api.RestartPolicy{MaxRestarts: defaultRestarts}
	}
	mount.FillVolumes(s.Volumes)
	t := e.asTask()
	t.Default()
	s.Resources, s.Restart = t.Spec.Roles[0].Resources, t.Spec.Restart
}

// asTask is a task whose rules an environment shares: commands, variables, images, resources and policies have one meaning.
func (e *DevEnvironment) asTask() *api.TrainingTask {
	return &api.TrainingTask{Meta: e.Meta, Spec: api.TrainingTaskSpec{
		Framework: api.FrameworkPlain, Description: e.Spec.Description, Queue: e.Spec.Queue, Priority: e.Spec.Priority, Roles: []api.Role{e.role()}, Restart: e.Spec.Restart, Zones: e.Workload().Wish.Zones,
		Credentials: e.Spec.Credentials, Datasets: e.Spec.Datasets, Models: e.Spec.Models,
	}}
}

// Validate lists every refused field.
func (e *DevEnvironment) Validate() (out []fault.Field) {
	add := func(path, en, zh string, args ...any) {
		out = append(out, fault.Field{Path: path, Message: fault.T(en, zh, args...)})
	}
	s := &e.Spec
	if !slices.Contains(Types, s.Type) {
		add("spec.type", "One of notebook, training, inference, custom.", "必须是 notebook、training、inference、custom 之一。")
	}
	if n := s.Resources.Accelerators.Count; n > MaxAccelerators {
		add("spec.resources.accelerators.count", "An environment has at most %d accelerators; it asks for %d.", "一个环境最多 %d 张加速卡，申请了 %d 张。", MaxAccelerators, n)
	}
	if s.Resources.CPU > MaxCores*1000 {
		add("spec.resources.cpu", "An environment has at most %d cores.", "一个环境最多 %d 核。", MaxCores)
	}
	if s.Resources.Memory > MaxMemory {
		add("spec.resources.memory", "An environment has at most %v of memory.", "一个环境的内存最多为 %v。", MaxMemory)
	}
	if s.Storage < 0 || s.Storage > 0 && s.Storage < minStorage || s.Storage > MaxStorage {
		add("spec.storage", "Between %v and %v.", "须在 %v 与 %v 之间。", minStorage, MaxStorage)
	}
	if s.EntryPoint && (s.Image == "" || len(s.Command) > 0) {
		add("spec.entryPoint", "It is an image's own program: name an image, and no command.", "使用镜像自带的程序：须填写 image，且不填 command。")
	}
	if s.VSCode && s.EntryPoint {
		add("spec.vscode", "Beside an image's own program VS Code can't be started: give the command instead of entryPoint.", "使用镜像自带的程序时无法同时启动 VS Code：请填写 command 代替 entryPoint。")
	}
	if s.Starts < 0 {
		add("spec.starts", "At least 0.", "至少为 0。")
	}
	out = append(out, mount.CheckVolumes("spec.volumes", s.Volumes, s.All())...)
	out = append(out, e.checkRest()...)
	seen := map[int]bool{}
	for i, p := range s.Ports {
		path := fmt.Sprintf("spec.ports[%d]", i)
		switch {
		case i == maxPorts:
			add("spec.ports", "At most %d ports.", "最多 %d 个端口。", maxPorts)
		case p.Port < 1 || p.Port > 65535:
			add(path+".port", "A port is a number from 1 to 65535.", "端口必须是 1 到 65535 之间的数字。")
		case seen[p.Port]:
			add(path+".port", "Port %d is there twice.", "端口 %d 重复。", p.Port)
		case p.Name != "" && !api.IsName(p.Name):
			add(path+".name", "Use lower-case letters, digits and '-', such as tensorboard.", "请使用小写字母、数字和 '-'，例如 tensorboard。")
		}
		seen[p.Port] = true
	}
	for _, c := range e.clones() { // a repository has the rules of a task's code
		t := e.asTask()
		t.Spec.Code = &api.Code{Git: &api.Git{URL: c.URL, Revision: c.Revision, Submodules: c.Submodules, Secret: c.Secret}}
		for _, field := range t.Validate() {
			if rest, ok := strings.CutPrefix(field.Path, "spec.code.git"); ok {
				field.Path = c.Field + rest
				out = append(out, field)
			}
		}
	}
	t := e.asTask()
	for _, field := range t.Validate() {
		// What is said of a task's first role is said of the environment itself.
		field.Path = strings.Replace(field.Path, "spec.roles[0].", "spec.", 1)
		if rest, ok := strings.CutPrefix(field.Path, "spec.zones"); ok {
			if field.Path = "spec.zone"; rest == ".spot" {
				field.Path = "spec.spot"
			}
		}
		if !slices.ContainsFunc(out, func(f fault.Field) bool { return f.Path == field.Path }) {
			out = append(out, field)
		}
	}
	return out
}
