package image

import (
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Kind is the catalogue's.
const Kind api.Kind = "Image"

// Rows are the rows of images in the table of kinds.
var Rows = []api.KindInfo{{
	Kind: Kind, Singular: "image", Plural: "images", Aliases: []string{}, IDPrefix: "img", Users: true, New: func() api.Object { return &Image{} },
}}

// Image is an entry of the catalogue.
type Image struct {
	Meta   api.Meta    `json:"metadata"`
	Spec   ImageSpec   `json:"spec"`
	Status ImageStatus `json:"status,omitzero"`
}

// Category says whose word an entry is.
type Category string

// The categories.
const (
	Official  Category = "official"
	Community Category = "community"
	Custom    Category = "custom"
)

// Categories are all of them, in the order in which they are shown.
var Categories = []Category{Official, Community, Custom}

// ImageSpec is what people say of it.
type ImageSpec struct {
	Reference   string              `json:"reference" maxLength:"512" doc:"Where it is: registry/name:tag or registry/name@sha256:…."`
	Category    Category            `json:"category,omitempty" enum:"official,community,custom" doc:"official and community are written by operators and seen by everybody; custom, when absent, belongs to a project."`
	Project     string              `json:"project,omitempty" maxLength:"63" doc:"Of a custom one: the project whose members see and change it."`
	Framework   string              `json:"framework,omitempty" maxLength:"64" doc:"Such as PyTorch 2.1."`
	CUDA        string              `json:"cuda,omitempty" maxLength:"32" doc:"Such as 12.1."`
	Python      string              `json:"python,omitempty" maxLength:"32" doc:"Such as 3.10."`
	Size        api.Bytes           `json:"size,omitempty" doc:"About, as people say; what was read stands in status."`
	Description fault.Text          `json:"description,omitzero" doc:"What it is for."`
	Uses        []Use               `json:"uses,omitempty" doc:"What it suits: notebook, training, inference."`
	Tags        []string            `json:"tags,omitempty" doc:"Words to find it by."`
	Credentials []api.CredentialRef `json:"credentials,omitempty" doc:"Of a custom one: secrets of type registry of its project, with an account for it."`
}

// Use is what an image suits.
type Use string

// Uses are all of them.
var Uses = []Use{"notebook", "training", "inference"}

// ImageStatus is what was read.
type ImageStatus struct {
	Verified *ImageVerified `json:"verified,omitempty" doc:"Absent: nobody has checked it."`
}

// ImageVerified is who checked which digest when, and what they found.
type ImageVerified struct {
	By    string     `json:"by" doc:"Who asked for the check."`
	At    time.Time  `json:"at"`
	Job   string     `json:"job" doc:"Name of the image job that read the registry."`
	Found ImageFound `json:"found"`
}

// ImageFound is what a registry said of an image.
type ImageFound struct {
	Reference  string            `json:"reference" doc:"What was asked for."`
	Digest     string            `json:"digest" doc:"Of what the reference stands for: an index where it is made for several platforms."`
	Size       api.Bytes         `json:"size,omitempty" doc:"What is fetched of it for the platform of who asked: its layers, compressed."`
	Platforms  []string          `json:"platforms,omitempty" doc:"Such as linux/amd64."`
	Created    *time.Time        `json:"created,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Entrypoint []string          `json:"entrypoint,omitempty"`
	Cmd        []string          `json:"cmd,omitempty"`
	User       string            `json:"user,omitempty"`
	WorkingDir string            `json:"workingDir,omitempty"`
	Ports      []string          `json:"ports,omitempty"`
	Layers     int               `json:"layers,omitempty"`
}

// Kind is Image.
func (*Image) Kind() api.Kind { return Kind }

// GetMeta is the metadata.
func (i *Image) GetMeta() *api.Meta { return &i.Meta }

// Owner is the project that it belongs to; "": it is everybody's to see.
func (i *Image) Owner() string {
	if i.Spec.Category != Custom {
		return ""
	}
	return i.Spec.Project
}

// Pinned is what work that names the entry runs in: the digest that was checked, or the reference where nobody has.
func (i *Image) Pinned() string {
	v := i.Status.Verified
	if v == nil || v.Found.Reference != i.Spec.Reference {
		return i.Spec.Reference
	}
	ref, err := name.ParseReference(i.Spec.Reference)
	if err != nil {
		return i.Spec.Reference
	}
	return ref.Context().Digest(v.Found.Digest).Name()
}

// Matches says that an entry is one of those that are looked for; what is "" says nothing.
func (i *Image) Matches(c Category, framework string, u Use, search string) bool {
	s := &i.Spec
	has := func(text, part string) bool { return strings.Contains(strings.ToLower(text), strings.ToLower(part)) }
	switch {
	case c != "" && s.Category != c, framework != "" && !has(s.Framework, framework), u != "" && !slices.Contains(s.Uses, u):
		return false
	}
	all := strings.Join(append([]string{i.Meta.Name, i.Meta.DisplayName, s.Reference, s.Framework, s.Description.EN, s.Description.ZH}, s.Tags...), " ")
	for _, word := range strings.Fields(search) {
		if !has(all, word) {
			return false
		}
	}
	return true
}

// Default fills what was left out.
func (i *Image) Default() {
	if i.Spec.Category == "" {
		i.Spec.Category = Custom
	}
}

const (
	maxText  = 4096
	maxTags  = 32
	maxFound = 64 // labels, ports, platforms
)

// Validate lists every refused field.
func (i *Image) Validate() (out []fault.Field) {
	add := func(path, en, zh string, args ...any) {
		out = append(out, fault.Field{Path: path, Message: fault.T(en, zh, args...)})
	}
	s := &i.Spec
	out = append(out, CheckReference("spec.reference", s.Reference)...)
	if !slices.Contains(Categories, s.Category) {
		add("spec.category", "One of official, community, custom.", "必须是 official、community、custom 之一。")
	}
	switch {
	case s.Category == Custom && !api.IsName(s.Project):
		add("spec.project", "A custom image belongs to a project: name it.", "自定义镜像属于某个项目：请填写项目名称。")
	case s.Category != Custom && (s.Project != "" || len(s.Credentials) > 0):
		add("spec.project", "Only custom images belong to a project and have its credentials.", "只有自定义镜像属于项目并可使用其凭据。")
	}
	for path, text := range map[string]string{"spec.framework": s.Framework, "spec.cuda": s.CUDA, "spec.python": s.Python} {
		if len(text) > 64 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' }) {
			add(path, "At most 64 bytes in one line.", "最多 64 字节且不换行。")
		}
	}
	if len(s.Description.EN) > maxText || len(s.Description.ZH) > maxText {
		add("spec.description", "At most %d bytes.", "最多 %d 字节。", maxText)
	}
	if s.Size < 0 {
		add("spec.size", "At least 0.", "至少为 0。")
	}
	if len(s.Tags) > maxTags || slices.ContainsFunc(s.Tags, func(t string) bool { return t == "" || len(t) > 64 }) {
		add("spec.tags", "At most %d tags of 1 to 64 bytes.", "最多 %d 个标签，每个 1 到 64 字节。", maxTags)
	}
	for _, u := range s.Uses {
		if !slices.Contains(Uses, u) {
			add("spec.uses", "Of notebook, training, inference.", "取值为 notebook、training、inference。")
			break
		}
	}
	if len(s.Credentials) > 8 || slices.ContainsFunc(s.Credentials, func(c api.CredentialRef) bool { return !api.IsName(c.Secret) }) {
		add("spec.credentials", "At most 8 names of secrets of type registry.", "最多 8 个 registry 类型密钥的名称。")
	}
	return out
}

// CheckReference refuses what is no reference of an image at a registry.
func CheckReference(path, reference string) []fault.Field {
	// The rules of a task's image: they are in one place.
	t := api.TrainingTask{Spec: api.TrainingTaskSpec{Framework: api.FrameworkPlain, Image: reference}}
	for _, f := range t.Validate() {
		if f.Path == "spec.image" {
			return []fault.Field{{Path: path, Message: f.Message}}
		}
	}
	if reference == "" || reference == api.ImageHost {
		return []fault.Field{{Path: path, Message: fault.T("Name an image: registry/name:tag.", "请填写镜像：registry/name:tag。")}}
	}
	return nil
}

// Check refuses what is no result of a job.
func (r *Result) Check() error {
	if f := r.Refused; f != nil {
		for _, s := range []string{f.Reason, f.Message.EN, f.Message.ZH, f.Hint.EN, f.Hint.ZH} {
			if len(s) > maxText {
				return errBadResult
			}
		}
	}
	if r.Found == nil {
		return nil
	}
	return r.Found.Check()
}

var errBadResult = fault.New(fault.Invalid, "BadResult", fault.T("What the job left is no description of an image.", "任务结果不是合法的镜像描述。"))

// Check refuses what a job says it found that no registry says.
func (f *ImageFound) Check() error {
	_, err := name.NewDigest("image@" + f.Digest)
	size := 0
	for k, v := range f.Labels {
		size += len(k) + len(v)
	}
	for _, s := range slices.Concat(f.Entrypoint, f.Cmd, f.Platforms, f.Ports, []string{f.User, f.WorkingDir, f.Reference}) {
		size += len(s)
	}
	if err != nil || f.Size < 0 || f.Layers < 0 || len(f.Labels) > maxFound || len(f.Platforms) > maxFound || len(f.Ports) > maxFound || size > 64<<10 {
		return errBadResult
	}
	return nil
}
