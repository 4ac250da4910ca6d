package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
)

type audits struct {
	Items []history.AuditEntry `json:"items"`
	Next  int64                `json:"next,omitempty" doc:"Give it as before for older ones."`
}

// An export is JSON lines: a first one that says where the chain begins, the entries, oldest first, and a last
// one that says where it ends. Without the last one the export was cut off.
type auditBegin struct {
	Audit   string          `json:"audit" doc:"begin"`
	Anchor  api.AuditAnchor `json:"anchor"`
	Partial bool            `json:"partial,omitempty" doc:"Entries were left out: the export holds some only."`
}

type auditEnd struct {
	Audit string        `json:"audit" doc:"end"`
	Head  api.AuditHead `json:"head" doc:"The newest entry when the export began."`
}

const (
	mediaLines = "application/x-ndjson"
	// auditPage bounds what an export holds in memory: an entry may have 128 KiB.
	auditPage = 100
)

// auditReader serves the audit.
type auditReader struct {
	auditor *auditor
	truth   *truth
	streams *streams
}

// newAuditReader needs the streams, because an export ends with its token.
func newAuditReader(a *auditor, t *truth, st *streams) *auditReader {
	return &auditReader{auditor: a, truth: t, streams: st}
}

// routes are the audit's; kinds is the parameter that names one.
func (s *auditReader) routes(reg *schemas, kinds param) []*route {
	kinds.enum = append(slices.Clone(kinds.enum), "Archive", "Backup", "Audit")
	filters := []param{
		{name: "project", doc: "Only of this project."}, {name: "actor", doc: "Only of this user."}, {name: "verb"}, kinds, {name: "name", doc: "Of the object."},
		{name: "outcome", doc: "ok, refused (whatever is not ok), or a reason."}, {name: "ip", doc: "Remote address."},
		{name: "token", doc: "Id of a token or a session."}, {name: "request", doc: "Id of a request."},
		{name: "since", form: formTime, doc: "RFC 3339, or a span back from now such as 24h."}, {name: "until", form: formTime, doc: "As since; what is later is left out."},
	}
	return []*route{
		{
			method: http.MethodGet, path: prefix + "/audit", id: "listAudit", summary: "Who asked for what, newest first; for admins, and for owners of a project what concerns it.", tag: "audit",
			query: append([]param{{name: "before", form: formInt, doc: "Only those older than this seq."}, {name: "limit", form: formInt, min: 1, max: 1000, fallback: "100"}}, filters...),
			data:  schemaOf[audits](reg), handle: s.list,
		},
		{
			method: http.MethodGet, path: prefix + "/audit/export", id: "exportAudit", summary: "The same as JSON lines, oldest first, with the chain's beginning and end; see docs/reference/audit.md.", tag: "audit",
			query: filters, media: mediaLines, verb: "export", look: true, kind: "Audit", handle: s.export,
		},
	}
}

// query is what the caller asks for, within what it may see; partial says that something is left out.
func (s *auditReader) query(ctx context.Context, c *call) (q history.AuditQuery, partial bool, err error) {
	now := s.auditor.clock.Now()
	q = history.AuditQuery{
		Actor: c.q.text("actor"), Verb: c.q.text("verb"), Kind: api.Kind(c.q.text("kind")), Name: c.q.text("name"), Outcome: c.q.text("outcome"),
		RemoteIP: c.q.text("ip"), Token: c.q.text("token"), Request: c.q.text("request"), Since: c.q.moment("since", now), Until: c.q.moment("until", now),
	}
	for _, name := range []string{"project", "actor", "verb", "kind", "name", "outcome", "ip", "token", "request", "since", "until"} {
		partial = partial || c.q.has(name)
	}
	project := c.q.text("project")
	if project != "" {
		q.Projects = []string{project}
	}
	if c.who.reach(c.route.id) == all {
		return q, partial, nil
	}
	snap, err := s.truth.List(ctx, api.KindProject, "", 0)
	if err != nil {
		return q, false, err
	}
	var owned []string
	snap.Ascend("", func(o api.Object) bool {
		if p := o.(*api.Project); slices.Contains(p.Spec.Owners, c.who.name()) {
			owned = append(owned, p.Meta.Name)
		}
		return true
	})
	switch {
	case len(owned) == 0:
		return q, false, notAllowed(c.who)
	case project == "":
		q.Projects = owned
	case !slices.Contains(owned, project):
		return q, false, fault.New(fault.Forbidden, "NotOwner", fault.T(
			"The project %q does not exist, or you are not an owner of it.", "项目 %q 不存在，或您不是其负责人。", clip(project, 64)))
	}
	return q, true, nil
}

func (s *auditReader) list(ctx context.Context, c *call) (*reply, error) {
	q, _, err := s.query(ctx, c)
	if err != nil {
		return nil, err
	}
	q.Before, q.Limit = c.q.number("before"), int(c.q.number("limit"))
	rows, err := s.auditor.history.ListAudit(ctx, q)
	if err != nil {
		return nil, err
	}
	out := audits{Items: rows}
	if out.Items == nil {
		out.Items = []history.AuditEntry{}
	}
	if len(rows) == q.Limit {
		out.Next = rows[len(rows)-1].Seq
	}
	return &reply{data: out}, nil
}

// export sends what was there when it began, a page at a time.
func (s *auditReader) export(ctx context.Context, c *call) (*reply, error) {
	q, partial, err := s.query(ctx, c)
	if err != nil {
		return nil, err
	}
	head, err := s.auditor.history.AuditHead(ctx)
	if err != nil {
		return nil, err
	}
	c.note.project = strings.Join(q.Projects, ",")
	s.auditor.rememberRead(c, c.r.URL.RawQuery)
	h := c.w.Header()
	h.Set("Content-Type", mediaLines)
	h.Set("Content-Disposition", attachment(fmt.Sprintf("fermi-audit-%s.jsonl", s.auditor.clock.Now().UTC().Format("20060102-150405"))))
	defer s.streams.guard(ctx, c, nil)()
	w := patient{c}
	send := func(v any) error {
		line, err := encode(v)
		if err == nil {
			_, err = w.Write(line)
		}
		return err
	}
	if err := send(auditBegin{"begin", head.Anchor, partial}); err != nil {
		return nil, err
	}
	q.Oldest, q.Limit = true, auditPage
	for more := true; more; {
		rows, err := s.auditor.history.ListAudit(ctx, q)
		if err != nil {
			return nil, err // the connection is cut: a short export must not look whole
		}
		more = len(rows) == auditPage
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
	return nil, send(auditEnd{"end", head})
}
