package audit

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
	"github.com/fermi-cluster/fermi/internal/server/door"
	"github.com/fermi-cluster/fermi/internal/server/limit"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/truth"
)

const (
	historyPatience = 30 * time.Second
	maxAudited      = 64 << 10
)

// Auditor writes who asked for what and how it ended. Safe for concurrent use.
type Auditor struct {
	history   history.History
	truth     *truth.Truth
	hide      func(api.Object) api.Object // takes out what nobody may see
	log       *slog.Logger
	clock     clock.Clock
	strangers *tally // what nobody we know was refused
	often     *tally // refusals of known callers, and reads
	waiting   waiting
}

func New(h history.History, t *truth.Truth, hide func(api.Object) api.Object, log *slog.Logger, c clock.Clock) *Auditor {
	return &Auditor{
		history: h, truth: t, hide: hide, log: log, clock: c,
		strangers: newTally(c, strangersEvery, strangersKept), often: newTally(c, oftenEvery, oftenKept),
	}
}

// audited is an object as the audit keeps it: without secrets, and of bounded size.
func (a *Auditor) audited(o api.Object) string {
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

// Remember writes the events of a call and its audit, at the same time, so that they share a
// commit of the history. The change itself has been committed: a failure here is logged, and not
// told to the caller.
func (a *Auditor) Remember(c *rest.Call, outcome string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.R.Context()), historyPatience)
	defer cancel()
	var wg sync.WaitGroup
	if len(c.Note.Told) > 0 {
		wg.Go(func() {
			if err := a.history.AddEvents(ctx, c.Note.Told...); err != nil {
				a.log.Error("events were not kept", "object", c.Note.Name, "reason", c.Note.Told[0].Reason, "error", err)
			}
		})
	}
	if c.Route.Changes() && !c.Note.Skip && c.Who != nil {
		e := a.entry(c, c.Route.Verb, outcome)
		if outcome == "ok" {
			a.write(ctx, e)
		} else {
			a.writeOften(ctx, c, e, "")
		}
	}
	wg.Wait()
}

// RememberRefusal writes that a call failed: of what changes something or reads what tasks left always, of
// other reads when the caller may not. Strangers are counted by where they come from.
func (a *Auditor) RememberRefusal(c *rest.Call, e *fault.Error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.R.Context()), historyPatience)
	defer cancel()
	switch {
	case c.Who == nil && (e.Code == fault.Unauthenticated && e.Reason != door.ErrWho.Reason || e.Code == fault.Forbidden || e.Code == fault.TooMany):
		a.writeStranger(ctx, c, e.Reason)
	case e.Code == fault.Unauthenticated || e.Code == fault.TooMany:
	case c.Route.Look && c.Who != nil && !c.Begun() && (e.Code == fault.Forbidden || e.Code == fault.NotFound):
		a.writeOften(ctx, c, a.entry(c, c.Route.Verb, e.Reason), "")
	case !c.Route.Changes() && c.Who != nil && e.Code == fault.Forbidden:
		entry := a.entry(c, "read", e.Reason)
		entry.Detail = rest.JSONText(map[string]any{"operation": c.Route.ID})
		a.writeOften(ctx, c, entry, "")
	default:
		a.Remember(c, e.Reason)
	}
}

// RememberRead writes that the caller gets what a task left, before the first byte goes out; what names the
// part.
func (a *Auditor) RememberRead(c *rest.Call, what string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.R.Context()), historyPatience)
	defer cancel()
	e := a.entry(c, c.Route.Verb, "ok")
	if what != "" {
		e.Detail = rest.JSONText(map[string]any{"what": refuse.Clip(what, 1024)})
	}
	a.writeOften(ctx, c, e, what)
}

// RememberVisit writes that somebody came who is known by a link alone, which is what.
func (a *Auditor) RememberVisit(c *rest.Call, what string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.R.Context()), historyPatience)
	defer cancel()
	e := a.entry(c, c.Route.Verb, "ok")
	e.Detail = rest.JSONText(map[string]any{"what": refuse.Clip(what, 1024)})
	if a.often.count(strings.Join([]string{what, c.Route.ID, e.ID, e.RemoteIP}, "\x00"), what, 1, e, what) {
		a.write(ctx, e)
	}
}

// entry says who asked for what and how it ended.
func (a *Auditor) entry(c *rest.Call, verb, outcome string) history.AuditEntry {
	kind := c.Note.Kind
	if kind == "" {
		kind = c.Route.Kind
	}
	e := history.AuditEntry{
		Time: a.clock.Now().UTC(), Verb: verb, Kind: kind, Project: c.Note.Project, Name: c.Note.Name, ID: c.Note.ID,
		Before: a.audited(c.Note.Was), After: cmp.Or(c.Note.What, a.audited(c.Note.Is)), RemoteIP: c.IP, Request: c.Request, Outcome: outcome,
	}
	if c.Who != nil {
		e.Actor = c.Who.Name()
		if c.Who.Token.Spec.Use == api.UseSession {
			e.Session = c.Who.Token.Meta.ID
		} else {
			e.Token = c.Who.Token.Meta.ID
		}
	}
	return e
}

// write keeps entries; those that find no room now are written when there is some.
func (a *Auditor) write(ctx context.Context, entries ...history.AuditEntry) {
	if err := a.history.AddAudit(ctx, entries...); err != nil {
		e := entries[0]
		if a.waiting.add(entries) {
			a.log.Warn("an audit entry can't be kept now; it is written later", "actor", e.Actor, "verb", e.Verb, "kind", e.Kind, "name", e.Name, "entries", len(entries), "error", err)
			return
		}
		a.log.Error("an audit entry was not kept", "actor", e.Actor, "verb", e.Verb, "kind", e.Kind, "name", e.Name, "entries", len(entries), "error", err)
	}
}

// writeOften writes what a known caller may repeat at will: the first at once, those alike as a number.
func (a *Auditor) writeOften(ctx context.Context, c *rest.Call, e history.AuditEntry, sample string) {
	who, free := c.Who.Token.Meta.ID, 1
	if e.Outcome != "ok" {
		free = FreeRefusals
	}
	key := strings.Join([]string{who, c.Route.ID, e.Verb, string(e.Kind), e.Project, e.Name, e.ID, e.Outcome}, "\x00")
	if a.often.count(key, who, free, e, sample) {
		a.write(ctx, e)
	}
}

// writeStranger writes that nobody we know was refused. How many entries that makes does not depend on how
// often they try, nor from how many addresses.
func (a *Auditor) writeStranger(ctx context.Context, c *rest.Call, reason string) {
	verb := "authenticate"
	if c.Route.Open && c.Route.Verb != "" {
		verb = c.Route.Verb
	}
	e := a.entry(c, verb, reason)
	e.Kind, e.Project, e.Name, e.ID, e.Before, e.After = api.KindToken, "", refuse.Clip(c.Tried, 128), "", "", ""
	if c.Tried != "" && verb == "authenticate" {
		if o, err := a.truth.Get(ctx, api.Key{Kind: api.KindToken, Name: c.Tried}, 0); err == nil {
			e.ID = o.GetMeta().ID
		}
	}
	if a.strangers.count(strings.Join([]string{limit.Neighbourhood(c.IP), verb, reason}, "\x00"), "", 1, e, c.Tried) {
		a.write(ctx, e)
	}
}
