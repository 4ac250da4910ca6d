package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/history/historytest"
	"github.com/fermi-cluster/fermi/internal/server/audit"
)

// all are the audit's entries, oldest first.
func (w *world) allAudit() []history.AuditEntry {
	w.t.Helper()
	rows, err := w.history.ListAudit(w.t.Context(), history.AuditQuery{Oldest: true, Limit: 1000})
	must(w.t, err)
	return rows
}

// TestRefusedSignInsAreKeptAndCounted: who tries passwords or tokens is in the audit, with where from and what
// was tried, and however often it tries, that makes a handful of entries.
func TestRefusedSignInsAreKeptAndCounted(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.AuthBurst, c.Limits.AuthRate = 1e6, 1e6 })
	w.server.counts.Addresses.Free, w.server.counts.Guesses.Free = 1e6, 1e6
	secret := "fermi_laptop_" + strings.Repeat("A", 43)
	for i := range 200 {
		if a := w.do("POST", "/api/v1/session", "", map[string]string{"user": fmt.Sprintf("user%d", i%30), "password": "wrong-password"}); a.Reason != "BadSignIn" {
			t.Fatalf("%d %s", a.status, a.raw)
		}
		w.do("GET", "/api/v1/zones", secret, nil)
		w.do("GET", "/api/v1/zones", "", nil) // no token is no refused token
	}
	rows := w.allAudit()
	if len(rows) != 2 {
		t.Fatalf("%d entries at once: %+v", len(rows), rows)
	}
	first, second := rows[0], rows[1]
	if first.Verb != "sign-in" || first.Outcome != "BadSignIn" || first.Name != "user0" || first.Actor != "" || first.RemoteIP == "" || first.Request == "" {
		t.Errorf("%+v", first)
	}
	if second.Verb != "authenticate" || second.Outcome != "BadToken" || second.Name != "laptop" || second.Kind != api.KindToken {
		t.Errorf("%+v", second)
	}
	w.server.auditor.Flush(t.Context(), true)
	rows = w.allAudit()
	if len(rows) != 4 || rows[2].Count != 199 || rows[3].Count != 199 || rows[2].Since.IsZero() || rows[2].Time.Before(rows[2].Since) {
		t.Fatalf("%+v", rows)
	}
	var detail struct {
		What []string
		More bool
	}
	must(t, json.Unmarshal([]byte(rows[2].Detail), &detail))
	if len(detail.What) != audit.MaxSamples || !detail.More {
		t.Errorf("%s", rows[2].Detail)
	}
	for _, e := range rows {
		if text := fmt.Sprint(e); strings.Contains(text, "wrong-password") || strings.Contains(text, strings.Repeat("A", 43)) {
			t.Errorf("the audit holds what was tried: %s", text)
		}
	}
	historytest.VerifyAudit(t, w.history)
}

