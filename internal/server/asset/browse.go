package asset

import (
	"cmp"
	"context"
	"net/http"
	"path"
	"sort"
	"strings"
	"sync"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
)

// lists keeps manifests that were read lately: people turn pages.
type lists struct {
	mu    sync.Mutex
	by    map[string]*asset.Manifest
	order []string
}

// maxLists bounds them; each may have a million files.
const maxLists = 4

func (l *lists) get(key string) *asset.Manifest {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.by[key]
}

func (l *lists) put(key string, m *asset.Manifest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by == nil {
		l.by = map[string]*asset.Manifest{}
	}
	if l.by[key] != nil {
		return
	}
	l.by[key], l.order = m, append(l.order, key)
	if len(l.order) > maxLists {
		delete(l.by, l.order[0])
		l.order = l.order[1:]
	}
}

// pages shows what versions are.
type pages struct {
	Deps
	versions *versions
}

// opened is a version with its list.
type opened struct {
	project *api.Project
	version *asset.AssetVersion
	list    *asset.Manifest
}

func (s *pages) open(ctx context.Context, c *rest.Call, a asset.Asset) (o opened, err error) {
	if o.project, err = s.versions.project(ctx, a); err != nil {
		return o, err
	}
	if o.version, err = s.versions.find(ctx, a, c.R.PathValue("version"), 0); err != nil {
		return o, err
	}
	o.list, err = s.versions.list(ctx, o.project.Meta.ID, o.version)
	return o, err
}

// AssetFolder is a page of what lies in a folder.
type AssetFolder struct {
	Items []AssetEntry `json:"items"`
	Next  string       `json:"next,omitempty" doc:"Give it as cursor for the next page; absent on the last."`
}

// AssetEntry is a file or a folder.
type AssetEntry struct {
	Name  string    `json:"name"`
	Dir   bool      `json:"dir,omitempty"`
	Size  api.Bytes `json:"size" doc:"Of a folder: of all in it."`
	Files int       `json:"files,omitempty" doc:"In a folder, at all depths."`
}

// browse shows a folder.
func (s *pages) browse(ctx context.Context, c *rest.Call, a asset.Asset) (*rest.Reply, error) {
	o, err := s.open(ctx, c, a)
	if err != nil {
		return nil, err
	}
	dir := strings.Trim(c.Query.Text("path"), "/")
	if dir != "" {
		if err := asset.CheckPath(dir); err != nil {
			return nil, err
		}
		dir += "/"
	}
	page := folderOf(o.list, dir, c.Query.Text("cursor"), int(c.Query.Number("limit")))
	if len(page.Items) == 0 && dir != "" && c.Query.Text("cursor") == "" {
		return nil, fault.New(fault.NotFound, "NoSuchFolder", fault.T("There is no folder %q in this version.", "该版本中没有目录 %q。", refuse.Clip(dir, 256)))
	}
	return &rest.Reply{Data: page, Revision: o.version.Meta.Revision}, nil
}

// folderOf is a page of a folder ("" or with a final slash), behind a name.
func folderOf(m *asset.Manifest, dir, after string, limit int) AssetFolder {
	out := AssetFolder{Items: []AssetEntry{}}
	i := sort.Search(len(m.Files), func(i int) bool { return asset.Compare(m.Files[i].Path, dir) >= 0 })
	for i < len(m.Files) && strings.HasPrefix(m.Files[i].Path, dir) {
		name, _, isDir := strings.Cut(m.Files[i].Path[len(dir):], "/")
		e, next := AssetEntry{Name: name, Dir: isDir}, i
		if !isDir {
			e.Size, next = api.Bytes(m.Files[i].Size), i+1
		}
		for ; isDir && next < len(m.Files) && strings.HasPrefix(m.Files[next].Path, dir+name+"/"); next++ {
			e.Files++
			e.Size += api.Bytes(m.Files[next].Size)
		}
		if i = next; after != "" && asset.Compare(name, after) <= 0 {
			continue
		}
		if len(out.Items) == limit {
			out.Next = out.Items[limit-1].Name
			return out
		}
		out.Items = append(out.Items, e)
	}
	return out
}

// readable is bytes that say why reading them ended early.
type readable interface {
	Read([]byte) (int, error)
	Seek(int64, int) (int64, error)
	Close() error
	Err() error
}

// bytesOf opens a file of a version.
func (s *pages) bytesOf(ctx context.Context, o opened, file string) (readable, asset.File, error) {
	i, ok := o.list.Find(file)
	if !ok {
		return nil, asset.File{}, fault.New(fault.NotFound, "NoSuchFile", fault.T("There is no file %q in this version.", "该版本中没有文件 %q。", refuse.Clip(file, 256)))
	}
	if o.version.Spec.Source != nil {
		return nil, asset.File{}, elsewhere()
	}
	return s.Repo.OpenFile(ctx, o.project.Meta.ID, o.list, i), o.list.Files[i], nil
}

