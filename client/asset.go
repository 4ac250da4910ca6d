package client

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Asset is a dataset or model of a project, by name.
type Asset struct {
	c       *Client
	kind    api.Kind
	project string
	name    string
}

// AssetOf asks nothing yet.
func AssetOf(kind api.Kind, c *Client, project, name string) *Asset {
	return &Asset{c, kind, project, name}
}

// Upload is how far one is.
type Upload struct {
	Upload  string `json:"upload"`
	Missing []int  `json:"missing"`
}

// AssetEntry is a file or folder of a version.
type AssetEntry struct {
	Name  string    `json:"name"`
	Dir   bool      `json:"dir"`
	Size  api.Bytes `json:"size"`
	Files int       `json:"files"`
}

func (a *Asset) path(parts ...string) (string, error) {
	p, err := objectPath(a.kind, a.name)
	for _, part := range parts {
		p += "/" + url.PathEscape(part)
	}
	return p, err
}

// HasChunk asks whether a chunk is there.
func (a *Asset) HasChunk(ctx context.Context, h asset.Hash) (bool, error) {
	p, err := a.path("chunks", h.String())
	if err != nil {
		return false, err
	}
	var out struct {
		There bool `json:"there"`
	}
	err = a.c.read(ctx, p, inProject(a.project), &out)
	return out.There, err
}

// PutChunk sends a chunk; it is durable when this returns. It is sent again where that can help.
func (a *Asset) PutChunk(ctx context.Context, h asset.Hash, data []byte) error {
	p, err := a.path("chunks", h.String())
	if err != nil {
		return err
	}
	return a.c.retry(ctx, func(context.Context) error { // a body outlives a quick try
		resp, err := a.c.send(ctx, request{method: http.MethodPut, path: p, query: inProject(a.project), body: bytes.NewReader(data), length: int64(len(data)), typ: "application/octet-stream"})
		if err != nil {
			return err
		}
		return a.c.decode(ctx, resp, nil)
	})
}

// Begin says which bytes a version shall have, and hears which chunks of them are missing.
func (a *Asset) Begin(ctx context.Context, manifest []byte) (out Upload, err error) {
	return a.begin(ctx, manifest, inProject(a.project))
}

// BeginListing says which files a version by reference shall have.
func (a *Asset) BeginListing(ctx context.Context, listing []byte) (out Upload, err error) {
	q := inProject(a.project)
	q.Set("reference", "true")
	return a.begin(ctx, listing, q)
}

func (a *Asset) begin(ctx context.Context, manifest []byte, query url.Values) (out Upload, err error) {
	p, err := a.path("uploads")
	if err != nil {
		return out, err
	}
	err = a.c.retry(ctx, func(context.Context) error {
		resp, err := a.c.send(ctx, request{method: http.MethodPost, path: p, query: query, body: bytes.NewReader(manifest), length: int64(len(manifest)), typ: "application/octet-stream"})
		if err != nil {
			return err
		}
		return a.c.decode(ctx, resp, &out)
	})
	return out, err
}

