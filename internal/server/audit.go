package server

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/history"
)

const (
	historyPatience = 30 * time.Second
	maxAudited      = 64 << 10
)

// note is what the audit will say about a call.
type note struct {
	kind              api.Kind
	project, name, id string
	was, is           string // JSON
	skip              bool
}

func (n *note) about(o api.Object) {
	m := o.GetMeta()
	n.kind, n.project, n.name, n.id = o.Kind(), clip(m.Project, 128), clip(m.Name, 128), m.ID
}

func (n *note) before(o api.Object) { n.about(o); n.was = audited(o) }
func (n *note) after(o api.Object)  { n.about(o); n.is = audited(o) }

// audited is an object as the audit keeps it: without secrets, and of bounded size.
func audited(o api.Object) string {
	data, err := json.Marshal(hide(o))
	if err != nil {
		return `{"unreadable":true}`
	}
	if len(data) > maxAudited {
		return fmt.Sprintf(`{"truncated":true,"bytes":%d}`, len(data))
	}
	return string(data)
}

// remember writes the events of a call and its audit, at the same time, so that they share a
// commit of the history. The change itself has been committed: a failure here is logged, and not
// told to the caller.
func (s *Server) remember(c *call, outcome string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), historyPatience)
	defer cancel()
	var wg sync.WaitGroup
	if len(c.told) > 0 {
		wg.Go(func() {
			if err := s.History.AddEvents(ctx, c.told...); err != nil {
				s.Log.Error("events were not kept", "object", c.note.name, "reason", c.told[0].Reason, "error", err)
			}
		})
	}
	if c.route.verb != "" && !c.note.skip && c.who != nil {
		s.audit(ctx, c, outcome)
	}
	wg.Wait()
}

// audit writes who asked for what and how it ended.
func (s *Server) audit(ctx context.Context, c *call, outcome string) {
	kind := c.note.kind
	if kind == "" {
		kind = c.route.kind
	}
	err := s.History.AddAudit(ctx, history.AuditEntry{
		Time: s.Clock.Now().UTC(), Actor: c.who.name(), Verb: c.route.verb, Kind: kind, Project: c.note.project,
		Name: c.note.name, ID: c.note.id, Before: c.note.was, After: c.note.is, RemoteIP: c.ip, Outcome: outcome,
	})
	if err != nil {
		s.Log.Error("an audit entry was not kept", "actor", c.who.name(), "verb", c.route.verb, "kind", kind, "name", c.note.name, "error", err)
	}
}

type audits struct {
	Items []history.AuditEntry `json:"items"`
	Next  int64                `json:"next,omitempty" doc:"Give it as before for older ones."`
}

func (s *Server) listAudit(ctx context.Context, c *call) (*reply, error) {
	limit := int(c.q.number("limit"))
	rows, err := s.History.ListAudit(ctx, c.q.number("before"), limit)
	if err != nil {
		return nil, err
	}
	out := audits{Items: rows}
	if out.Items == nil {
		out.Items = []history.AuditEntry{}
	}
	if len(rows) == limit {
		out.Next = rows[len(rows)-1].Seq
	}
	return &reply{data: out}, nil
}
