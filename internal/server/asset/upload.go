package asset

import (
	"context"
	"errors"
	"io"
	"reflect"
	"slices"
	"strconv"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/tenant"
)

// Upload is how far one is.
type Upload struct {
	Upload  string    `json:"upload" doc:"Its name: the BLAKE3 of the list."`
	Missing []int     `json:"missing" doc:"Places in the list of the chunks that are not there yet."`
	Bytes   api.Bytes `json:"bytes" doc:"Of those."`
	Size    api.Bytes `json:"size" doc:"Of all files."`
}

// ChunkKept is the answer to a chunk: it is durable.
type ChunkKept struct {
	Hash  string `json:"hash"`
	Bytes int    `json:"bytes"`
}

// ChunkThere says whether a chunk is there.
type ChunkThere struct {
	There bool `json:"there"`
}

// hasChunk looks for a chunk of the project.
func (s *uploads) hasChunk(ctx context.Context, c *rest.Call, a asset.Asset) (*rest.Reply, error) {
	h, err := asset.ParseHash(c.R.PathValue("hash"))
	if err != nil {
		return nil, err
	}
	p, err := s.versions.project(ctx, a)
	if err != nil {
		return nil, err
	}
	there, err := s.Repo.Has(ctx, p.Meta.ID, h)
	return &rest.Reply{Data: ChunkThere{there}}, err
}

// uploads brings bytes up.
type uploads struct {
	Deps
	versions *versions
	reading  chan struct{} // has one for each checkpoint that is read
}

// begin writes an upload down and says what is missing; to go on with one that was cut is to begin it again.
func (s *uploads) begin(ctx context.Context, c *rest.Call, a asset.Asset) (*rest.Reply, error) {
	raw, err := readAll(c, asset.MaxManifest)
	if err != nil {
		return nil, err
	}
	p, err := s.versions.project(ctx, a)
	if err != nil {
		return nil, err
	}
	if c.Query.Yes("reference") {
		m, digest, err := s.Repo.BeginListing(ctx, p.Meta.ID, raw)
		if err != nil {
			return nil, err
		}
		c.Note.What = `{"listing":"` + digest + `","size":` + strconv.FormatInt(m.Size(), 10) + `}`
		return &rest.Reply{Message: fault.T("The list is here", "已收到清单"), Data: Upload{Upload: digest, Missing: []int{}, Size: api.Bytes(m.Size())}, Revision: a.GetMeta().Revision}, nil
	}
	m, digest, missing, err := s.Repo.Begin(ctx, p.Meta.ID, raw)
	if err != nil {
		return nil, err
	}
	u := Upload{Upload: digest, Missing: missing, Size: api.Bytes(m.Size())}
	for _, i := range missing {
		u.Bytes += api.Bytes(m.Chunks[i].Bytes)
	}
	if s.Stored != nil && u.Bytes > 0 {
		if err := s.Stored.RoomForAsset(p, int64(u.Bytes)); err != nil {
			return nil, errors.Join(err, s.Repo.Forget(ctx, p.Meta.ID, digest))
		}
	}
	c.Note.What = `{"upload":"` + digest + `","size":` + strconv.FormatInt(m.Size(), 10) + `}`
	return &rest.Reply{Message: fault.T("%d of %d chunks are to be sent", "共 %[2]d 个数据块，需发送 %[1]d 个", len(missing), len(m.Chunks)), Data: u, Revision: a.GetMeta().Revision}, nil
}

// readAll reads a body that may take long.
func readAll(c *rest.Call, limit int64) ([]byte, error) {
	if c.R.ContentLength > limit {
		return nil, rest.BodyTooLarge(limit)
	}
	raw, err := io.ReadAll(io.LimitReader(c.Uploaded(), limit+1))
	if err == nil && int64(len(raw)) > limit {
		err = rest.BodyTooLarge(limit)
	}
	return raw, rest.BodyFault(err, limit)
}

