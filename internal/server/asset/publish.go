package asset

import (
	"context"
	"encoding/json"
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

// Tasks that name a model or a dataset leave one: a version is made of their outputs once they have completed. The version, the asset and the
// task's own word that it was made are written at once, so that a crash at any moment leaves none of them or all.

// debt is a version that a task owes.
type debt struct {
	kind api.Kind
	wish *mount.Output
}

// debts are what a task owes now.
func debts(t *api.TrainingTask) (out []debt) {
	if !t.Owes() {
		return nil
	}
	o, done := t.Spec.Outputs, &t.Status.Left
	if o.OwesModel(done) {
		out = append(out, debt{asset.ModelKind, o.Model})
	}
	if o.OwesDataset(done) {
		out = append(out, debt{asset.DatasetKind, o.Dataset})
	}
	return out
}

// word is what a task says of it.
func (d debt) word(t *api.TrainingTask) **mount.Made {
	if d.kind == asset.ModelKind {
		return &t.Status.Model
	}
	return &t.Status.Dataset
}

// publishEvery is the time between two looks for tasks that have completed.
const publishEvery = 2 * time.Second

// Publish makes versions of what tasks leave, until ctx ends. One of all servers does.
func (s *Assets) Publish(ctx context.Context) error {
	for {
		for _, t := range s.owed(ctx) {
			if err := s.publish(ctx, t, debts(t)[0]); err != nil && ctx.Err() == nil { // of two the second one has the next turn: the task was written meanwhile
				s.Log.Warn("a task's version is not registered yet; trying again", "task", t.Meta.ID, "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.Clock.After(publishEvery):
		}
	}
}

// owed are the tasks whose model or dataset is not there yet.
func (s *Assets) owed(ctx context.Context) (out []*api.TrainingTask) {
	snap, err := s.Finder.Truth.List(ctx, api.KindTrainingTask, "", 0)
	if err != nil {
		return nil
	}
	snap.Ascend("", func(o api.Object) bool {
		if t := o.(*api.TrainingTask); len(debts(t)) > 0 {
			out = append(out, t)
		}
		return true
	})
	return out
}

// publish makes the version of one task, or writes down why there can be none.
func (s *Assets) publish(ctx context.Context, t *api.TrainingTask, d debt) error {
	made, err := s.fromOutputs(ctx, t, d)
	var f *fault.Error
	if err != nil {
		if f = fault.From(err); f.Code != fault.Invalid && f.Code != fault.Full && f.Code != fault.NotFound {
			return err // it may pass
		}
		next := store.Clone(t)
		*d.word(next) = &mount.Made{Name: d.wish.Name, Reason: f.Reason, Message: f.Message}
		if _, err := s.Finder.Truth.Write(ctx, store.Update(next)); err != nil {
			return err
		}
	}
	e := history.Event{
		Time: s.Clock.Now().UTC(), Kind: api.KindTrainingTask, Project: t.Meta.Project, Name: t.Meta.Name, ID: t.Meta.ID, Type: "Normal", Reason: string(d.kind) + "Registered",
		Actor: "assets", Dedup: t.Meta.ID + "/" + api.MustInfo(d.kind).Singular,
	}
	what := kindWords[d.kind]
	if f != nil {
		e.Type, e.Reason, e.Message = "Warning", f.Reason, fault.T("No version of the %s %s was made: %s", "未能创建%s %s 的版本：%s", what, d.wish.Name, f.Message)
	} else {
		e.Message = fault.T("Its outputs are version %d of the %s %s.", "其产出已登记为%[2]s %[3]s 的版本 %[1]d。", made.Version, what, made.Name)
	}
	return s.Finder.History.AddEvents(ctx, e)
}

var kindWords = map[api.Kind]fault.Text{asset.ModelKind: fault.T("model", "模型"), asset.DatasetKind: fault.T("dataset", "数据集")}

// fromOutputs makes a version of what a task left.
func (s *Assets) fromOutputs(ctx context.Context, t *api.TrainingTask, d debt) (*mount.Made, error) {
	p, err := s.versions.project(ctx, t)
	if err != nil {
		return nil, err
	}
	files, keyOf, err := s.left(ctx, t, d)
	if err != nil {
		return nil, err
	}
	open := func(path string) (io.ReadCloser, error) {
		r, _, err := sealed.Open(ctx, s.Blob, keyOf[path])
		return r, err
	}
	digest, m, err := s.uploads.keep(ctx, p, files, open)
	if err != nil {
		return nil, err
	}
	metadata, err := metadataOf(files, open)
	if err != nil {
		return nil, err
	}
	made, err := s.enter(ctx, t, d, p, digest, m, metadata)
	if err == nil {
		err = s.Repo.Forget(ctx, p.Meta.ID, digest)
	}
	return made, err
}

// MetadataFile is read where a task leaves a version: a JSON object of texts that become the version's metadata.
const MetadataFile = "fermi-metadata.json"

const maxMetadataFile = 64 << 10

// metadataOf is what a task says of its version; nil: nothing.
func metadataOf(files []asset.File, open func(string) (io.ReadCloser, error)) (out map[string]string, err error) {
	if !slices.ContainsFunc(files, func(f asset.File) bool { return f.Path == MetadataFile && f.Size <= maxMetadataFile }) {
		return nil, nil
	}
	r, err := open(MetadataFile)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // only read
	raw, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	if json.Unmarshal(raw, &out) != nil || len(asset.CheckMetadata(out)) > 0 {
		return nil, fault.New(fault.Invalid, "BadMetadata", fault.T("%s is no JSON object of at most 64 texts.", "%s 不是由最多 64 个字符串组成的 JSON 对象。", MetadataFile))
	}
	return out, nil
}

// left are the files that a version is made of, and the keys of their bytes: of a model those of the first replica that left some, of a dataset
// those of all replicas, where of two with one name the first counts.
func (s *Assets) left(ctx context.Context, t *api.TrainingTask, d debt) (files []asset.File, keyOf map[string]string, err error) {
	prefix, want, under := "outputs/"+t.Meta.ID+"/", d.wish.Path, ""
	keyOf = map[string]string{}
	const page = 1000
	for after := ""; ; {
		list, err := s.Blob.List(ctx, prefix, after, page)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return nil, nil, err
		}
		for _, o := range list {
			replica, file, ok := strings.Cut(strings.TrimPrefix(o.Key, prefix), "/")
			if !ok || d.kind == asset.ModelKind && under != "" && under != replica || want != "" && file != want && !strings.HasPrefix(file, want+"/") || keyOf[file] != "" {
				continue
			}
			under, keyOf[file] = replica, o.Key
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
		return nil, nil, fault.New(fault.NotFound, "NoOutput", fault.T("The task left nothing to make a version of.", "任务没有可用于创建版本的产出。"))
	}
	if want == "" {
		return sorted(files), keyOf, nil
	}
	base := parent(want)
	if len(files) != 1 || files[0].Path != want { // one file alone keeps its name
		base = want + "/"
	}
	short := map[string]string{}
	for i := range files {
		name := strings.TrimPrefix(files[i].Path, base)
		short[name], files[i].Path = keyOf[files[i].Path], name
	}
	return sorted(files), short, nil
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

// enter writes the version down, with its asset and with the task's own word of it.
func (s *Assets) enter(ctx context.Context, t *api.TrainingTask, d debt, p *api.Project, digest string, m *asset.Manifest, metadata map[string]string) (*mount.Made, error) {
	spec := asset.VersionSpec{Manifest: digest, Files: len(m.Files), Size: api.Bytes(m.Size()), Metadata: metadata, Origin: &asset.Origin{
		Task: t.Meta.Name, TaskID: t.Meta.ID, Datasets: versionsAt(t.Spec.Datasets), Models: versionsAt(t.Spec.Models),
	}}
	var err error
	if d.kind == asset.ModelKind {
		if spec.Format, err = s.versions.formatOf(ctx, p.Meta.ID, m); err != nil {
			return nil, err
		}
	}
	for range truth.Retries {
		a, fresh, err := s.assetOf(ctx, t, d)
		if err != nil {
			return nil, err
		}
		newest, err := s.versions.newest(ctx, a)
		if err != nil {
			return nil, err
		}
		if spec.New, err = s.versions.fresh(ctx, p.Meta.ID, newest, m); err != nil {
			return nil, err
		}
		v, next := s.versions.version(nil, a, spec)
		if model, ok := next.(*asset.Model); ok && d.wish.Alias != "" {
			model.Spec.Aliases = maps.Clone(model.Spec.Aliases)
			if model.Spec.Aliases == nil {
				model.Spec.Aliases = map[string]int{}
			}
			model.Spec.Aliases[d.wish.Alias] = v.Spec.Number
		}
		after := store.Clone(t)
		*d.word(after) = &mount.Made{Name: a.GetMeta().Name, Version: v.Spec.Number}
		ops := []store.Op{store.Create(v), store.Update(after)}
		if fresh {
			ops = append(ops, store.Create(next))
		} else {
			ops = append(ops, store.Update(next))
		}
		_, err = s.Finder.Truth.Write(ctx, ops...)
		if err == nil {
			return *d.word(after), nil
		}
		if r := fault.ReasonOf(err); r != "Stale" && r != "NameTaken" {
			return nil, err
		}
		o, err := s.Finder.Truth.Get(ctx, api.KeyOf(t), s.Finder.Truth.Newest())
		if err != nil {
			return nil, err
		}
		t = o.(*api.TrainingTask)
		if made := *d.word(t); made != nil { // somebody else did
			return made, nil
		}
	}
	return nil, fault.New(fault.Unavailable, "Stale", fault.T("It changes all the time.", "该对象频繁变化。"))
}

func versionsAt(refs []mount.AssetRef) (out []asset.VersionAt) {
	for _, r := range refs {
		n, _ := strconv.Atoi(r.Version) // settled when the task was submitted
		out = append(out, asset.VersionAt{Name: r.Name, Version: n})
	}
	return out
}

// assetOf finds the model or dataset that a task names, or makes one that is not written yet.
func (s *Assets) assetOf(ctx context.Context, t *api.TrainingTask, d debt) (a asset.Asset, fresh bool, err error) {
	key := api.Key{Kind: d.kind, Project: t.Meta.Project, Name: d.wish.Name}
	o, err := s.Finder.Truth.Get(ctx, key, s.Finder.Truth.Newest())
	if err == nil {
		return o.(asset.Asset), false, nil
	}
	if !fault.Is(err, fault.NotFound) {
		return nil, false, err
	}
	now := s.Clock.Now().UTC()
	meta := api.Meta{
		ID: s.IDs.New(api.MustInfo(d.kind).IDPrefix), Name: key.Name, DisplayName: key.Name, Project: key.Project, Owner: t.Meta.Owner, CreatedAt: now, UpdatedAt: now,
	}
	if d.kind == asset.DatasetKind {
		return &asset.Dataset{Meta: meta}, true, nil
	}
	return &asset.Model{Meta: meta}, true, nil
}
