package image

import (
	"context"
	"maps"
	"net/http"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/api/v1/image"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/objects"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/truth"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Images serves it. Safe for concurrent use.
type Images struct {
	truth   *truth.Truth
	finder  *objects.Finder // set by Serve
	allowed []string        // beginnings of names; none: any
}

// New takes the operator's word from what the leader knows, if that is there.
func New(t *truth.Truth, live any) *Images {
	s := &Images{truth: t}
	if l, ok := live.(interface{ Policy() devenv.Policy }); ok {
		s.allowed = l.Policy().Images
	}
	return s
}

// there says that the program has images.
func there() bool {
	_, ok := api.InfoOf(image.Kind)
	return ok
}

// Hooks are the rows of the catalogue.
func (s *Images) Hooks(f *objects.Finder) []*objects.Hooks {
	if !there() {
		return nil
	}
	s.finder = f
	return []*objects.Hooks{{
		Kind: image.Kind,
		Access: access.Kind{
			Read: access.ReadOwn, Write: access.WriteImages, Of: func(o api.Object) string { return o.(*image.Image).Owner() },
			NotMine: fault.T("Images for everybody are written by administrators; a custom one by members of its project.", "面向所有人的镜像由管理员维护；自定义镜像由其项目成员维护。"),
		},
		Read: objects.Reading{Example: map[string]any{"metadata": map[string]any{"name": "team-train"}, "spec": map[string]any{"reference": "registry.example.org/team/train:v3", "category": "custom", "project": "default"}}},
		Fresh: func(o api.Object, _ *access.Caller) error {
			i := o.(*image.Image)
			i.Status = image.ImageStatus{}
			i.Default()
			return nil
		},
		References: func(_ context.Context, _ *rest.Call, o api.Object) error {
			i := o.(*image.Image)
			return s.refuse("spec.reference", i.Spec.Reference)
		},
		Admit: func(ctx context.Context, _ *rest.Call, b *objects.Birth, _ bool) error {
			return s.admit(ctx, b.Object.(*image.Image))
		},
		Change: func(ctx context.Context, _ *rest.Call, a *objects.Alteration) func() error {
			next, current := a.Next.(*image.Image), a.Current.(*image.Image)
			next.Spec = a.Given.(*image.Image).Spec
			next.Default()
			if next.Spec.Reference != current.Spec.Reference {
				next.Status.Verified = nil // it was another one that was checked
			}
			return func() error { return s.admit(ctx, next) }
		},
	}}
}

// admit refuses an entry whose image is not allowed, or whose project is not there.
func (s *Images) admit(ctx context.Context, i *image.Image) error {
	if err := s.refuse("spec.reference", i.Spec.Reference); err != nil {
		return err
	}
	if p := i.Owner(); p != "" {
		_, err := s.truth.Refer(ctx, api.Key{Kind: api.KindProject, Name: p}, "spec.project")
		return err
	}
	return nil
}

func (s *Images) refuse(path, reference string) error {
	if !image.Allowed(reference, s.allowed) {
		return image.NotAllowed(path, reference, s.allowed)
	}
	return nil
}

// ImageCheck names the job that looked.
type ImageCheck struct {
	Job     string `json:"job" doc:"Name of an image job that has looked at, brought or pushed the entry's image."`
	Project string `json:"project" doc:"Of the job."`
}

// Routes are those of the catalogue beside the plain verbs.
func (s *Images) Routes(reg *rest.Schemas, rules *access.Rules) []*rest.Route {
	if !there() {
		return nil
	}
	row := api.MustInfo(image.Kind)
	rules.AsWrite("verifyImage", image.Kind)
	return []*rest.Route{{
		Method: http.MethodPost, Path: rest.Prefix + "/" + row.Plural + "/{name}/verify", ID: "verifyImage", Tag: row.Plural, Kind: row.Kind, Verb: "verify",
		Summary: "Write into an entry what a completed image job found of its image: who checked which digest, and when.",
		Body:    &rest.BodySpec{Schema: rest.SchemaOf[ImageCheck](reg), Media: rest.JsonMedia, Required: true},
		Data:    reg.Kind(row), Handle: s.verify,
	}}
}

func (s *Images) verify(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	row, name := api.MustInfo(image.Kind), c.R.PathValue("name")
	c.Note.Names(row.Kind, name)
	var wish ImageCheck
	if err := c.ReadJSON(&wish, "job, project"); err != nil {
		return nil, err
	}
	f, err := s.finder.Resolve(ctx, c, row, name)
	if err != nil {
		return nil, err
	}
	if err := s.finder.Judge.MayWrite(ctx, c.Who, f.Object); err != nil {
		return nil, err
	}
	c.Query.In(wish.Project)
	job, err := s.finder.Resolve(ctx, c, image.JobRow, wish.Job)
	if err != nil {
		return nil, err
	}
	j, entry := job.Object.(*image.ImageJob), store.Clone(f.Object).(*image.Image)
	switch {
	case j.Status.Phase != api.PhaseCompleted || j.Status.Found == nil || j.Status.FinishedAt == nil:
		return nil, refuse.Invalid("job", fault.T("The job %s has found nothing: %s", "任务 %s 没有结果：%s", j.Meta.Name, j.Status.Message.EN))
	case j.Spec.Image != entry.Spec.Reference:
		return nil, refuse.Invalid("job", fault.T("The job %s looked at %s, the entry is %s.", "任务 %s 检查的是 %s，而该条目为 %s。", j.Meta.Name, j.Spec.Image, entry.Spec.Reference))
	}
	c.Note.Before(f.Object)
	entry.Status.Verified = &image.ImageVerified{By: j.Meta.Owner, At: *j.Status.FinishedAt, Job: j.Meta.Name, Found: *j.Status.Found}
	entry.Meta.UpdatedAt = *j.Status.FinishedAt
	rev, err := s.truth.Write(ctx, store.Update(entry))
	if err != nil {
		return nil, err
	}
	c.Note.After(entry)
	c.Tell(entry, "Verified", fault.T("Checked: it is %s.", "已检查：摘要为 %s。", j.Status.Found.Digest))
	return &rest.Reply{Message: fault.T("Verified", "已检查"), Data: entry, Revision: rev}, nil
}

// Label is where work says which entry of the catalogue it named.
const Label = "image"

// Settle puts what an entry of the catalogue is in the place of its name, and refuses images that are not allowed. An entry goes before an
// image of Docker's own registry with the same name. fields is where the work names images.
func (s *Images) Settle(ctx context.Context, o api.Work, fields []image.Field) error {
	for _, f := range fields {
		if *f.Image == "" || *f.Image == api.ImageHost {
			continue
		}
		if api.IsName(*f.Image) && there() {
			found, err := s.truth.Find(ctx, api.Key{Kind: image.Kind, Name: *f.Image}, 0)
			if err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
			if e, ok := found.(*image.Image); err == nil && ok && (e.Owner() == "" || e.Owner() == o.GetMeta().Project) {
				m := o.GetMeta()
				m.Labels = maps.Clone(m.Labels)
				if m.Labels == nil {
					m.Labels = map[string]string{}
				}
				m.Labels[Label], *f.Image = *f.Image, e.Pinned()
			}
		}
		if err := s.refuse(f.Path, *f.Image); err != nil {
			return err
		}
	}
	return nil
}

// AdmitJob refuses a job that is not allowed, and writes down what is saved.
func (s *Images) AdmitJob(ctx context.Context, who *access.Caller, was, o api.Work) error {
	j := o.(*image.ImageJob)
	if was != nil {
		return nil
	}
	if err := s.refuse("spec.image", j.Spec.Image); err != nil {
		return err
	}
	if j.Spec.Do != image.Save {
		return nil
	}
	found, err := s.truth.Refer(ctx, api.Key{Kind: devenv.Kind, Project: j.Meta.Project, Name: j.Spec.Environment}, "spec.environment")
	if err != nil {
		return err
	}
	e := found.(*devenv.DevEnvironment)
	switch {
	case !who.Enters(e):
		return fault.New(fault.Forbidden, "NotOwner", fault.T("It belongs to %s; only its owner may do this.", "该对象属于 %s，只有其所有者可以执行此操作。", e.Meta.Owner))
	case e.Spec.Image == "":
		return refuse.Invalid("spec.environment", fault.T("The environment %s runs in no image; only what was written over one can be saved.", "环境 %s 未使用镜像；只能保存在镜像之上写入的内容。", e.Meta.Name))
	case e.Status.Attempt == 0:
		return refuse.Invalid("spec.environment", fault.T("The environment %s has never run; nothing was written over its image.", "环境 %s 从未运行过，没有可保存的内容。", e.Meta.Name))
	case e.Runs() || !e.Status.Phase.Finished():
		return fault.New(fault.Conflict, "Running", fault.T("The environment %s runs; stop it first, so that what is saved holds still.", "环境 %s 正在运行；请先停止，以确保保存内容一致。", e.Meta.Name)).
			WithHint(fault.T("fermi env stop %s", "fermi env stop %s", e.Meta.Name))
	}
	zone := e.Spec.Zone
	if zone == "" && len(e.Status.Zones) == 1 {
		zone = e.Status.Zones[0]
	}
	j.Spec.Saved = &image.ImageSaved{ID: e.HomeName(), Image: e.Spec.Image, Node: e.Status.Home, Zone: zone}
	return nil
}
