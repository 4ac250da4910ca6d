package server

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/fault"
)

type outputFile struct {
	Path     string    `json:"path" doc:"role-index/…"`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
}

type outputFiles struct {
	Items []outputFile `json:"items"`
	Next  string       `json:"next,omitempty"`
}

func (s *Server) listOutputs(ctx context.Context, c *call) (*reply, error) {
	_, task, err := s.task(ctx, c)
	if err != nil {
		return nil, err
	}
	under, after := "outputs/"+task.Meta.ID+"/", ""
	if at := c.q.text("cursor"); at != "" {
		after = under + at
		if err := blob.CheckKey(after); err != nil {
			return nil, invalid("query.cursor", fault.T("It is not the path of an output.", "不是有效的产出路径。"))
		}
	}
	limit := int(c.q.number("limit"))
	infos, err := s.Blob.List(ctx, under, after, limit)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	out := outputFiles{Items: make([]outputFile, 0, len(infos))}
	for _, info := range infos {
		out.Items = append(out.Items, outputFile{strings.TrimPrefix(info.Key, under), info.Size, info.Modified})
	}
	if len(infos) == limit {
		out.Next = out.Items[limit-1].Path
	}
	return &reply{data: out}, nil
}

// readOutput serves bytes that a user made. They never act in the console's name: always a
// download, never sniffed, never a document.
func (s *Server) readOutput(ctx context.Context, c *call) (*reply, error) {
	_, task, err := s.task(ctx, c)
	if err != nil {
		return nil, err
	}
	file := c.r.PathValue("path")
	key := "outputs/" + task.Meta.ID + "/" + file
	if blob.CheckKey(key) != nil {
		return nil, noOutput(file)
	}
	r, info, err := s.Blob.Open(ctx, key)
	if fault.Is(err, fault.NotFound) {
		return nil, noOutput(file)
	} else if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // only read
	h := c.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'")
	h.Set("Content-Disposition", attachment(path.Base(file)))
	defer c.guard(ctx, task)()
	s.rememberRead(c, file)
	w := &ranged{patient: patient{c}}
	http.ServeContent(w, c.r, "", info.Modified, r)
	if err := c.wasCut(); err != nil {
		return nil, err // the connection is cut: a short file must not look whole
	}
	switch w.refused {
	case http.StatusRequestedRangeNotSatisfiable:
		return nil, fault.New(fault.BadRange, "BadRange", fault.T("The file has %d bytes; the range asked for is not in it.", "文件共 %d 字节，不包含所请求的范围。", info.Size))
	case http.StatusPreconditionFailed:
		c.refuseAs(fault.New(fault.Invalid, "PreconditionFailed", fault.T("The file is not the one that the request's conditions ask for.", "文件不符合请求中的条件。")), w.refused)
	case 0:
	default:
		return nil, fault.New(fault.Internal, "Internal", fault.T("The file could not be read.", "无法读取文件。"))
	}
	return nil, nil
}

// ranged holds back the library's own words about what cannot be served: refusals have one shape.
type ranged struct {
	patient
	refused int // status
}

func (w *ranged) WriteHeader(status int) {
	if status >= 400 {
		w.refused = status
		return
	}
	w.patient.WriteHeader(status)
}

func (w *ranged) Write(b []byte) (int, error) {
	if w.refused != 0 {
		return len(b), nil
	}
	return w.patient.Write(b)
}

func attachment(name string) string {
	if v := mime.FormatMediaType("attachment", map[string]string{"filename": name}); v != "" {
		return v
	}
	return "attachment; filename*=UTF-8''" + url.PathEscape(name)
}

func noOutput(file string) error {
	return fault.New(fault.NotFound, "NoOutput", fault.T("The task left no file %q.", "任务没有产出文件 %q。", clip(file, 256)))
}

type archive struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

func (s *Server) archiveRoutes(reg *schemas) []*route {
	data := schemaOf[archive](reg)
	return []*route{
		{
			method: http.MethodPost, path: prefix + "/archives", id: "putArchive", summary: "Upload a code archive, for a project, or for yourself where none is named; the same bytes twice are kept once.", tag: "archives", long: true,
			query: []param{{name: "project", doc: "Whose members may use it; only you when absent."}},
			verb:  "upload", kind: "Archive", body: &bodySpec{schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}, media: []string{"application/octet-stream"}, required: true},
			data: data, handle: s.putArchive,
		},
		{
			method: http.MethodGet, path: prefix + "/archives/{digest}", id: "getArchive", summary: "Whether an archive is there for you, or for a project.", tag: "archives",
			query: []param{{name: "project", doc: "Only as a task of this project would find it."}},
			data:  data, handle: s.getArchive,
		},
	}
}

func (s *Server) putArchive(ctx context.Context, c *call) (*reply, error) {
	limit := s.Limits.Archive
	if c.r.ContentLength > limit {
		return nil, bodyTooLarge(limit)
	}
	project, err := s.archiveProject(ctx, c, true)
	if err != nil {
		return nil, err
	}
	defer c.guard(ctx, nil)()
	digest, n, err := blob.PutContent(ctx, s.Blob, "archives", stalling{c, c.r.Body}, limit)
	if err != nil {
		var ours *fault.Error
		if errors.As(err, &ours) {
			return nil, err
		}
		return nil, bodyFault(err, limit)
	}
	if n == 0 {
		return nil, fault.New(fault.Invalid, "BadBody", fault.T("The archive is empty.", "代码包为空。"))
	}
	if project != nil {
		c.note.project = project.Meta.Name
		err = s.giveArchive(ctx, project, digest, n)
	} else {
		var key string
		if key, err = userGrant(c.who.user.Meta.ID, digest); err == nil {
			err = grant(ctx, s.Blob, key, n)
		}
	}
	if err != nil {
		return nil, err
	}
	c.note.name, c.note.is = digest, `{"size":`+strconv.FormatInt(n, 10)+`}`
	return &reply{message: fault.T("Archive stored", "代码包已保存"), data: archive{digest, n}}, nil
}

func (s *Server) getArchive(ctx context.Context, c *call) (*reply, error) {
	digest := c.r.PathValue("digest")
	project, err := s.archiveProject(ctx, c, false)
	if err != nil {
		return nil, err
	}
	info, err := s.archiveFor(ctx, c.who, project, digest)
	if err != nil {
		return nil, err
	}
	return &reply{data: archive{digest, info.Size}}, nil
}