// VersionWish is what a version is made of.
type VersionWish struct {
	Upload   string            `json:"upload,omitempty"`
	Message  string            `json:"message,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Source   *asset.Source     `json:"source,omitempty"`   // where the files of a listing lie
	Imported *asset.Source     `json:"imported,omitempty"` // where those of an upload were read
	// Checkpoint is there instead of Upload: what a version of a model is made of.
	Checkpoint *CheckpointWish `json:"checkpoint,omitempty"`
}

// CheckpointWish names a checkpoint of a task of the project; step 0: the newest.
type CheckpointWish struct {
	Task string `json:"task"`
	Step int64  `json:"step,omitempty"`
}

// Commit makes a version of an upload. To say it again is to get the same one.
func (a *Asset) Commit(ctx context.Context, wish VersionWish) (*asset.AssetVersion, error) {
	p, err := a.path("versions")
	if err != nil {
		return nil, err
	}
	v := &asset.AssetVersion{}
	err = a.c.retry(ctx, func(ctx context.Context) error {
		return a.c.write(ctx, http.MethodPost, p, inProject(a.project), wish, v)
	})
	return v, err
}

// Versions are all of them, newest first.
func (a *Asset) Versions(ctx context.Context) ([]*asset.AssetVersion, error) {
	p, err := a.path("versions")
	if err != nil {
		return nil, err
	}
	var out struct {
		Items []*asset.AssetVersion `json:"items"`
	}
	err = a.c.read(ctx, p, inProject(a.project), &out)
	return out.Items, err
}

// Version is one: a number, latest, or of a model an alias or a stage.
func (a *Asset) Version(ctx context.Context, version string) (*asset.AssetVersion, error) {
	p, err := a.path("versions", version)
	if err != nil {
		return nil, err
	}
	v := &asset.AssetVersion{}
	return v, a.c.read(ctx, p, inProject(a.project), v)
}

// DeleteVersion deletes one that nothing uses.
func (a *Asset) DeleteVersion(ctx context.Context, version string) error {
	p, err := a.path("versions", version)
	if err != nil {
		return err
	}
	return a.c.write(ctx, http.MethodDelete, p, inProject(a.project), nil, nil)
}

// Files are what lies in a folder of a version.
func (a *Asset) Files(ctx context.Context, version, dir string) (all []AssetEntry, err error) {
	p, err := a.path("versions", version, "files")
	if err != nil {
		return nil, err
	}
	q := inProject(a.project)
	q.Set("limit", "1000")
	set(q, "path", dir)
	for {
		var page struct {
			Items []AssetEntry `json:"items"`
			Next  string       `json:"next"`
		}
		if err := a.c.read(ctx, p, q, &page); err != nil {
			return nil, err
		}
		if all = append(all, page.Items...); page.Next == "" {
			return all, nil
		}
		q.Set("cursor", page.Next)
	}
}

// Manifest is the list of all files and chunks of a version.
func (a *Asset) Manifest(ctx context.Context, version string) ([]byte, error) {
	p, err := a.path("versions", version, "manifest")
	if err != nil {
		return nil, err
	}
	return a.bytes(ctx, p, asset.MaxManifest)
}

// Chunk brings one chunk of a version. The caller verifies it.
func (a *Asset) Chunk(ctx context.Context, version string, h asset.Hash) ([]byte, error) {
	p, err := a.path("versions", version, "chunks", h.String())
	if err != nil {
		return nil, err
	}
	return a.bytes(ctx, p, asset.ChunkMax)
}

func (a *Asset) bytes(ctx context.Context, p string, most int64) (out []byte, err error) {
	err = a.c.retry(ctx, func(context.Context) error {
		resp, err := a.c.send(ctx, request{method: http.MethodGet, path: p, query: inProject(a.project)})
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		out, err = io.ReadAll(io.LimitReader(resp.Body, most+1))
		if err == nil && int64(len(out)) > most {
			return notFermi(a.c.Server(), io.ErrShortBuffer)
		}
		if err != nil {
			return a.c.unreachable(ctx, err)
		}
		return nil
	})
	return out, err
}

// Preview is the beginning of a file of a version.
func (a *Asset) Preview(ctx context.Context, version, file string) (*asset.AssetPreview, error) {
	p, err := a.path("versions", version, "preview")
	if err != nil {
		return nil, err
	}
	query := inProject(a.project)
	query.Set("path", file)
	out := &asset.AssetPreview{}
	return out, a.c.read(ctx, p, query, out)
}

// Open reads a file of a version from a place on; the caller closes it.
func (a *Asset) Open(ctx context.Context, version, file string, from int64) (io.ReadCloser, error) {
	if asset.CheckPath(file) != nil {
		return nil, fault.New(fault.Invalid, "BadPath", fault.T("%q is not the path of a file.", "%q 不是有效的文件路径。", file))
	}
	p, err := a.path(append([]string{"versions", version, "files"}, strings.Split(file, "/")...)...)
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	if from > 0 {
		header.Set("Range", "bytes="+strconv.FormatInt(from, 10)+"-")
	}
	var resp *http.Response
	err = a.c.retry(ctx, func(context.Context) (err error) {
		resp, err = a.c.send(ctx, request{method: http.MethodGet, path: p, query: inProject(a.project), header: header})
		return err
	})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Lineage is what versions come from and go into.
type Lineage struct {
	Versions []LineageVersion `json:"versions"`
}

// LineageVersion is that of one version.
type LineageVersion struct {
	Number int           `json:"number"`
	At     time.Time     `json:"at"`
	Origin *asset.Origin `json:"origin,omitempty"`
	UsedBy []LineageUse  `json:"usedBy,omitempty"`
	Models []LineageMade `json:"models,omitempty"`
}

// LineageUse is work that reads a version.
type LineageUse struct {
	Kind  api.Kind  `json:"kind"`
	Name  string    `json:"name"`
	ID    string    `json:"id"`
	Phase api.Phase `json:"phase,omitempty"`
}

// LineageMade is a version of a model or a dataset whose task read another version.
type LineageMade struct {
	Model   string `json:"model,omitempty"`
	Dataset string `json:"dataset,omitempty"`
	Version int    `json:"version"`
	Task    string `json:"task"`
}

// Lineage says what the versions come from and go into, newest first.
func (a *Asset) Lineage(ctx context.Context) (out Lineage, err error) {
	p, err := a.path("lineage")
	if err != nil {
		return out, err
	}
	return out, a.c.read(ctx, p, inProject(a.project), &out)
}
