package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
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
		e := s.entry(c, c.route.verb, outcome)
		if outcome == "ok" {
			s.audit(ctx, e)
		} else {
			s.auditOften(ctx, c, e, "")
		}
	}
	wg.Wait()
}

// rememberRefusal writes that a call failed: of what changes something or reads what tasks left always, of
// other reads when the caller may not. Strangers are counted by where they come from.
func (s *Server) rememberRefusal(c *call, e *fault.Error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), historyPatience)
	defer cancel()
	switch {
	case c.who == nil && (e.Code == fault.Unauthenticated && e.Reason != errWho.Reason || e.Code == fault.Forbidden || e.Code == fault.TooMany):
		s.auditStranger(ctx, c, e.Reason)
	case e.Code == fault.Unauthenticated || e.Code == fault.TooMany:
	case c.route.look != "" && c.who != nil && !c.started && (e.Code == fault.Forbidden || e.Code == fault.NotFound):
		s.auditOften(ctx, c, s.entry(c, c.route.look, e.Reason), "")
	case c.route.verb == "" && c.who != nil && e.Code == fault.Forbidden:
		entry := s.entry(c, "read", e.Reason)
		entry.Detail = jsonText(map[string]any{"operation": c.route.id})
		s.auditOften(ctx, c, entry, "")
	default:
		s.remember(c, e.Reason)
	}
}

// rememberRead writes that the caller gets what a task left, before the first byte goes out; what names the
// part.
func (s *Server) rememberRead(c *call, what string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), historyPatience)
	defer cancel()
	e := s.entry(c, c.route.look, "ok")
	if what != "" {
		e.Detail = jsonText(map[string]any{"what": clip(what, 1024)})
	}
	s.auditOften(ctx, c, e, what)
}

// entry says who asked for what and how it ended.
func (s *Server) entry(c *call, verb, outcome string) history.AuditEntry {
	kind := c.note.kind
	if kind == "" {
		kind = c.route.kind
	}
	e := history.AuditEntry{
		Time: s.Clock.Now().UTC(), Verb: verb, Kind: kind, Project: c.note.project, Name: c.note.name, ID: c.note.id,
		Before: c.note.was, After: c.note.is, RemoteIP: c.ip, Request: c.request, Outcome: outcome,
	}
	if c.who != nil {
		e.Actor = c.who.name()
		if c.who.token.Spec.Use == api.UseSession {
			e.Session = c.who.token.Meta.ID
		} else {
			e.Token = c.who.token.Meta.ID
		}
	}
	return e
}

func (s *Server) audit(ctx context.Context, entries ...history.AuditEntry) {
	if err := s.History.AddAudit(ctx, entries...); err != nil {
		e := entries[0]
		s.Log.Error("an audit entry was not kept", "actor", e.Actor, "verb", e.Verb, "kind", e.Kind, "name", e.Name, "entries", len(entries), "error", err)
	}
}

// auditOften writes what a known caller may repeat at will: the first at once, those alike as a number.
func (s *Server) auditOften(ctx context.Context, c *call, e history.AuditEntry, sample string) {
	who, free := c.who.token.Meta.ID, 1
	if e.Outcome != "ok" {
		free = freeRefusals
	}
	key := strings.Join([]string{who, c.route.id, e.Verb, string(e.Kind), e.Project, e.Name, e.ID, e.Outcome}, "\x00")
	if s.often.count(key, who, free, e, sample) {
		s.audit(ctx, e)
	}
}

// auditStranger writes that nobody we know was refused. How many entries that makes does not depend on how
// often they try, nor from how many addresses.
func (s *Server) auditStranger(ctx context.Context, c *call, reason string) {
	verb := "authenticate"
	if c.route.open && c.route.verb != "" {
		verb = c.route.verb
	}
	e := s.entry(c, verb, reason)
	e.Kind, e.Project, e.Name, e.ID, e.Before, e.After = api.KindToken, "", clip(c.tried, 128), "", "", ""
	if c.tried != "" && verb == "authenticate" {
		if o, err := s.Store.Get(ctx, api.Key{Kind: api.KindToken, Name: c.tried}, 0); err == nil {
			e.ID = o.GetMeta().ID
		}
	}
	if s.strangers.count(strings.Join([]string{neighbourhood(c.ip), verb, reason}, "\x00"), "", 1, e, c.tried) {
		s.audit(ctx, e)
	}
}

func jsonText(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(data)
}
