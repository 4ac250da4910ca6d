package server

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/server/rest"
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
func (m *matrix) change(rt *rest.Route, p *person) ask {
	m.t.Helper()
	if rt.ID == "signIn" {
		return ask{rt.Path, map[string]string{"user": p.name, "password": testPassword}, true}
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
		if rt.Method == http.MethodGet {
			if rt.Changes() {
				t.Errorf("%s reads, and yet is audited as %s", rt.ID, rt.Verb)
			}
			continue
		}
		if asking[rt.ID] || rt.Verb == "put-chunk" || rt.Verb == "begin-upload" { // the version that comes of them is what is written down
			continue
		}
		if !rt.Changes() {
			t.Errorf("%s %s (%s) changes something and is not audited", rt.Method, rt.Path, rt.ID)
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

func (m *matrix) auditOfChange(rt *rest.Route) {
	m.t.Helper()
	p := m.person("admin-in")
	if rt.ID == "signOut" || rt.ID == "signIn" {
		p = m.person("admin-in-web")
		m.cookieOf(p) // its sign-in is an entry of its own
	}
	a := m.change(rt, p)
	start := m.newestSeq()
	var got answerOf
	if rt.ID == "signIn" {
		got = m.do(rt.Method, a.path, "", a.body)
	} else {
		got = m.try(rt, p, a)
	}
	rows := m.since(start)
	if got.status != 200 || len(rows) != 1 {
		m.t.Errorf("%s %s: %d %s, and %d entries: %.300s", rt.Method, a.path, got.status, got.Reason, len(rows), got.raw)
		return
	}
	e := rows[0]
	if e.Actor != p.name || e.Verb != rt.Verb || e.Kind != rt.Kind || e.Outcome != "ok" || e.RemoteIP == "" || e.Time.IsZero() || e.Name == "" && rt.Verb != "backup" {
		m.t.Errorf("%s: %+v", rt.ID, e)
	}
	m.beforeAndAfter(rt, e)
	m.noSecrets(rt, got, e)
}

// beforeAndAfter: what is made has no before, what is gone no after, and what changed has both, which
// differ. A task that is deleted stays until its work has ended.
func (m *matrix) beforeAndAfter(rt *rest.Route, e history.AuditEntry) {
	m.t.Helper()
	before, after := true, true
	switch rt.Verb {
	case "create", "clone", "upload", "sign-in", "rotate":
		before = false
	case "delete", "sign-out":
		after = rt.Kind == api.KindTrainingTask
	case "backup":
		before, after = false, false
	}
	if (e.Before != "") != before || (e.After != "") != after || before && e.Before == e.After {
		m.t.Errorf("%s: before %.200q, after %.200q", rt.ID, e.Before, e.After)
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
			m.t.Errorf("%s: %v: %.200q is not about %s %s", rt.ID, err, text, e.Name, e.ID)
		}
	}
	if rt.Verb == "update" && (strings.Contains(e.Before, `"changed"`) || !strings.Contains(e.After, `"changed"`)) {
		m.t.Errorf("%s: the change is not seen: before %.200q, after %.200q", rt.ID, e.Before, e.After)
	}
}

// noSecrets: neither what was given nor what was answered as a secret is in the entry, nor a hash.
func (m *matrix) noSecrets(rt *rest.Route, got answerOf, e history.AuditEntry) {
	m.t.Helper()
	var shown struct{ Secret, Code string }
	_ = json.Unmarshal(got.Data, &shown) // where it is no such object there is none
	// Names of fields with their quote: an id may well spell "hash".
	for _, text := range []string{e.Before, e.After, e.Name, e.Outcome} {
		for _, hidden := range []string{plantedValue, testPassword, shown.Secret, shown.Code, "argon2id", `"sealed`, `"hash`} {
			if hidden != "" && strings.Contains(text, hidden) {
				m.t.Errorf("%s: the audit holds %q: %s", rt.ID, hidden, text)
			}
		}
	}
}

// auditOfRefusal asks as somebody who may not: the entry says who, and why not. False where
// everybody may.
func (m *matrix) auditOfRefusal(rt *rest.Route) bool {
	m.t.Helper()
	p := m.person("viewer-out")
	a := m.change(rt, p)
	if m.allowed(p, rt, a.yours) {
		return false
	}
	start := m.newestSeq()
	got := m.try(rt, p, a)
	rows := m.since(start)
	if len(rows) != 1 || rows[0].Actor != p.name || rows[0].Verb != rt.Verb || rows[0].Outcome != got.Reason || got.Reason == "" || rows[0].After != "" {
		m.t.Errorf("%s refused with %d %s: %+v", rt.ID, got.status, got.Reason, rows)
	}
	return true
}
