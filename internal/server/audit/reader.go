package audit

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/stream"
	"github.com/fermi-cluster/fermi/internal/server/truth"
)

type Audits struct {
	Items []history.AuditEntry `json:"items"`
	Next  int64                `json:"next,omitempty" doc:"Give it as before for older ones."`
}

// An export is JSON lines: a first one that says where the chain begins, the entries, oldest first, and a last
// one that says where it ends. Without the last one the export was cut off.
type Begin struct {
	Audit   string          `json:"audit" doc:"begin"`
	Anchor  api.AuditAnchor `json:"anchor"`
	Partial bool            `json:"partial,omitempty" doc:"Entries were left out: the export holds some only."`
}

type End struct {
	Audit string        `json:"audit" doc:"end"`
	Head  api.AuditHead `json:"head" doc:"The newest entry when the export began."`
}

const (
	MediaLines = "application/x-ndjson"
	// Page bounds what an export holds in memory: an entry may have 128 KiB.
	Page = 100
)

// Reader serves the audit.
type Reader struct {
	auditor *Auditor
	truth   *truth.Truth
	streams *stream.Streams
}

// NewReader needs the streams, because an export ends with its token.
func NewReader(a *Auditor, t *truth.Truth, st *stream.Streams) *Reader {
	return &Reader{auditor: a, truth: t, streams: st}
}

// Routes are the audit's; kinds is the parameter that names one.
func (s *Reader) Routes(reg *rest.Schemas, kinds rest.Param) []*rest.Route {
	kinds.Enum = append(slices.Clone(kinds.Enum), "Archive", "Backup", "Audit")
	filters := []rest.Param{
		{Name: "project", Doc: "Only of this project."}, {Name: "actor", Doc: "Only of this user."}, {Name: "verb"}, kinds, {Name: "name", Doc: "Of the object."},
		{Name: "outcome", Doc: "ok, refused (whatever is not ok), or a reason."}, {Name: "ip", Doc: "Remote address."},
		{Name: "token", Doc: "Id of a token or a session."}, {Name: "request", Doc: "Id of a request."},
		{Name: "since", Form: rest.FormTime, Doc: "RFC 3339, or a span back from now such as 24h."}, {Name: "until", Form: rest.FormTime, Doc: "As since; what is later is left out."},
	}
	return []*rest.Route{
		{
			Method: http.MethodGet, Path: rest.Prefix + "/audit", ID: "listAudit", Summary: "Who asked for what, newest first; for admins, and for owners of a project what concerns it.", Tag: "audit",
			Query: append([]rest.Param{{Name: "before", Form: rest.FormInt, Doc: "Only those older than this seq."}, {Name: "limit", Form: rest.FormInt, Min: 1, Max: 1000, Fallback: "100"}}, filters...),
			Data:  rest.SchemaOf[Audits](reg), Handle: s.list,
		},
		{
			Method: http.MethodGet, Path: rest.Prefix + "/audit/export", ID: "exportAudit", Summary: "The same as JSON lines, oldest first, with the chain's beginning and end; see docs/reference/audit.md.", Tag: "audit",
			Query: filters, Media: MediaLines, Verb: "export", Look: true, Kind: "Audit", Handle: s.export,
		},
	}
}

// query is what the caller asks for, within what it may see; partial says that something is left out.
func (s *Reader) query(ctx context.Context, c *rest.Call) (q history.AuditQuery, partial bool, err error) {
	now := s.auditor.clock.Now()
	q = history.AuditQuery{
		Actor: c.Query.Text("actor"), Verb: c.Query.Text("verb"), Kind: api.Kind(c.Query.Text("kind")), Name: c.Query.Text("name"), Outcome: c.Query.Text("outcome"),
		RemoteIP: c.Query.Text("ip"), Token: c.Query.Text("token"), Request: c.Query.Text("request"), Since: c.Query.Moment("since", now), Until: c.Query.Moment("until", now),
	}
	for _, name := range []string{"project", "actor", "verb", "kind", "name", "outcome", "ip", "token", "request", "since", "until"} {
		partial = partial || c.Query.Has(name)
	}
	project := c.Query.Text("project")
	if project != "" {
		q.Projects = []string{project}
	}
	if c.Who.Reach(c.Route.ID) == access.All {
		return q, partial, nil
	}
	snap, err := s.truth.List(ctx, api.KindProject, "", 0)
	if err != nil {
		return q, false, err
	}
	var owned []string
	snap.Ascend("", func(o api.Object) bool {
		if p := o.(*api.Project); slices.Contains(p.Spec.Owners, c.Who.Name()) {
			owned = append(owned, p.Meta.Name)
		}
		return true
	})
	switch {
	case len(owned) == 0:
		return q, false, access.NotAllowed(c.Who)
	case project == "":
		q.Projects = owned
	case !slices.Contains(owned, project):
		return q, false, fault.New(fault.Forbidden, "NotOwner", fault.T(
			"The project %q does not exist, or you are not an owner of it.", "项目 %q 不存在，或您不是其负责人。", refuse.Clip(project, 64)))
	}
	return q, true, nil
}

func (s *Reader) list(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	q, _, err := s.query(ctx, c)
	if err != nil {
		return nil, err
	}
	q.Before, q.Limit = c.Query.Number("before"), int(c.Query.Number("limit"))
	rows, err := s.auditor.history.ListAudit(ctx, q)
	if err != nil {
		return nil, err
	}
	out := Audits{Items: rows}
	if out.Items == nil {
		out.Items = []history.AuditEntry{}
	}
	if len(rows) == q.Limit {
		out.Next = rows[len(rows)-1].Seq
	}
	return &rest.Reply{Data: out}, nil
}

// export sends what was there when it began, a page at a time.
func (s *Reader) export(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	q, partial, err := s.query(ctx, c)
	if err != nil {
		return nil, err
	}
	head, err := s.auditor.history.AuditHead(ctx)
	if err != nil {
		return nil, err
	}
	c.Note.Project = strings.Join(q.Projects, ",")
	s.auditor.RememberRead(c, c.R.URL.RawQuery)
	h := c.W.Header()
	h.Set("Content-Type", MediaLines)
	h.Set("Content-Disposition", rest.Attachment(fmt.Sprintf("fermi-audit-%s.jsonl", s.auditor.clock.Now().UTC().Format("20060102-150405"))))
	defer s.streams.Guard(ctx, c, nil)()
	w := c.Patient()
	send := func(v any) error {
		line, err := rest.Encode(v)
		if err == nil {
			_, err = w.Write(line)
		}
		return err
	}
	if err := send(Begin{"begin", head.Anchor, partial}); err != nil {
		return nil, err
	}
	q.Oldest, q.Limit = true, Page
	for more := true; more; {
		rows, err := s.auditor.history.ListAudit(ctx, q)
		if err != nil {
			return nil, err // the connection is cut: a short export must not look whole
		}
		more = len(rows) == Page
		for _, e := range rows {
			if e.Number > head.Number {
				more = false
				break
			}
			if err := send(e); err != nil {
				return nil, err
			}
			q.After = e.Seq
		}
	}
	return nil, send(End{"end", head})
}