// TestReadsAreAudited: who got a log, an output or a checkpoint is in the audit, with its token or session and
// the request; who may not, too.
func TestReadsAreAudited(t *testing.T) {
	m := newMatrix(t)
	member, viewer, out := m.person("member-in"), m.person("viewer-in-web"), m.person("member-out")
	base := "/api/v1/training-tasks/" + m.task.Meta.Name
	start := m.newestSeq()
	a := m.do("GET", base+"/outputs/worker-0/f?project=lab", member.secret, nil)
	if a.status != 200 || a.header.Get("Fermi-Request") == "" {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	rows := m.since(start)
	token := m.lookup(api.Key{Kind: api.KindToken, Name: "member-in"}).GetMeta().ID
	if len(rows) != 1 || rows[0].Verb != "read-output" || rows[0].Actor != "member-in" || rows[0].Token != token || rows[0].Session != "" ||
		rows[0].Request != a.header.Get("Fermi-Request") || rows[0].Project != "lab" || rows[0].ID != m.task.Meta.ID || !strings.Contains(rows[0].Detail, "worker-0/f") || rows[0].RemoteIP == "" {
		t.Fatalf("%+v", rows)
	}
	cookie := m.cookieOf(viewer)
	start = m.newestSeq()
	if a := m.browser("GET", base+"/logs?project=lab&replica=worker-0", cookie, nil); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	rows = m.since(start)
	if len(rows) != 1 || rows[0].Verb != "read-log" || rows[0].Actor != "viewer-in-web" || rows[0].Token != "" || !strings.HasPrefix(rows[0].Session, "tok-") {
		t.Fatalf("%+v", rows)
	}
	start = m.newestSeq()
	if a := m.do("GET", base+"/checkpoints/20/ranks/0?project=lab", member.secret, nil); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	if rows = m.since(start); len(rows) != 1 || rows[0].Verb != "read-checkpoint" || !strings.Contains(rows[0].Detail, "step 20, rank 0") {
		t.Fatalf("%+v", rows)
	}
	start = m.newestSeq()
	for range 50 {
		m.do("GET", base+"/outputs/worker-0/f?project=lab", member.secret, nil)
		m.do("GET", base+"/outputs/worker-0/f?project=lab", out.secret, nil)
		m.do("GET", "/metrics", out.secret, nil)
	}
	rows = m.since(start)
	if len(rows) != 2*audit.FreeRefusals {
		t.Fatalf("%d entries: %+v", len(rows), rows)
	}
	for _, e := range rows {
		if e.Actor != "member-out" || e.Verb == "read-output" && e.Outcome != "NotFound" || e.Verb == "read" && (e.Outcome != "NotAllowed" || !strings.Contains(e.Detail, "metrics")) {
			t.Errorf("%+v", e)
		}
	}
	m.server.auditor.Flush(t.Context(), true)
	counts := map[string]int64{}
	for _, e := range m.since(rows[len(rows)-1].Seq) {
		counts[e.Actor+" "+e.Verb] += e.Count
	}
	if counts["member-in read-output"] != 50 || counts["member-out read-output"] != 50-audit.FreeRefusals || counts["member-out read"] != 50-audit.FreeRefusals {
		t.Errorf("%v", counts)
	}
}

// TestOwnersReadTheirProjectsAudit: and of nothing else, whatever they ask for.
func TestOwnersReadTheirProjectsAudit(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"lab", "den"} {
		w.put(&api.Project{Meta: api.Meta{Name: name}, Spec: api.ProjectSpec{Owners: []string{name + "-owner"}}})
		must(t, w.history.AddAudit(t.Context(), history.AuditEntry{Actor: "x", Verb: "create", Project: name, Name: "in-" + name, Outcome: "ok"}))
	}
	must(t, w.history.AddAudit(t.Context(), history.AuditEntry{Actor: "x", Verb: "create", Name: "nowhere", Outcome: "NotAllowed"}))
	w.put(&api.User{Meta: api.Meta{Name: "lab-owner"}, Spec: api.UserSpec{Role: api.RoleMember}})
	owner := w.token("lab-owner", "lab-owner", "", nil)
	for _, path := range []string{"/api/v1/audit", "/api/v1/audit?project=lab", "/api/v1/audit?actor=x", "/api/v1/audit/export"} {
		if a := w.do("GET", path, owner, nil); a.status != 200 || !bytes.Contains(a.raw, []byte("in-lab")) || bytes.Contains(a.raw, []byte("in-den")) || bytes.Contains(a.raw, []byte("nowhere")) {
			t.Errorf("%s: %d %s", path, a.status, a.raw)
		}
	}
	for _, path := range []string{"/api/v1/audit?project=den", "/api/v1/audit/export?project=den"} {
		if a := w.do("GET", path, owner, nil); a.Reason != "NotOwner" {
			t.Errorf("%s: %d %s", path, a.status, a.raw)
		}
	}
	var got audit.Audits
	w.ok("GET", "/api/v1/audit?outcome=refused&limit=1", nil, &got)
	if len(got.Items) != 1 || got.Items[0].Outcome == "ok" || got.Next == 0 {
		t.Errorf("%+v", got)
	}
	before := got.Next
	got = audit.Audits{}
	w.ok("GET", fmt.Sprintf("/api/v1/audit?outcome=refused&before=%d", before), nil, &got)
	if len(got.Items) == 0 || got.Next != 0 {
		t.Errorf("%+v", got)
	}
}

// TestExportedAuditVerifies: what is exported is the whole chain, also of more entries than a page has.
func TestExportedAuditVerifies(t *testing.T) {
	w := newWorld(t)
	for i := range 2*audit.Page + 7 {
		must(t, w.history.AddAudit(t.Context(), history.AuditEntry{Time: time.Unix(int64(i), 1).UTC(), Actor: "x", Name: fmt.Sprint(i), Detail: "nul \x00 bad \xff"}))
	}
	a := w.do("GET", "/api/v1/audit/export", w.admin, nil)
	if a.status != 200 || a.header.Get("Content-Type") != audit.MediaLines {
		t.Fatalf("%d %.200s", a.status, a.raw)
	}
	var chain api.AuditChain
	var begin audit.Begin
	var end audit.End
	lines := bufio.NewScanner(bytes.NewReader(a.raw))
	for n := 0; lines.Scan(); n++ {
		switch {
		case n == 0:
			must(t, json.Unmarshal(lines.Bytes(), &begin))
			chain.Begin(begin.Anchor)
		case bytes.HasPrefix(lines.Bytes(), []byte(`{"audit":`)):
			must(t, json.Unmarshal(lines.Bytes(), &end))
		default:
			var e api.AuditEntry
			must(t, json.Unmarshal(lines.Bytes(), &e))
			must(t, chain.Add(&e))
		}
	}
	must(t, chain.End(end.Head))
	if begin.Partial || chain.Records != 2*audit.Page+7 {
		t.Errorf("%+v %+v", begin, chain)
	}
	if a := w.do("GET", "/api/v1/audit/export?actor=x", w.admin, nil); !bytes.Contains(a.raw[:200], []byte(`"partial":true`)) {
		t.Errorf("%.200s", a.raw)
	}
}
