package server

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/history"
)

const plantedValue = "plAnted-audit-value-0815"

func (m *matrix) person(name string) *person {
	m.t.Helper()
	i := slices.IndexFunc(m.people, func(p *person) bool { return p.name == name })
	if i < 0 {
		m.t.Fatalf("nobody is called %s", name)
	}
	return m.people[i]
}

// change is what a person asks of a route, with a secret in it where there can be one.
func (m *matrix) change(rt *route, p *person) ask {
	m.t.Helper()
	if rt.id == "signIn" {
		return ask{rt.path, map[string]string{"user": p.name, "password": testPassword}, true}
	}
	a := m.asks(rt, p)[0]
	switch body := a.body.(type) {
	case string:
		a.body = strings.Replace(body, `"k":"v"`, `"k":"`+plantedValue+`"`, 1)
	case *api.Secret:
		body.Spec.Data = map[string]string{"k": plantedValue}
	}
	return a
}

// since are the audit's entries after seq, oldest first.
func (m *matrix) since(seq int64) []history.AuditEntry {
	m.t.Helper()
	rows, err := m.history.ListAudit(m.t.Context(), history.AuditQuery{Limit: 20})
	must(m.t, err)
	slices.Reverse(rows)
	return slices.DeleteFunc(rows, func(e history.AuditEntry) bool { return e.Seq <= seq })
}

func (m *matrix) newestSeq() int64 {
	m.t.Helper()
	rows, err := m.history.ListAudit(m.t.Context(), history.AuditQuery{Limit: 1})
	must(m.t, err)
	if len(rows) == 0 {
		return 0
	}
	return rows[0].Seq
}

// TestAuditOfEveryChange walks the table of routes: whatever is not a GET writes exactly one entry,
// with who, what, before and after, and without any secret; and one that is refused writes why.
func TestAuditOfEveryChange(t *testing.T) {
	m := newMatrix(t)
	changes, refusals := 0, 0
	for _, rt := range m.server.face.routes {
		if rt.method == http.MethodGet {
			if rt.changes() {
				t.Errorf("%s reads, and yet is audited as %s", rt.id, rt.verb)
			}
			continue
		}
		if asking[rt.id] {
			continue
		}
		if !rt.changes() {
			t.Errorf("%s %s (%s) changes something and is not audited", rt.method, rt.path, rt.id)
			continue
		}
		changes++
		m.auditOfChange(rt)
		if m.auditOfRefusal(rt) {
			refusals++
		}
	}
	t.Logf("audit: %d changing routes of %d, each with actor, before and after; %d refusals with their reason", changes, len(m.server.face.routes), refusals)
}

func (m *matrix) auditOfChange(rt *route) {
	m.t.Helper()
	p := m.person("admin-in")
	if rt.id == "signOut" || rt.id == "signIn" {
		p = m.person("admin-in-web")
		m.cookieOf(p) // its sign-in is an entry of its own
	}
	a := m.change(rt, p)
	start := m.newestSeq()
	var got answerOf
	if rt.id == "signIn" {
		got = m.do(rt.method, a.path, "", a.body)
	} else {
		got = m.try(rt, p, a)
	}
	rows := m.since(start)
	if got.status != 200 || len(rows) != 1 {
		m.t.Errorf("%s %s: %d %s, and %d entries: %.300s", rt.method, a.path, got.status, got.Reason, len(rows), got.raw)
		return
	}
	e := rows[0]
	if e.Actor != p.name || e.Verb != rt.verb || e.Kind != rt.kind || e.Outcome != "ok" || e.RemoteIP == "" || e.Time.IsZero() || e.Name == "" && rt.verb != "backup" {
		m.t.Errorf("%s: %+v", rt.id, e)
	}
	m.beforeAndAfter(rt, e)
	m.noSecrets(rt, got, e)
}

// beforeAndAfter: what is made has no before, what is gone no after, and what changed has both, which
// differ. A task that is deleted stays until its work has ended.
func (m *matrix) beforeAndAfter(rt *route, e history.AuditEntry) {
	m.t.Helper()
	before, after := true, true
	switch rt.verb {
	case "create", "clone", "upload", "sign-in", "rotate":
		before = false
	case "delete", "sign-out":
		after = rt.kind == api.KindTrainingTask
	case "backup":
		before, after = false, false
	}
	if (e.Before != "") != before || (e.After != "") != after || before && e.Before == e.After {
		m.t.Errorf("%s: before %.200q, after %.200q", rt.id, e.Before, e.After)
	}
	for _, text := range []string{e.Before, e.After} {
		var o struct {
			Metadata struct{ Name, ID string }
			Size     int64
			Keys     []string
		}
		if text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(text), &o); err != nil || o.Size == 0 && len(o.Keys) == 0 && (o.Metadata.Name != e.Name || o.Metadata.ID != e.ID) {
			m.t.Errorf("%s: %v: %.200q is not about %s %s", rt.id, err, text, e.Name, e.ID)
		}
	}
	if rt.verb == "update" && (strings.Contains(e.Before, `"changed"`) || !strings.Contains(e.After, `"changed"`)) {
		m.t.Errorf("%s: the change is not seen: before %.200q, after %.200q", rt.id, e.Before, e.After)
	}
}

// noSecrets: neither what was given nor what was answered as a secret is in the entry, nor a hash.
func (m *matrix) noSecrets(rt *route, got answerOf, e history.AuditEntry) {
	m.t.Helper()
	var shown struct{ Secret, Code string }
	_ = json.Unmarshal(got.Data, &shown) // where it is no such object there is none
	// Names of fields with their quote: an id may well spell "hash".
	for _, text := range []string{e.Before, e.After, e.Name, e.Outcome} {
		for _, hidden := range []string{plantedValue, testPassword, shown.Secret, shown.Code, "argon2id", `"sealed`, `"hash`} {
			if hidden != "" && strings.Contains(text, hidden) {
				m.t.Errorf("%s: the audit holds %q: %s", rt.id, hidden, text)
			}
		}
	}
}

// auditOfRefusal asks as somebody who may not: the entry says who, and why not. False where
// everybody may.
func (m *matrix) auditOfRefusal(rt *route) bool {
	m.t.Helper()
	p := m.person("viewer-out")
	a := m.change(rt, p)
	if m.allowed(p, rt, a.yours) {
		return false
	}
	start := m.newestSeq()
	got := m.try(rt, p, a)
	rows := m.since(start)
	if len(rows) != 1 || rows[0].Actor != p.name || rows[0].Verb != rt.verb || rows[0].Outcome != got.Reason || got.Reason == "" || rows[0].After != "" {
		m.t.Errorf("%s refused with %d %s: %+v", rt.id, got.status, got.Reason, rows)
	}
	return true
}
