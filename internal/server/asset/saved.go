package asset

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
)

// CheckpointWish names a checkpoint of which a version is made.
type CheckpointWish struct {
	Task string `json:"task" doc:"Name or id of a task of the project; it may have ended, or be in the archive."`
	Step int64  `json:"step,omitempty" explicit:"nonzero" minimum:"1" doc:"Of the task; the newest when absent."`
}

// SavedFiles are those of a checkpoint. Close ends the use of them.
type SavedFiles struct {
	Task  *api.TrainingTask
	Step  int64
	Files []asset.File
	Open  asset.Opener
	Close func()
}

// Saved opens the files of a checkpoint that the caller may see; a refusal names the fields below at.
type Saved func(ctx context.Context, c *rest.Call, project, at string, wish CheckpointWish) (*SavedFiles, error)

// maxSaved bounds the checkpoints of which versions are made at once: each is read twice.
const maxSaved = 2

// fromCheckpoint makes a version of a checkpoint of a task.
func (s *uploads) fromCheckpoint(ctx context.Context, c *rest.Call, a asset.Asset, wish *VersionWish) (*rest.Reply, error) {
	const at = "checkpoint"
	switch {
	case a.Kind() != asset.ModelKind:
		return nil, refuse.Invalid(at, fault.T("Only versions of models are made of checkpoints.", "只有模型版本可以由检查点创建。"))
	case wish.Upload != "" || wish.Source != nil || wish.Imported != nil:
		return nil, refuse.Invalid(at, fault.T("It stands alone: without upload, source and imported.", "不能与 upload、source、imported 同时使用。"))
	case s.Saved == nil:
		return nil, refuse.Invalid(at, fault.T("This server keeps no checkpoints.", "该服务器不保存检查点。"))
	case wish.Checkpoint.Step < 0:
		return nil, refuse.Invalid(at+".step", fault.T("At least 1; the newest when absent.", "至少为 1；默认取最新。"))
	}
	if bad := asset.CheckMetadata(wish.Metadata); len(bad) > 0 {
		return nil, fault.New(fault.Invalid, "Invalid", fault.T("The metadata is not valid.", "元数据不合法。")).WithFields(bad...)
	}
	select {
	case s.reading <- struct{}{}:
		defer func() { <-s.reading }()
	default:
		return nil, fault.New(fault.TooMany, "Busy", fault.T("Versions are made of %d other checkpoints now; try again in a moment.", "正在由另外 %d 个检查点创建版本，请稍后重试。", maxSaved))
	}
	p, err := s.versions.project(ctx, a)
	if err != nil {
		return nil, err
	}
	saved, err := s.Saved(ctx, c, a.GetMeta().Project, at, *wish.Checkpoint)
	if err != nil {
		return nil, err
	}
	defer saved.Close()
	files, open := bare(saved.Files, saved.Open)
	digest, m, err := s.keep(ctx, p, files, open)
	if err != nil {
		return nil, err
	}
	rep, err := s.versions.Publish(ctx, c, p, a, asset.VersionSpec{
		Message: wish.Message, Metadata: wish.Metadata, Manifest: digest, Files: len(m.Files), Size: api.Bytes(m.Size()), Origin: &asset.Origin{
			Task: saved.Task.Meta.Name, TaskID: saved.Task.Meta.ID, Checkpoint: saved.Step, Datasets: versionsAt(saved.Task.Spec.Datasets), Models: versionsAt(saved.Task.Spec.Models),
		},
	}, m)
	if err == nil {
		err = s.Repo.Forget(ctx, p.Meta.ID, digest)
	}
	return rep, err
}

// bare are files without the one folder in which all of them lie: scripts save each checkpoint in one of its own.
func bare(files []asset.File, open asset.Opener) ([]asset.File, asset.Opener) {
	folder := ""
	for i, f := range files {
		first, _, deeper := strings.Cut(f.Path, "/")
		if !deeper || i > 0 && first+"/" != folder {
			return sorted(files), open
		}
		folder = first + "/"
	}
	for i := range files {
		files[i].Path = strings.TrimPrefix(files[i].Path, folder)
	}
	return sorted(files), func(path string) (io.ReadCloser, error) { return open(folder + path) }
}

// keep stores the bytes of files as a project's, and is their list.
func (s *uploads) keep(ctx context.Context, p *api.Project, files []asset.File, open asset.Opener) (digest string, m *asset.Manifest, err error) {
	if m, err = asset.Build(ctx, files, open, nil); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fault.New(fault.Conflict, "SourceChanged", fault.T("A file went away while it was read.", "读取过程中有文件消失。")).Because(err)
		}
		return "", nil, err
	}
	raw, _ := m.Encode()
	_, digest, missing, err := s.Repo.Begin(ctx, p.Meta.ID, raw)
	if err != nil {
		return "", nil, err
	}
	cuts := asset.Cut(files)
	buf := asset.Buffers.Get().(*[]byte)
	defer asset.Buffers.Put(buf)
	for _, i := range missing {
		data, err := cuts[i].Read(files, open, *buf)
		if err != nil {
			return "", nil, err
		}
		if err := s.keepChunk(ctx, p, m.Chunks[i].Hash, data); err != nil {
			return "", nil, err
		}
	}
	if missing, err = s.Repo.Complete(ctx, p.Meta.ID, m, raw); err != nil || len(missing) > 0 {
		return "", nil, fault.New(fault.Unavailable, "ChunksMissing", fault.T("%d chunks are not there yet.", "还缺少 %d 个数据块。", len(missing))).Because(err)
	}
	return digest, m, nil
}
