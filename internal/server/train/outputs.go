package train

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/blob/sealed"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/audit"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/stream"
)

// Outputs serves the files that tasks left.
type Outputs struct {
	desk    *Desk
	blob    blob.Store
	streams *stream.Streams
	auditor *audit.Auditor
}

func NewOutputs(d *Desk, b blob.Store, st *stream.Streams, a *audit.Auditor) *Outputs {
	return &Outputs{desk: d, blob: b, streams: st, auditor: a}
}

// Routes are about the files of a task.
func (s *Outputs) Routes(reg *rest.Schemas) []*rest.Route {
	both := []rest.Param{rest.ParamProject, rest.ParamRevision}
	bytesOf := readRoute("outputs/{path...}", "readTaskOutput", "The bytes of one output, verified as they are read; ranges are served.", append([]rest.Param{
		{Name: "unverified", Form: rest.FormBool, Doc: "Take the bytes as they are on disk, damaged or not."},
	}, both...), nil, s.read)
	bytesOf.Media, bytesOf.Verb, bytesOf.Look = "application/octet-stream", "read-output", true
	return []*rest.Route{
		readRoute("outputs", "listTaskOutputs", "The files the task left.", append([]rest.Param{
			{Name: "limit", Form: rest.FormInt, Min: 1, Max: 10000, Fallback: "10000"}, {Name: "cursor", Doc: "next of the page before."},
		}, both...), rest.Page(rest.SchemaOf[OutputFile](reg)), s.list),
		bytesOf,
	}
}

type OutputFile struct {
	Path     string    `json:"path" doc:"role-index/…"`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
}

type OutputFiles struct {
	Items []OutputFile `json:"items"`
	Next  string       `json:"next,omitempty"`
}

func (s *Outputs) list(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	_, task, err := s.desk.task(ctx, c)
	if err != nil {
		return nil, err
	}
	under, after := "outputs/"+task.Meta.ID+"/", ""
	if at := c.Query.Text("cursor"); at != "" {
		after = under + at
		if err := blob.CheckKey(after); err != nil {
			return nil, refuse.Invalid("query.cursor", fault.T("It is not the path of an output.", "不是有效的产出路径。"))
		}
	}
	limit := int(c.Query.Number("limit"))
	infos, err := s.blob.List(ctx, under, after, limit)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	out := OutputFiles{Items: make([]OutputFile, 0, len(infos))}
	for _, info := range infos {
		out.Items = append(out.Items, OutputFile{strings.TrimPrefix(info.Key, under), info.Size, info.Modified})
	}
	if len(infos) == limit {
		out.Next = out.Items[limit-1].Path
	}
	return &rest.Reply{Data: out}, nil
}

// read serves bytes that a user made. They never act in the console's name: always a
// download, never sniffed, never a document.
func (s *Outputs) read(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	_, task, err := s.desk.task(ctx, c)
	if err != nil {
		return nil, err
	}
	file := c.R.PathValue("path")
	key := "outputs/" + task.Meta.ID + "/" + file
	if blob.CheckKey(key) != nil {
		return nil, noOutput(file)
	}
	r, info, err := openOutput(ctx, s.blob, key, c.Query.Yes("unverified"))
	if fault.Is(err, fault.NotFound) {
		return nil, noOutput(file)
	} else if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // only read
	h := c.W.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'")
	h.Set("Content-Disposition", rest.Attachment(path.Base(file)))
	defer s.streams.Guard(ctx, c, task)()
	s.auditor.RememberRead(c, file)
	w := &ranged{Patient: c.Patient()}
	http.ServeContent(w, c.R, "", info.Modified, r)
	if err := cmp.Or(c.WasCut(), r.Err()); err != nil {
		for _, name := range []string{"Content-Length", "Content-Range", "Content-Disposition", "Last-Modified", "Accept-Ranges"} {
			h.Del(name) // those of the file
		}
		return nil, err // the connection is cut where the answer has begun: a short file must not look whole
	}
	w.begin()
	switch w.refused {
	case http.StatusRequestedRangeNotSatisfiable:
		return nil, fault.New(fault.BadRange, "BadRange", fault.T("The file has %d bytes; the range asked for is not in it.", "文件共 %d 字节，不包含所请求的范围。", info.Size))
	case http.StatusPreconditionFailed:
		c.RefuseAs(fault.New(fault.Invalid, "PreconditionFailed", fault.T("The file is not the one that the request's conditions ask for.", "文件不符合请求中的条件。")), w.refused)
	case 0:
	default:
		return nil, fault.New(fault.Internal, "Internal", fault.T("The file could not be read.", "无法读取文件。"))
	}
	return nil, nil
}

// readable is an output that says why reading it ended early.
type readable interface {
	io.ReadSeekCloser
	Err() error
}

// asIs is an output that nobody verifies.
type asIs struct{ io.ReadSeekCloser }

func (asIs) Err() error { return nil }

func openOutput(ctx context.Context, b blob.Store, key string, unverified bool) (readable, blob.Info, error) {
	if unverified {
		r, info, err := b.Open(ctx, key)
		return asIs{r}, info, err
	}
	return sealed.Open(ctx, b, key)
}

// ranged holds back the library's own words about what cannot be served: refusals have one shape. The answer begins with
// its first byte, so that a file whose first bytes are bad is refused in words.
type ranged struct {
	rest.Patient
	refused int // status
	waiting int // status
}

func (w *ranged) WriteHeader(status int) {
	if status >= 400 {
		w.refused = status
		return
	}
	w.waiting = status
}

// begin sends the status, where there is one to send.
func (w *ranged) begin() {
	if w.waiting != 0 {
		w.Patient.WriteHeader(w.waiting)
		w.waiting = 0
	}
}

func (w *ranged) Write(b []byte) (int, error) {
	if w.refused != 0 {
		return len(b), nil
	}
	w.begin()
	return w.Patient.Write(b)
}

func noOutput(file string) error {
	return fault.New(fault.NotFound, "NoOutput", fault.T("The task left no file %q.", "任务没有产出文件 %q。", refuse.Clip(file, 256)))
}
