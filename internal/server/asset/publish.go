package asset

import (
	"context"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/internal/blob/sealed"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/server/truth"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Tasks that name a model leave one: a version is made of their outputs once they have completed. The version, the model and the task's own word
// that it was made are written at once, so that a crash at any moment leaves none of them or all.

// publishEvery is the time between two looks for tasks that have completed.
const publishEvery = 2 * time.Second

// Publish makes versions of what tasks leave, until ctx ends. One of all servers does.
func (s *Assets) Publish(ctx context.Context) error {
	for {
		for _, t := range s.owed(ctx) {
			if err := s.publish(ctx, t); err != nil && ctx.Err() == nil {
				s.Log.Warn("a task's model is not registered yet; trying again", "task", t.Meta.ID, "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.Clock.After(publishEvery):
		}
	}
}

// owed are the tasks whose model is not there yet.
func (s *Assets) owed(ctx context.Context) (out []*api.TrainingTask) {
	snap, err := s.Finder.Truth.List(ctx, api.KindTrainingTask, "", 0)
	if err != nil {
		return nil
	}
	snap.Ascend("", func(o api.Object) bool {
		if t := o.(*api.TrainingTask); t.OwesModel() {
			out = append(out, t)
		}
		return true
	})
	return out
}

// publish makes the version of one task, or writes down why there can be none.
func (s *Assets) publish(ctx context.Context, t *api.TrainingTask) error {
	made, err := s.fromOutputs(ctx, t)
	var f *fault.Error
	if err != nil {
		if f = fault.From(err); f.Code != fault.Invalid && f.Code != fault.Full && f.Code != fault.NotFound {
			return err // it may pass
		}
		next := store.Clone(t)
		next.Status.Model = &mount.Made{Name: t.Spec.Outputs.Model.Name, Reason: f.Reason, Message: f.Message}
		if _, err := s.Finder.Truth.Write(ctx, store.Update(next)); err != nil {
			return err
		}
	}
	e := history.Event{
		Time: s.Clock.Now().UTC(), Kind: api.KindTrainingTask, Project: t.Meta.Project, Name: t.Meta.Name, ID: t.Meta.ID, Type: "Normal", Reason: "ModelRegistered",
		Actor: "assets", Dedup: t.Meta.ID + "/model",
	}
	if f != nil {
		e.Type, e.Reason, e.Message = "Warning", f.Reason, fault.T("No version of the model %s was made: %s", "未能创建模型 %s 的版本：%s", t.Spec.Outputs.Model.Name, f.Message)
	} else {
		e.Message = fault.T("Its outputs are version %d of the model %s.", "其产出已登记为模型 %[2]s 的版本 %[1]d。", made.Version, made.Name)
	}
	return s.Finder.History.AddEvents(ctx, e)
}

// fromOutputs makes a version of what a task left.
func (s *Assets) fromOutputs(ctx context.Context, t *api.TrainingTask) (*mount.Made, error) {
	p, err := s.versions.project(ctx, t)
	if err != nil {
		return nil, err
	}
	files, under, err := s.left(ctx, t)
	if err != nil {
		return nil, err
	}
	open := func(path string) (io.ReadCloser, error) {
		r, _, err := sealed.Open(ctx, s.Blob, under+path)
		return r, err
	}
	m, err := asset.Build(ctx, files, open, nil)
	if err != nil {
		return nil, err
	}
	raw, _ := m.Encode()
	_, digest, missing, err := s.Repo.Begin(ctx, p.Meta.ID, raw)
	if err != nil {
		return nil, err
	}
	cuts := asset.Cut(files)
	buf := asset.Buffers.Get().(*[]byte)
	defer asset.Buffers.Put(buf)
	for _, i := range missing {
		data, err := cuts[i].Read(files, open, *buf)
		if err != nil {
			return nil, err
		}
		if err := s.uploads.keepChunk(ctx, p, m.Chunks[i].Hash, data); err != nil {
			return nil, err
		}
	}
	if missing, err = s.Repo.Complete(ctx, p.Meta.ID, m, raw); err != nil || len(missing) > 0 {
		return nil, fault.New(fault.Unavailable, "ChunksMissing", fault.T("%d chunks are not there yet.", "还缺少 %d 个数据块。", len(missing))).Because(err)
	}
	made, err := s.enter(ctx, t, p, digest, m)
	if err == nil {
		err = s.Repo.Forget(ctx, p.Meta.ID, digest)
	}
	return made, err
}

// left are the files that a task's model is made of, and where they lie: of the first replica that left some.
func (s *Assets) left(ctx context.Context, t *api.TrainingTask) (files []asset.File, under string, err error) {
	prefix, want := "outputs/"+t.Meta.ID+"/", t.Spec.Outputs.Model.Path
	const page = 1000
	for after := ""; ; {
		list, err := s.Blob.List(ctx, prefix, after, page)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return nil, "", err
		}
		for _, o := range list {
			replica, file, ok := strings.Cut(strings.TrimPrefix(o.Key, prefix), "/")
			if !ok || under != "" && under != prefix+replica+"/" || want != "" && file != want && !strings.HasPrefix(file, want+"/") {
				continue
			}
			under = prefix + replica + "/"
			files = append(files, asset.File{Path: file, Size: o.Size})
		}
		if len(list) < page {
			break
		}
		after = list[len(list)-1].Key
	}
	if want == "" {
		files, want = apart(files)
	}
	if len(files) == 0 {
		return nil, "", fault.New(fault.NotFound, "NoOutput", fault.T("The task left nothing to make a model of.", "任务没有可用于创建模型的产出。"))
	}
	if want == "" {
		return sorted(files), under, nil
	}
	base := parent(want)
	if len(files) != 1 || files[0].Path != want { // one file alone keeps its name
		base = want + "/"
	}
	for i := range files {
		files[i].Path = strings.TrimPrefix(files[i].Path, base)
	}
	return sorted(files), under + base, nil
}

// Folders of outputs that are not in $FERMI_OUTPUT: what a script left in its working folder, and spec.outputs.logs.
const (
	underWork = "workdir"
	underLogs = "logs/"
)

// apart are the files of $FERMI_OUTPUT; where there are none, those of the working folder, which is named then.
func apart(files []asset.File) (out []asset.File, folder string) {
	own := func(f asset.File) bool {
		return !strings.HasPrefix(f.Path, underWork+"/") && !strings.HasPrefix(f.Path, underLogs)
	}
	if slices.ContainsFunc(files, own) {
		return slices.DeleteFunc(files, func(f asset.File) bool { return !own(f) }), ""
	}
	return slices.DeleteFunc(files, func(f asset.File) bool { return !strings.HasPrefix(f.Path, underWork+"/") }), underWork
}

func parent(path string) string { return path[:strings.LastIndexByte(path, '/')+1] }

func sorted(files []asset.File) []asset.File {
	slices.SortFunc(files, func(a, b asset.File) int { return asset.Compare(a.Path, b.Path) })
	return files
}

// enter writes the version down, with the model and with the task's own word of it.
func (s *Assets) enter(ctx context.Context, t *api.TrainingTask, p *api.Project, digest string, m *asset.Manifest) (*mount.Made, error) {
	wish := t.Spec.Outputs.Model
	spec := asset.VersionSpec{Manifest: digest, Files: len(m.Files), Size: api.Bytes(m.Size()), Origin: &asset.Origin{Task: t.Meta.Name, TaskID: t.Meta.ID}}
	for _, r := range t.Spec.Datasets {
		n, _ := strconv.Atoi(r.Version)
		spec.Origin.Datasets = append(spec.Origin.Datasets, asset.VersionAt{Name: r.Name, Version: n})
	}
	var err error
	if spec.Format, err = s.versions.formatOf(ctx, p.Meta.ID, m); err != nil {
		return nil, err
	}
	for range truth.Retries {
		model, fresh, err := s.modelOf(ctx, t)
		if err != nil {
			return nil, err
		}
		newest, err := s.versions.newest(ctx, model)
		if err != nil {
			return nil, err
		}
		if spec.New, err = s.versions.fresh(ctx, p.Meta.ID, newest, m); err != nil {
			return nil, err
		}
		v, changed := s.versions.version(nil, model, spec)
		next := changed.(*asset.Model)
		if wish.Alias != "" {
			next.Spec.Aliases = maps.Clone(next.Spec.Aliases)
			if next.Spec.Aliases == nil {
				next.Spec.Aliases = map[string]int{}
			}
			next.Spec.Aliases[wish.Alias] = v.Spec.Number
		}
		after := store.Clone(t)
		after.Status.Model = &mount.Made{Name: model.Meta.Name, Version: v.Spec.Number}
		ops := []store.Op{store.Create(v), store.Update(after)}
		if fresh {
			ops = append(ops, store.Create(next))
		} else {
			ops = append(ops, store.Update(next))
		}
		_, err = s.Finder.Truth.Write(ctx, ops...)
		if err == nil {
			return after.Status.Model, nil
		}
		if r := fault.ReasonOf(err); r != "Stale" && r != "NameTaken" {
			return nil, err
		}
		o, err := s.Finder.Truth.Get(ctx, api.KeyOf(t), s.Finder.Truth.Newest())
		if err != nil {
			return nil, err
		}
		if t = o.(*api.TrainingTask); !t.OwesModel() { // somebody else did
			return t.Status.Model, nil
		}
	}
	return nil, fault.New(fault.Unavailable, "Stale", fault.T("It changes all the time.", "该对象频繁变化。"))
}

// modelOf finds the model that a task names, or makes one that is not written yet.
func (s *Assets) modelOf(ctx context.Context, t *api.TrainingTask) (m *asset.Model, fresh bool, err error) {
	key := api.Key{Kind: asset.ModelKind, Project: t.Meta.Project, Name: t.Spec.Outputs.Model.Name}
	o, err := s.Finder.Truth.Get(ctx, key, s.Finder.Truth.Newest())
	if err == nil {
		return o.(*asset.Model), false, nil
	}
	if !fault.Is(err, fault.NotFound) {
		return nil, false, err
	}
	now := s.Clock.Now().UTC()
	return &asset.Model{Meta: api.Meta{
		ID: s.IDs.New(api.MustInfo(asset.ModelKind).IDPrefix), Name: key.Name, DisplayName: key.Name, Project: key.Project, Owner: t.Meta.Owner, CreatedAt: now, UpdatedAt: now,
	}}, true, nil
}
