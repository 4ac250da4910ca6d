package asset

import (
	"context"
	"errors"
	"io"
	"strconv"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/rest"
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
	Upload   string            `json:"upload" doc:"What the upload answered."`
	Message  string            `json:"message,omitempty" maxLength:"4096"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// commit makes a version of a whole upload.
func (s *uploads) commit(ctx context.Context, c *rest.Call, a asset.Asset) (*rest.Reply, error) {
	data, err := c.ReadBody(1 << 20)
	if err != nil {
		return nil, err
	}
	var wish VersionWish
	if err := rest.Strictly(data, &wish, "upload, message, metadata"); err != nil {
		return nil, err
	}
	if _, err := asset.ParseHash(wish.Upload); err != nil {
		return nil, err
	}
	p, err := s.versions.project(ctx, a)
	if err != nil {
		return nil, err
	}
	if newest, err := s.versions.newest(ctx, a); err != nil {
		return nil, err
	} else if newest != nil && newest.Spec.Manifest == wish.Upload {
		return s.versions.unchanged(newest), nil
	}
	m, raw, err := s.Repo.Upload(ctx, p.Meta.ID, wish.Upload)
	if err != nil {
		return nil, err
	}
	missing, err := s.Repo.Complete(ctx, p.Meta.ID, m, raw)
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		return nil, fault.New(fault.Conflict, "ChunksMissing", fault.T("%d chunks of the upload are not there yet.", "此次上传还缺少 %d 个数据块。", len(missing))).
			WithHint(fault.T("Begin the upload again: it says which, and nothing else is sent.", "请重新开始上传：会返回缺失的数据块，其余不会重发。"))
	}
	spec := asset.VersionSpec{Message: wish.Message, Metadata: wish.Metadata, Manifest: wish.Upload, Files: len(m.Files), Size: api.Bytes(m.Size())}
	rep, err := s.versions.Publish(ctx, c, p, a, spec, m)
	if err == nil {
		err = s.Repo.Forget(ctx, p.Meta.ID, wish.Upload)
	}
	return rep, err
}
