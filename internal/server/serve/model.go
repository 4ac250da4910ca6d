package serve

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
)

// maxModel is the largest output that travels as a model.
const maxModel = 256 << 20

// maxOutputs is how many files of a task are looked through for one.
const maxOutputs = 10000

// bringModel makes the output of a task the code of a service: one archive with that file, the same bytes for the same
// model. Who may write the service's project may read its tasks.
func (s *Services) bringModel(ctx context.Context, o *serving.InferenceService, dry bool) error {
	m := o.Spec.Template.Model
	if m == nil || m.Task == "" {
		return nil
	}
	task, err := s.taskOf(ctx, o.Meta.Project, m.Task)
	if err != nil {
		return err
	}
	file := cmp.Or(m.File, serving.DefaultFile)
	info, err := s.output(ctx, task.GetMeta().ID, file)
	if err != nil {
		return err
	}
	if info.Key == "" {
		return refuse.Invalid("spec.template.model.file", fault.T("The task %s left no file %s.", "任务 %s 没有产出文件 %s。", m.Task, file))
	}
	if info.Size > maxModel {
		return refuse.Invalid("spec.template.model.file", fault.T("The file has %d bytes; at most %d are brought this way. Use a folder of the machines.", "文件大小为 %d 字节，上限为 %d 字节；请改用机器目录。", info.Size, int64(maxModel)))
	}
	if dry {
		return nil
	}
	packed, err := s.pack(ctx, info, file)
	if err != nil {
		return err
	}
	digest, size, err := blob.PutContent(ctx, s.Blob, "archives", bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		return err
	}
	p, err := s.Finder.Truth.Refer(ctx, api.Key{Kind: api.KindProject, Name: o.Meta.Project}, "metadata.project")
	if err != nil {
		return err
	}
	if err := s.Archives.Give(ctx, p.(*api.Project), digest, size); err != nil {
		return err
	}
	o.Spec.Template.Code = &api.Code{Archive: digest}
	return nil
}

// mountModel has the replicas of a service find the model and the adapters that it names, in the versions that it means now, which are written down.
func (s *Services) mountModel(ctx context.Context, o *serving.InferenceService) error {
	t := &o.Spec.Template
	t.MountModel()
	if (t.Model == nil || t.Model.Name == "") && len(t.Adapters) == 0 {
		return nil
	}
	if _, err := s.Gate.SettleAssets(ctx, nil, o); err != nil {
		return asWritten(err, t)
	}
	t.TakeVersions()
	return nil
}

// asWritten is a refusal of what is mounted in the words of the service, which names a model and adapters.
func asWritten(err error, t *serving.ServiceTemplate) error {
	var refused *fault.Error
	if !errors.As(err, &refused) {
		return err
	}
	fields := map[string]string{}
	for i := range t.Models {
		at := fmt.Sprintf("models[%d]", i)
		fields["spec."+at] = "spec.template." + at
		if adapter := i - (len(t.Models) - len(t.Adapters)); adapter >= 0 {
			fields["spec."+at] = fmt.Sprintf("spec.template.adapters[%d].model", adapter)
		}
	}
	if t.Model != nil && t.Model.Name != "" {
		fields["spec.models[0]"] = "spec.template.model.name"
	}
	out := *refused
	out.Fields = slices.Clone(refused.Fields)
	for i := range out.Fields {
		out.Fields[i].Path = cmp.Or(fields[out.Fields[i].Path], out.Fields[i].Path)
	}
	return &out
}

// taskOf finds a task of a project, in the store or in the archive.
func (s *Services) taskOf(ctx context.Context, project, name string) (api.Object, error) {
	o, err := s.Finder.Truth.Find(ctx, api.Key{Kind: api.KindTrainingTask, Project: project, Name: name}, 0)
	if !fault.Is(err, fault.NotFound) {
		return o, err
	}
	row, err := s.Finder.History.GetArchived(ctx, api.KindTrainingTask, project, name)
	if fault.Is(err, fault.NotFound) {
		return nil, refuse.Invalid("spec.template.model.task", fault.T("There is no task %q in the project.", "项目中没有任务 %q。", refuse.Clip(name, 64)))
	}
	if err != nil {
		return nil, err
	}
	return row.Object, nil
}

// output finds a file that a task left, of its first replica that has it.
func (s *Services) output(ctx context.Context, taskID, file string) (blob.Info, error) {
	under := "outputs/" + taskID + "/"
	infos, err := s.Blob.List(ctx, under, "", maxOutputs)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return blob.Info{}, err
	}
	for _, info := range infos {
		rest := strings.TrimPrefix(info.Key, under)
		if _, in, ok := strings.Cut(rest, "/"); rest == file || ok && in == file {
			return info, nil
		}
	}
	return blob.Info{}, nil
}

// pack is a tar of one file.
func (s *Services) pack(ctx context.Context, info blob.Info, file string) ([]byte, error) {
	r, _, err := s.Blob.Open(ctx, info.Key)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // only read
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}); err != nil {
			return nil, err
		}
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: file, Mode: 0o644, Size: info.Size}); err != nil {
		return nil, err
	}
	if _, err := io.CopyN(w, r, info.Size); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
