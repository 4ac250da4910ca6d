package devenv

import (
	"slices"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// The most that one environment may have.
const (
	MaxAccelerators = 8
	MaxCores        = 128
	MaxMemory       = api.Bytes(1 << 40)
	MaxStorage      = api.Bytes(2 << 40)
)

const (
	defaultRestarts = 3
	minStorage      = api.Bytes(1 << 20)
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
	t := e.asTask()
	t.Default()
	s.Resources, s.Restart = t.Spec.Roles[0].Resources, t.Spec.Restart
}

// asTask is a task whose rules an environment shares: commands, variables, images, resources and policies have one meaning.
func (e *DevEnvironment) asTask() *api.TrainingTask {
	return &api.TrainingTask{Meta: e.Meta, Spec: api.TrainingTaskSpec{
		Framework: api.FrameworkPlain, Description: e.Spec.Description, Queue: e.Spec.Queue, Priority: e.Spec.Priority, Roles: []api.Role{e.role()}, Restart: e.Spec.Restart, Zones: e.Workload().Wish.Zones,
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
	if s.Starts < 0 {
		add("spec.starts", "At least 0.", "至少为 0。")
	}
	t := e.asTask()
	for _, field := range t.Validate() {
		// What is said of a task's first role is said of the environment itself.
		field.Path = strings.Replace(field.Path, "spec.roles[0].", "spec.", 1)
		if strings.HasPrefix(field.Path, "spec.zones") {
			field.Path = "spec.zone"
		}
		if !slices.ContainsFunc(out, func(f fault.Field) bool { return f.Path == field.Path }) {
			out = append(out, field)
		}
	}
	return out
}
