package image

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/steady"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// JobKind is the kind of what is done with images where the project's network and numbers are: on a node.
const JobKind api.Kind = "ImageJob"

// JobRow is its row in the table of kinds.
var JobRow = api.KindInfo{
	Kind: JobKind, Singular: "image-job", Plural: "image-jobs", Aliases: []string{"imagejob", "imagejobs"}, IDPrefix: "imgjob",
	Project: true, Phased: true, Users: true, Class: "environment", New: func() api.Object { return &ImageJob{} },
}

// Do is what a job does.
type Do string

// What jobs do.
const (
	Build   Do = "build"
	Inspect Do = "inspect"
	Pull    Do = "pull"
	Save    Do = "save"
)

// Dos are all of them.
var Dos = []Do{Build, Inspect, Pull, Save}

// ImageJob is one thing done with an image: placed, limited, explained and charged like other work.
type ImageJob struct {
	Meta   api.Meta       `json:"metadata"`
	Spec   ImageJobSpec   `json:"spec"`
	Status ImageJobStatus `json:"status,omitzero"`
}

// ImageJobSpec is the user's wish.
type ImageJobSpec struct {
	Do Do `json:"do" enum:"build,inspect,pull,save" doc:"build: from a Dockerfile, and push; inspect: read what its registry says; pull: bring it to a node; save: push an environment as an image."`
	// Image is what is looked at or brought, or where what was made is pushed.
	Image       string              `json:"image" maxLength:"512" doc:"What is looked at or brought; of build and save, where the result is pushed, registry/name:tag."`
	Build       *ImageRecipe        `json:"build,omitempty" doc:"What is built."`
	Environment string              `json:"environment,omitempty" maxLength:"63" doc:"What is saved: an environment that is stopped and runs in an image."`
	Code        *api.Code           `json:"code,omitempty" doc:"The folder in which is built, with the Dockerfile."`
	Credentials []api.CredentialRef `json:"credentials,omitempty" doc:"Secrets of type registry: accounts for the registries that are read and pushed to."`
	Resources   api.Resources       `json:"resources,omitzero"`
	ImagePlace
	Saved *ImageSaved `json:"saved,omitempty" doc:"Of save, written by the server: what the environment was when it was asked for."`
	Stop  bool        `json:"stop,omitempty" doc:"Set by the stop verb: it ends, and nothing more is pushed."`
}

// ImagePlace is where a job runs.
type ImagePlace struct {
	Zone     string `json:"zone,omitempty" doc:"Any when absent."`
	Node     string `json:"node,omitempty" maxLength:"63" doc:"Of pull: the node that it is brought to; one of the zone when absent."`
	Queue    string `json:"queue,omitempty" doc:"The project's own when absent."`
	Priority *int   `json:"priority,omitempty" doc:"Larger wins; that of environments, 400, when absent."`
}

// ImageRecipe is how an image is built.
type ImageRecipe struct {
	File   string            `json:"file,omitempty" maxLength:"1024" doc:"The Dockerfile in the code; Dockerfile when absent."`
	Target string            `json:"target,omitempty" maxLength:"128" doc:"The stage to build; the last when absent."`
	Args   map[string]string `json:"args,omitempty" doc:"Build arguments. They are no place for secrets: the image keeps them."`
	Fresh  bool              `json:"fresh,omitempty" doc:"Nothing is taken from the cache."`
}

// ImageSaved is what an environment was when it was saved.
type ImageSaved struct {
	ID    string `json:"id"`
	Image string `json:"image"`
	Node  string `json:"node,omitempty"`
	Zone  string `json:"zone,omitempty"`
}

// ImageJobStatus is what became of it.
type ImageJobStatus struct {
	steady.Status
	Found *ImageFound `json:"found,omitempty" doc:"What was read or made."`
}

// Kind is ImageJob.
func (*ImageJob) Kind() api.Kind { return JobKind }

// GetMeta is the metadata.
func (j *ImageJob) GetMeta() *api.Meta { return &j.Meta }

// RoleName is the name of a job's one role.
const RoleName = "job"

// Program is the part of the binary that does it, behind the wall.
const Program = "image-job"

// Result is what the program of a job leaves.
type Result struct {
	Found   *ImageFound `json:"found,omitempty"`
	Refused *Refusal    `json:"refused,omitempty"`
}

// Refusal is why a job could not do what it was to do.
type Refusal struct {
	Reason  string     `json:"reason"`
	Message fault.Text `json:"message"`
	Hint    fault.Text `json:"hint,omitzero"`
}

// ResultFile is, among its outputs, what it found.
const ResultFile = "image.json"

// FromFile is the Dockerfile.
func (r *ImageRecipe) FromFile() string {
	if r.File == "" {
		return "Dockerfile"
	}
	return r.File
}

// command is what its replica runs.
func (j *ImageJob) command() []string {
	s := &j.Spec
	argv := []string{"fermi", Program, string(s.Do)}
	if b := s.Build; s.Do == Build && b != nil {
		argv = append(argv, "--file", b.FromFile())
		if b.Target != "" {
			argv = append(argv, "--target", b.Target)
		}
		for _, k := range slices.Sorted(maps.Keys(b.Args)) {
			argv = append(argv, "--arg", k+"="+b.Args[k])
		}
		if b.Fresh {
			argv = append(argv, "--fresh")
		}
	}
	if s.Saved != nil {
		argv = append(argv, "--base", s.Saved.Image)
	}
	return append(argv, "--", s.Image)
}