// putChunk keeps one chunk. One that is there already costs nothing.
func (s *uploads) putChunk(ctx context.Context, c *rest.Call, a asset.Asset) (*rest.Reply, error) {
	c.Note.Skip = true // a version is made of thousands
	h, err := asset.ParseHash(c.R.PathValue("hash"))
	if err != nil {
		return nil, err
	}
	if c.R.ContentLength > asset.ChunkMax {
		return nil, rest.BodyTooLarge(asset.ChunkMax)
	}
	buf := asset.Buffers.Get().(*[]byte)
	defer asset.Buffers.Put(buf)
	body := c.Uploaded()
	n, err := io.ReadFull(body, *buf)
	if err == nil {
		if extra, _ := body.Read(make([]byte, 1)); extra > 0 {
			return nil, rest.BodyTooLarge(asset.ChunkMax)
		}
	} else if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, rest.BodyFault(err, asset.ChunkMax)
	}
	p, err := s.versions.project(ctx, a)
	if err != nil {
		return nil, err
	}
	if c.R.ContentLength >= 0 && int64(n) != c.R.ContentLength {
		return nil, rest.BodyFault(io.ErrUnexpectedEOF, asset.ChunkMax)
	}
	if err := s.keepChunk(ctx, p, h, (*buf)[:n]); err != nil {
		return nil, err
	}
	return &rest.Reply{Message: fault.T("Kept", "已保存"), Data: ChunkKept{h.String(), n}}, nil
}

// keepChunk counts a chunk that is new, and keeps it.
func (s *uploads) keepChunk(ctx context.Context, p *api.Project, h asset.Hash, data []byte) error {
	if there, err := s.Repo.Has(ctx, p.Meta.ID, h); err != nil || there {
		return err
	}
	if s.Stored == nil {
		return s.Repo.PutChunk(ctx, p.Meta.ID, h, data)
	}
	if err := s.Stored.KeepAsset(p, int64(len(data))); err != nil {
		return err
	}
	err := s.Repo.PutChunk(ctx, p.Meta.ID, h, data)
	if err != nil {
		_ = s.Stored.KeepAsset(p, -int64(len(data))) // gives back
	}
	return err
}

