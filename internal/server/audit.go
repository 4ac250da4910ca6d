package server

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
)

const (
	historyPatience = 30 * time.Second
	maxAudited      = 64 << 10
)

// auditor writes who asked for what and how it ended. Safe for concurrent use.
type auditor struct {
	history   history.History
	truth     *truth
	hide      func(api.Object) api.Object // takes out what nobody may see
	log       *slog.Logger
	clock     clock.Clock
	strangers *tally // what nobody we know was refused
	often     *tally // refusals of known callers, and reads
}

func newAuditor(h history.History, t *truth, hide func(api.Object) api.Object, log *slog.Logger, c clock.Clock) *auditor {
	return &auditor{
		history: h, truth: t, hide: hide, log: log, clock: c,
		strangers: newTally(c, strangersEvery, strangersKept), often: newTally(c, oftenEvery, oftenKept),
	}
}

// audited is an object as the audit keeps it: without secrets, and of bounded size.
func (a *auditor) audited(o api.Object) string {
	if o == nil {
		return ""
	}
	data, err := json.Marshal(a.hide(o))
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
func (a *auditor) remember(c *call, outcome string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), historyPatience)
	defer cancel()
	var wg sync.WaitGroup
	if len(c.note.told) > 0 {
		wg.Go(func() {
			if err := a.history.AddEvents(ctx, c.note.told...); err != nil {
				a.log.Error("events were not kept", "object", c.note.name, "reason", c.note.told[0].Reason, "error", err)
			}
		})
	}
	if c.route.changes() && !c.note.skip && c.who != nil {
		e := a.entry(c, c.route.verb, outcome)
		if outcome == "ok" {
			a.write(ctx, e)
		} else {
			a.writeOften(ctx, c, e, "")
		}
	}
	wg.Wait()
}

// rememberRefusal writes that a call failed: of what changes something or reads what tasks left always, of
// other reads when the caller may not. Strangers are counted by where they come from.
func (a *auditor) rememberRefusal(c *call, e *fault.Error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), historyPatience)
	defer cancel()
	switch {
	case c.who == nil && (e.Code == fault.Unauthenticated && e.Reason != errWho.Reason || e.Code == fault.Forbidden || e.Code == fault.TooMany):
		a.writeStranger(ctx, c, e.Reason)
	case e.Code == fault.Unauthenticated || e.Code == fault.TooMany:
	case c.route.look && c.who != nil && !c.begun() && (e.Code == fault.Forbidden || e.Code == fault.NotFound):
		a.writeOften(ctx, c, a.entry(c, c.route.verb, e.Reason), "")
	case !c.route.changes() && c.who != nil && e.Code == fault.Forbidden:
		entry := a.entry(c, "read", e.Reason)
		entry.Detail = jsonText(map[string]any{"operation": c.route.id})
		a.writeOften(ctx, c, entry, "")
	default:
		a.remember(c, e.Reason)
	}
}

// rememberRead writes that the caller gets what a task left, before the first byte goes out; what names the
// part.
func (a *auditor) rememberRead(c *call, what string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), historyPatience)
	defer cancel()
	e := a.entry(c, c.route.verb, "ok")
	if what != "" {
		e.Detail = jsonText(map[string]any{"what": clip(what, 1024)})
	}
	a.writeOften(ctx, c, e, what)
}

// entry says who asked for what and how it ended.
func (a *auditor) entry(c *call, verb, outcome string) history.AuditEntry {
	kind := c.note.kind
	if kind == "" {
		kind = c.route.kind
	}
	e := history.AuditEntry{
		Time: a.clock.Now().UTC(), Verb: verb, Kind: kind, Project: c.note.project, Name: c.note.name, ID: c.note.id,
		Before: a.audited(c.note.was), After: cmp.Or(c.note.what, a.audited(c.note.is)), RemoteIP: c.ip, Request: c.request, Outcome: outcome,
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

func (a *auditor) write(ctx context.Context, entries ...history.AuditEntry) {
	if err := a.history.AddAudit(ctx, entries...); err != nil {
		e := entries[0]
		a.log.Error("an audit entry was not kept", "actor", e.Actor, "verb", e.Verb, "kind", e.Kind, "name", e.Name, "entries", len(entries), "error", err)
	}
}

// writeOften writes what a known caller may repeat at will: the first at once, those alike as a number.
func (a *auditor) writeOften(ctx context.Context, c *call, e history.AuditEntry, sample string) {
	who, free := c.who.token.Meta.ID, 1
	if e.Outcome != "ok" {
		free = freeRefusals
	}
	key := strings.Join([]string{who, c.route.id, e.Verb, string(e.Kind), e.Project, e.Name, e.ID, e.Outcome}, "\x00")
	if a.often.count(key, who, free, e, sample) {
		a.write(ctx, e)
	}
}

// writeStranger writes that nobody we know was refused. How many entries that makes does not depend on how
// often they try, nor from how many addresses.
func (a *auditor) writeStranger(ctx context.Context, c *call, reason string) {
	verb := "authenticate"
	if c.route.open && c.route.verb != "" {
		verb = c.route.verb
	}
	e := a.entry(c, verb, reason)
	e.Kind, e.Project, e.Name, e.ID, e.Before, e.After = api.KindToken, "", clip(c.tried, 128), "", "", ""
	if c.tried != "" && verb == "authenticate" {
		if o, err := a.truth.Get(ctx, api.Key{Kind: api.KindToken, Name: c.tried}, 0); err == nil {
			e.ID = o.GetMeta().ID
		}
	}
	if a.strangers.count(strings.Join([]string{neighbourhood(c.ip), verb, reason}, "\x00"), "", 1, e, c.tried) {
		a.write(ctx, e)
	}
}

func jsonText(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(data)
}
