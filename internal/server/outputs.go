package server

import (
	"context"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// outputs serves the files that tasks left.
type outputs struct {
	*desk
	blob    blob.Store
	streams *streams
	auditor *auditor
}

func newOutputs(d *desk, b blob.Store, st *streams, a *auditor) *outputs {
	return &outputs{desk: d, blob: b, streams: st, auditor: a}
}

// routes are about the files of a task.
func (s *outputs) routes(reg *schemas) []*route {
	both := []param{paramProject, paramRevision}
	bytesOf := readRoute("outputs/{path...}", "readTaskOutput", "The bytes of one output; ranges are served.", both, nil, s.read)
	bytesOf.media, bytesOf.verb, bytesOf.look = "application/octet-stream", "read-output", true
	return []*route{
		readRoute("outputs", "listTaskOutputs", "The files the task left.", append([]param{
			{name: "limit", form: formInt, min: 1, max: 10000, fallback: "10000"}, {name: "cursor", doc: "next of the page before."},
		}, both...), page(schemaOf[outputFile](reg)), s.list),
		bytesOf,
	}
}

type outputFile struct {
	Path     string    `json:"path" doc:"role-index/…"`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
}

type outputFiles struct {
	Items []outputFile `json:"items"`
	Next  string       `json:"next,omitempty"`
}

func (s *outputs) list(ctx context.Context, c *call) (*reply, error) {
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
	infos, err := s.blob.List(ctx, under, after, limit)
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

// read serves bytes that a user made. They never act in the console's name: always a
// download, never sniffed, never a document.
func (s *outputs) read(ctx context.Context, c *call) (*reply, error) {
	_, task, err := s.task(ctx, c)
	if err != nil {
		return nil, err
	}
	file := c.r.PathValue("path")
	key := "outputs/" + task.Meta.ID + "/" + file
	if blob.CheckKey(key) != nil {
		return nil, noOutput(file)
	}
	r, info, err := s.blob.Open(ctx, key)
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
	defer s.streams.guard(ctx, c, task)()
	s.auditor.rememberRead(c, file)
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

func noOutput(file string) error {
	return fault.New(fault.NotFound, "NoOutput", fault.T("The task left no file %q.", "任务没有产出文件 %q。", clip(file, 256)))
}