func (j *ImageJob) role() api.Role {
	return api.Role{
		Name: RoleName, Replicas: 1, Ranks: 1, Resources: j.Spec.Resources, Command: j.command(), Standby: &api.Standby{Disabled: true},
	}
}

// asTask is a task whose rules a job shares.
func (j *ImageJob) asTask() *api.TrainingTask {
	w := j.Workload()
	return &api.TrainingTask{Meta: j.Meta, Spec: api.TrainingTaskSpec{
		Framework: api.FrameworkPlain, Queue: j.Spec.Queue, Priority: j.Spec.Priority, Roles: []api.Role{j.role()}, Zones: w.Wish.Zones, Code: j.Spec.Code, Credentials: j.Spec.Credentials,
	}}
}

// Workload is the view.
func (j *ImageJob) Workload() api.Workload {
	s := &j.Spec
	w := api.Workload{
		Kind: JobKind, Meta: &j.Meta, Queue: s.Queue, Priority: api.DefaultPriority(JobKind), Roles: []api.Role{j.role()}, Stop: s.Stop || j.Meta.DeletedAt != nil,
		Program: api.Program{Framework: api.FrameworkPlain, Code: s.Code, Credentials: s.Credentials},
		Wish:    api.Wish{Fixed: true, Node: s.Node},
	}
	zone := s.Zone
	if s.Saved != nil { // what was written over the image lies there
		w.Wish.Node, zone = s.Saved.Node, s.Saved.Zone
	}
	if zone != "" {
		w.Wish.Zones = &api.ZoneRules{Allow: []string{zone}}
	}
	if s.Priority != nil {
		w.Priority = *s.Priority
	}
	j.Status.Show(&w)
	return w
}

// Default fills what was left out.
func (j *ImageJob) Default() {
	t := j.asTask()
	t.Default()
	j.Spec.Resources = t.Spec.Roles[0].Resources
	if j.Spec.Do == Build && j.Spec.Build == nil {
		j.Spec.Build = &ImageRecipe{}
	}
}

const maxArgs = 64

// Validate lists every refused field.
func (j *ImageJob) Validate() (out []fault.Field) {
	add := func(path, en, zh string, args ...any) {
		out = append(out, fault.Field{Path: path, Message: fault.T(en, zh, args...)})
	}
	s := &j.Spec
	if !slices.Contains(Dos, s.Do) {
		add("spec.do", "One of build, inspect, pull, save.", "必须是 build、inspect、pull、save 之一。")
	}
	out = append(out, CheckReference("spec.image", s.Image)...)
	if pushes := s.Do == Build || s.Do == Save; pushes && len(out) == 0 {
		if _, err := name.NewTag(s.Image); err != nil {
			add("spec.image", "It is pushed there: name registry/name:tag, without a digest.", "结果将推送到该处：请填写 registry/name:tag，不含摘要。")
		}
	}
	if s.Do == Build {
		out = append(out, s.checkBuild()...)
	} else if s.Build != nil || s.Code != nil {
		add("spec.build", "Only of do: build.", "仅用于 do: build。")
	}
	if (s.Do == Save) != (s.Environment != "") || s.Environment != "" && !api.IsName(s.Environment) {
		add("spec.environment", "Name the environment that is saved, with do: save alone.", "do 为 save 时须填写要保存的环境名称，否则不填。")
	}
	if s.Node != "" && (s.Do != Pull || !api.IsName(s.Node)) {
		add("spec.node", "Name a node with do: pull alone.", "仅 do: pull 可填写节点名称。")
	}
	for _, field := range j.asTask().Validate() {
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

func (s *ImageJobSpec) checkBuild() (out []fault.Field) {
	add := func(path, en, zh string, args ...any) {
		out = append(out, fault.Field{Path: path, Message: fault.T(en, zh, args...)})
	}
	b := s.Build
	if s.Code == nil {
		add("spec.code", "A build needs the folder with its Dockerfile: an archive, a folder or Git.", "构建需要包含 Dockerfile 的目录：代码包、目录或 Git。")
	}
	if b == nil {
		return out
	}
	if f := b.FromFile(); path.IsAbs(f) || path.Clean(f) != f || f == ".." || strings.HasPrefix(f, "../") || strings.HasPrefix(f, "-") || strings.ContainsFunc(f, func(r rune) bool { return r < ' ' }) {
		add("spec.build.file", "It must be a path in the code, such as Dockerfile or docker/Dockerfile.", "应为代码中的相对路径，例如 Dockerfile 或 docker/Dockerfile。")
	}
	if strings.HasPrefix(b.Target, "-") || strings.ContainsFunc(b.Target, func(r rune) bool { return r <= ' ' || r > '~' }) {
		add("spec.build.target", "It is no name of a stage.", "不是合法的阶段名称。")
	}
	if len(b.Args) > maxArgs {
		add("spec.build.args", "At most %d build arguments.", "最多 %d 个构建参数。", maxArgs)
	}
	for k, v := range b.Args {
		if !isVariable(k) || len(v) > 4096 || strings.ContainsFunc(v, func(r rune) bool { return r < ' ' && r != '\t' }) {
			add(fmt.Sprintf("spec.build.args.%.64s", k), "A build argument is NAME=VALUE in one line of at most 4096 bytes.", "构建参数应为单行 NAME=VALUE，值最多 4096 字节。")
		}
	}
	return out
}

func isVariable(name string) bool {
	return name != "" && len(name) <= 128 && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) && (name[0] < '0' || name[0] > '9')
}