func elsewhere() error {
	return fault.New(fault.Conflict, "ByReference", fault.T("The bytes of this version lie elsewhere; it can be mounted, not read here.", "该版本的数据位于别处，可以挂载，但无法在此读取。"))
}

// readFile serves bytes that a user made: always a download, never sniffed, never a document.
func (s *pages) readFile(ctx context.Context, c *rest.Call, a asset.Asset) (*rest.Reply, error) {
	o, err := s.open(ctx, c, a)
	if err != nil {
		return nil, err
	}
	file := c.R.PathValue("path")
	r, f, err := s.bytesOf(ctx, o, file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // only read
	h := c.W.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'")
	h.Set("Content-Disposition", rest.Attachment(path.Base(file)))
	h.Set("ETag", `"`+o.version.Spec.Manifest[:32]+`"`)
	defer s.Streams.Guard(ctx, c, a)()
	s.Auditor.RememberRead(c, file)
	w := &whole{Patient: c.Patient()}
	http.ServeContent(w, c.R, "", o.version.Meta.CreatedAt, r)
	if err := cmp.Or(c.WasCut(), r.Err()); err != nil {
		for _, name := range []string{"Content-Length", "Content-Range", "Content-Disposition", "Last-Modified", "Accept-Ranges", "ETag"} {
			h.Del(name) // those of the file
		}
		return nil, err
	}
	w.begin()
	if w.refused == http.StatusRequestedRangeNotSatisfiable {
		return nil, fault.New(fault.BadRange, "BadRange", fault.T("The file has %d bytes; the range asked for is not in it.", "文件共 %d 字节，不包含所请求的范围。", f.Size))
	} else if w.refused != 0 {
		c.RefuseAs(fault.New(fault.Invalid, "PreconditionFailed", fault.T("The file is not the one that the request's conditions ask for.", "文件不符合请求中的条件。")), w.refused)
	}
	return nil, nil
}

// whole holds the status back until the first byte, so that bytes that are bad are refused in words.
type whole struct {
	rest.Patient
	refused, waiting int
}

func (w *whole) WriteHeader(status int) {
	if status >= 400 {
		w.refused = status
		return
	}
	w.waiting = status
}

func (w *whole) begin() {
	if w.waiting != 0 {
		w.Patient.WriteHeader(w.waiting)
		w.waiting = 0
	}
}

func (w *whole) Write(b []byte) (int, error) {
	if w.refused != 0 {
		return len(b), nil
	}
	w.begin()
	return w.Patient.Write(b)
}

// readManifest gives the list of a version as it is kept.
func (s *pages) readManifest(ctx context.Context, c *rest.Call, a asset.Asset) (*rest.Reply, error) {
	p, err := s.versions.project(ctx, a)
	if err != nil {
		return nil, err
	}
	v, err := s.versions.find(ctx, a, c.R.PathValue("version"), 0)
	if err != nil {
		return nil, err
	}
	_, raw, err := s.Repo.Manifest(ctx, p.Meta.ID, v.Spec.Manifest, v.Spec.Source != nil)
	if err != nil {
		return nil, err
	}
	return nil, s.send(ctx, c, a, raw)
}

// send gives bytes that are all there.
func (s *pages) send(ctx context.Context, c *rest.Call, a asset.Asset, raw []byte) error {
	h := c.W.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Disposition", "attachment")
	defer s.Streams.Guard(ctx, c, a)()
	w := c.Patient()
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(raw) // who went away hears nothing
	return nil
}

// readChunk gives one chunk of a version.
func (s *pages) readChunk(ctx context.Context, c *rest.Call, a asset.Asset) (*rest.Reply, error) {
	want, err := asset.ParseHash(c.R.PathValue("hash"))
	if err != nil {
		return nil, err
	}
	o, err := s.open(ctx, c, a)
	if err != nil {
		return nil, err
	}
	for _, chunk := range o.list.Chunks {
		if chunk.Hash != want {
			continue
		}
		buf := asset.Buffers.Get().(*[]byte)
		defer asset.Buffers.Put(buf)
		p, err := s.Repo.ReadChunk(ctx, o.project.Meta.ID, chunk, *buf)
		if err != nil {
			return nil, err
		}
		return nil, s.send(ctx, c, a, p)
	}
	return nil, fault.New(fault.NotFound, "NoSuchChunk", fault.T("This version has no such chunk.", "该版本没有此数据块。"))
}