// VersionWish is what a version is made of.
type VersionWish struct {
	Upload   string            `json:"upload,omitempty" doc:"What the upload answered."`
	Message  string            `json:"message,omitempty" maxLength:"4096"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Source   *asset.Source     `json:"source,omitempty" doc:"Of a dataset by reference: where the bytes of the list lie. The list was sent with reference=true."`
	Imported *asset.Source     `json:"imported,omitempty" doc:"Where the bytes of the upload were read from, for people to know."`
	// Checkpoint is there instead of Upload.
	Checkpoint *CheckpointWish `json:"checkpoint,omitempty" doc:"Of a model, instead of an upload: the checkpoint that it is made of. What its script saved as files becomes those; of what ranks saved through the SDK each rank has a file rank-N.slot."`
}

// commit makes a version of a whole upload.
func (s *uploads) commit(ctx context.Context, c *rest.Call, a asset.Asset) (*rest.Reply, error) {
	data, err := c.ReadBody(1 << 20)
	if err != nil {
		return nil, err
	}
	var wish VersionWish
	if err := rest.Strictly(data, &wish, "upload, message, metadata, source, imported, checkpoint"); err != nil {
		return nil, err
	}
	if wish.Checkpoint != nil {
		return s.fromCheckpoint(ctx, c, a, &wish)
	}
	if _, err := asset.ParseHash(wish.Upload); err != nil {
		return nil, err
	}
	p, err := s.versions.project(ctx, a)
	if err != nil {
		return nil, err
	}
	if err := s.checkSources(ctx, p, a, &wish); err != nil {
		return nil, err
	}
	if newest, err := s.versions.newest(ctx, a); err != nil {
		return nil, err
	} else if newest != nil && newest.Spec.Manifest == wish.Upload && reflect.DeepEqual(newest.Spec.Source, wish.Source) {
		return s.versions.unchanged(newest), nil
	}
	m, raw, err := s.Repo.Upload(ctx, p.Meta.ID, wish.Upload, wish.Source != nil)
	if err != nil {
		return nil, err
	}
	if wish.Source != nil {
		if i := slices.IndexFunc(m.Files, func(f asset.File) bool { return f.Tag == "" }); i >= 0 {
			return nil, refuse.Invalid("upload", fault.T("The file %.200q of the list has no tag, so a change of it could not be told.", "清单中的文件 %.200q 没有标签，无法察觉其变化。", m.Files[i].Path))
		}
	}
	missing, err := s.Repo.Complete(ctx, p.Meta.ID, m, raw)
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		return nil, fault.New(fault.Conflict, "ChunksMissing", fault.T("%d chunks of the upload are not there yet.", "此次上传还缺少 %d 个数据块。", len(missing))).
			WithHint(fault.T("Begin the upload again: it says which, and nothing else is sent.", "请重新开始上传：会返回缺失的数据块，其余不会重发。"))
	}
	spec := asset.VersionSpec{Message: wish.Message, Metadata: wish.Metadata, Manifest: wish.Upload, Files: len(m.Files), Size: api.Bytes(m.Size()), Source: wish.Source}
	if wish.Imported != nil {
		spec.Origin = &asset.Origin{Imported: wish.Imported}
	}
	rep, err := s.versions.Publish(ctx, c, p, a, spec, m)
	if err == nil {
		err = s.Repo.Forget(ctx, p.Meta.ID, wish.Upload)
	}
	return rep, err
}

// checkSources refuses what can't be referred to: a model, a folder that the project was not granted, a secret that is none.
func (s *uploads) checkSources(ctx context.Context, p *api.Project, a asset.Asset, wish *VersionWish) error {
	var bad []fault.Field
	if wish.Imported != nil {
		bad = append(bad, asset.CheckSource("imported", wish.Imported)...)
	}
	if wish.Source != nil {
		bad = append(bad, asset.CheckSource("source", wish.Source)...)
		if a.Kind() != asset.DatasetKind {
			bad = append(bad, fault.Field{Path: "source", Message: fault.T("Only versions of datasets can lie elsewhere; upload or import a model.", "只有数据集版本可以引用别处的数据；模型请上传或导入。")})
		}
		if wish.Imported != nil {
			bad = append(bad, fault.Field{Path: "imported", Message: fault.T("What lies elsewhere was not imported: leave it out.", "引用版本并未导入数据，请不要填写。")})
		}
	}
	if len(bad) > 0 {
		return fault.New(fault.Invalid, "InvalidField", fault.T("Some fields are wrong.", "部分字段有误。")).WithFields(bad...)
	}
	if wish.Source == nil {
		return nil
	}
	if s3 := wish.Source.S3; s3 != nil {
		o, err := s.Finder.Truth.Refer(ctx, api.Key{Kind: api.KindSecret, Project: p.Meta.Name, Name: s3.Secret}, "source.s3.secret")
		if err != nil {
			return err
		}
		if have := tenant.SecretType(o.(*api.Secret)); have != api.SecretS3 {
			return refuse.Invalid("source.s3.secret", fault.T("Secret %q is of type %s; here one of type s3 is needed.", "密钥 %q 的类型为 %s，此处需要 s3 类型的密钥。", s3.Secret, have))
		}
		return nil
	}
	return s.granted(p, "source.folder", wish.Source.Folder)
}

// granted refuses a folder that a project may not use.
func (s *uploads) granted(p *api.Project, at, folder string) error {
	granted := api.Granted(s.Folders, p.Spec.Folders)
	if s.SoleOwner != nil && s.SoleOwner() != "" {
		granted = s.Folders
	}
	if in, _ := api.ResolveFolder(folder, granted); in == nil {
		return api.FolderNotAllowed(at, folder, p.Meta.Name, granted)
	}
	return nil
}
