package server

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/api/v1/card"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/api/v1/joined"
	"github.com/fermi-cluster/fermi/api/v1/terminal"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/link/pass"
	"github.com/fermi-cluster/fermi/internal/seal"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/door"
	"github.com/fermi-cluster/fermi/internal/server/rest"
)

// person is a column of the matrix: who asks, and how.
type person struct {
	name    string
	role    api.UserRole // "" is nobody
	inside  bool         // a member of the project asked about
	task    string       // a task's token: "own" or "other"
	scope   api.TokenScope
	session bool   // comes by cookie
	replica string // whose processes ask, in the person's name
	secret  string
	cookie  string
}

// matrix makes one of everything in the project lab for each case.
type matrix struct {
	*world
	people []*person
	task   *api.TrainingTask // the one that task tokens belong to
	n      int
}

func newMatrix(t *testing.T) *matrix {
	box, err := seal.New(seal.NewKey())
	must(t, err)
	m := &matrix{world: newWorld(t, func(c *Config) {
		c.Box = box
		c.Rotate = func(context.Context, string) (fault.Text, error) { return fault.T("Done.", "完成。"), nil }
		c.Limits.Rate, c.Limits.Burst, c.Limits.AuthBurst, c.Limits.Streams = 1e6, 1e6, 1e6, 1e6
	})}
	m.server.counts.Addresses.Free, m.server.counts.Guesses.Free = 1e6, 1e6
	m.put(&api.Project{Meta: api.Meta{Name: "lab"}})
	m.put(&api.Project{Meta: api.Meta{Name: "den"}})
	m.task = m.target(api.KindTrainingTask, "root").(*api.TrainingTask)
	other := m.target(api.KindTrainingTask, "root").(*api.TrainingTask)
	add := func(p person) {
		switch {
		case p.task != "":
			id := m.task.Meta.ID
			if p.task == "other" {
				id = other.Meta.ID
			}
			p.secret = m.token("task-"+p.task, "root", id, nil)
		case p.replica != "":
			m.put(&api.User{Meta: api.Meta{Name: p.name}, Spec: api.UserSpec{Role: p.role}})
			m.live.lends(p.replica, &devenv.DevEnvironment{Meta: api.Meta{Owner: p.name, Project: "lab"}}) // nobody else is behind it
			p.secret = pass.Make(p.replica, linkToken)
		case p.role != "":
			m.put(&api.User{Meta: api.Meta{Name: p.name}, Spec: api.UserSpec{Role: p.role}})
			p.secret = m.token(p.name, p.name, "", nil)
			if p.scope != "" {
				tok := m.lookup(api.Key{Kind: api.KindToken, Name: p.name}).(*api.Token)
				tok.Spec.Scope = p.scope
				m.put(tok)
			}
		}
		if p.session {
			m.ok("PUT", "/api/v1/users/"+p.name+"/password", map[string]string{"password": testPassword}, nil)
		}
		m.people = append(m.people, &p)
	}
	add(person{name: "nobody"})
	add(person{name: "task-own", task: "own"})
	add(person{name: "task-other", task: "other"})
	for _, role := range []api.UserRole{api.RoleAdmin, api.RoleOperator, api.RoleMember, api.RoleViewer} {
		for _, inside := range []bool{true, false} {
			name := string(role) + map[bool]string{true: "-in", false: "-out"}[inside]
			add(person{name: name, role: role, inside: inside})
			add(person{name: name + "-web", role: role, inside: inside, session: true})
		}
		add(person{name: string(role) + "-read", role: role, inside: true, scope: api.ScopeRead})
		add(person{name: string(role) + "-tasks", role: role, inside: true, scope: api.ScopeTasks})
	}
	add(person{name: "pass", role: api.RoleMember, inside: true, scope: api.ScopeTasks, replica: "task-pass-worker-0-1"})
	add(person{name: "pass-out", role: api.RoleMember, scope: api.ScopeTasks, replica: "task-out-worker-0-1"})
	add(person{name: "pass-admin", role: api.RoleAdmin, inside: true, scope: api.ScopeTasks, replica: "task-admin-worker-0-1"})
	members := map[string][]string{}
	for _, p := range m.people {
		if p.role != "" {
			project := map[bool]string{true: "lab", false: "den"}[p.inside]
			members[project] = append(members[project], p.name)
		}
	}
	for name, list := range members {
		project := m.lookup(api.Key{Kind: api.KindProject, Name: name}).(*api.Project)
		project.Spec.Members, project.Spec.Owners = list, list
		m.put(project)
	}
	return m
}

func (m *matrix) lookup(key api.Key) api.Object {
	m.t.Helper()
	o, err := m.store.Get(m.t.Context(), key, 0)
	must(m.t, err)
	// The cache's object is shared: change a copy.
	data, err := json.Marshal(o)
	must(m.t, err)
	next := api.MustInfo(key.Kind).New()
	must(m.t, json.Unmarshal(data, next))
	return next
}

// target makes a fresh object of a kind; users and tokens belong to whom.
func (m *matrix) target(kind api.Kind, whom string) api.Object {
	m.t.Helper()
	m.n++
	name := fmt.Sprintf("t%d", m.n)
	meta := api.Meta{Name: name, Owner: "root"}
	switch kind {
	case api.KindTrainingTask:
		o := manifest(name)
		o.Meta.Project = "lab"
		must(m.t, api.Prepare(o, id.Default.Random))
		o.Spec.Queue, o.Status.Phase = "default", api.PhasePending
		m.put(o)
		_, err := m.blob.Put(m.t.Context(), "outputs/"+o.Meta.ID+"/worker-0/f", strings.NewReader("x"))
		must(m.t, err)
		return o
	case api.KindPlacement:
		meta.Project = "lab"
		return m.put(&api.Placement{Meta: meta, Spec: api.PlacementSpec{TaskID: "task-0", Attempt: 1}})
	case api.KindSecret:
		meta.Project = "lab"
		return m.put(&api.Secret{Meta: meta})
	case api.KindZone:
		return m.put(&api.Zone{Meta: meta, Spec: api.ZoneSpec{Region: "r"}})
	case api.KindNode:
		return m.put(&api.Node{Meta: meta, Spec: api.NodeSpec{Number: uint32(m.n), Zone: "z", Spec: joined.Spec{Agent: &joined.Agent{ID: name}}}})
	case api.KindQueue:
		return m.put(&api.Queue{Meta: meta})
	case api.KindProject:
		return m.put(&api.Project{Meta: meta, Spec: api.ProjectSpec{Members: m.members()}})
	case api.KindUser:
		return m.put(&api.User{Meta: meta, Spec: api.UserSpec{Role: api.RoleMember}})
	case api.KindToken:
		return m.put(&api.Token{Meta: meta, Spec: api.TokenSpec{User: whom, Hash: door.HashSecret(name)}})
	case asset.DatasetKind, asset.ModelKind:
		return m.asset(kind, meta)
	case asset.VersionKind:
		o := m.asset(asset.DatasetKind, meta)
		return m.lookup(api.Key{Kind: kind, Project: "lab", Name: asset.VersionName(asset.DatasetKind, o.GetMeta().Name, 1)})
	}
	m.t.Fatalf("the matrix knows no object of kind %s: give it one", kind)
	return nil
}

// members are those inside.
func (m *matrix) members() []string {
	var out []string
	for _, p := range m.people {
		if p.role != "" && p.inside {
			out = append(out, p.name)
		}
	}
	return out
}

// ask is one request of the matrix.
type ask struct {
	path  string
	body  any
	yours bool // about what is the person's own
}

// asks are what a person asks of a route: about the project lab, or what is their own and what is
// not. Fresh objects each time, so that a delete harms nobody else.
func (m *matrix) asks(rt *rest.Route, p *person) []ask {
	m.t.Helper()
	path := strings.NewReplacer("{path...}", "worker-0/f", "{digest}", "sha256:"+strings.Repeat("0", 64), "{step}", "20", "{rank}", "0").Replace(rt.Path)
	named := func(name string) string { return strings.Replace(path, "{name}", name, 1) }
	switch rt.ID {
	case "signIn":
		return []ask{{path, `{"user":"x1","password":"nobody has it"}`, true}}
	case "rotate":
		return []ask{{path, `{"keys":["tls"]}`, true}}
	case "putArchive":
		return []ask{{path, "bytes " + p.name, true}}
	case "previewPlacement", "previewRecipe":
		return []ask{{path, manifest("p", func(t *api.TrainingTask) { t.Meta.Project = "lab" }), p.inside}}
	case "faultTask", "profileTask":
		body := map[string]string{"faultTask": `{"rank":0,"kind":"kill"}`, "profileTask": `{"rank":0}`}[rt.ID]
		return []ask{{named(m.target(api.KindTrainingTask, "").GetMeta().Name) + "?project=lab", body, p.inside}}
	case "previewExisting", "createExisting":
		m.n++
		name := fmt.Sprintf("env-%d", m.n)
		environment(m.world, "lab", name, "z", uint32(10_000+m.n), 1)
		return []ask{{path + "?project=lab", `{"taskName":"t","launchMode":"existing","distributedConfig":{"nodeIds":["` + name + `"]}}`, p.inside}}
	case "restoreTask", "pinCheckpoint", "verifyCheckpoints":
		return []ask{{named(m.target(api.KindTrainingTask, "").GetMeta().Name) + "?project=lab", `{"step":20}`, p.inside}}
	case "putCheckpointRank", "importCheckpoint":
		o := m.target(api.KindTrainingTask, "").(*api.TrainingTask)
		o.Spec.Checkpoint = &api.Checkpoints{From: &api.CheckpointFrom{Upload: true}}
		m.put(o)
		body := map[string]string{"putCheckpointRank": "good", "importCheckpoint": `{"step":20,"parts":[{"rank":0,"key":"parts/x"}]}`}[rt.ID]
		return []ask{{named(o.Meta.Name) + "?project=lab", body, p.inside}}
	case "moveTask":
		zone := m.target(api.KindZone, "").GetMeta().Name
		return []ask{{named(m.target(api.KindTrainingTask, "").GetMeta().Name) + "?project=lab", `{"zone":"` + zone + `"}`, p.inside}}
	case "addNode":
		return []ask{{path, `{"zone":"` + m.target(api.KindZone, "").GetMeta().Name + `"}`, p.inside}}
	case "measureZone":
		near := m.target(api.KindZone, "").GetMeta().Name
		return []ask{{named(m.target(api.KindZone, "").GetMeta().Name), `{"to":{"` + near + `":{"p50Ms":1.3,"p99Ms":2,"samples":9}}}`, p.inside}}
	case "listAudit", "exportAudit":
		return []ask{{path + "?project=lab", nil, p.inside}}
	case "listEvents":
		return []ask{{path + "?project=lab", nil, p.inside}}
	case "sumUsage", "sumFigures":
		return []ask{{path + "?project=lab", nil, p.inside}}
	case "signOutEverywhere":
		victim := m.target(api.KindUser, "")
		return []ask{{path, nil, true}, {path + "?user=" + victim.GetMeta().Name, nil, false}}
	case "addUserKey", "removeUserKey":
		victim := m.target(api.KindUser, "").(*api.User)
		key := func() string {
			pub, _, err := ed25519.GenerateKey(nil)
			must(m.t, err)
			line, err := ssh.NewPublicKey(pub)
			must(m.t, err)
			return string(ssh.MarshalAuthorizedKey(line))
		}
		var asks []ask
		for i, name := range []string{p.name, victim.Meta.Name} {
			a := ask{named(name), map[string]string{"key": key(), "name": fmt.Sprint("k", m.n)}, i == 0}
			if rt.ID == "removeUserKey" && p.role != "" {
				u := m.lookup(api.Key{Kind: api.KindUser, Name: name}).(*api.User)
				u.Status.SSHKeys = append(u.Status.SSHKeys, terminal.Key{ID: "k1"})
				m.put(u)
			}
			if rt.ID == "removeUserKey" {
				a.path, a.body = strings.Replace(a.path, "{key}", "k1", 1), nil
			}
			asks = append(asks, a)
		}
		return asks
	case "setPassword":
		victim := m.target(api.KindUser, "")
		body := map[string]string{"password": testPassword, "current": testPassword}
		return []ask{{named(p.name), body, true}, {named(victim.GetMeta().Name), body, false}}
	}
	if a, ok := m.assetAsk(rt, p); ok {
		return []ask{a}
	}
	row, isKind := api.InfoOf(rt.Kind)
	if !isKind || !strings.Contains(path, "{name}") && !strings.HasPrefix(rt.ID, "create") {
		return []ask{{path, nil, true}}
	}
	if strings.HasPrefix(rt.ID, "create") {
		return m.creations(path, row, p)
	}
	query := ""
	if row.Project {
		query = "?project=lab"
	}
	one := func(o api.Object, yours bool) ask {
		a := ask{path: named(o.GetMeta().Name) + query, yours: yours}
		if rt.Method == http.MethodPut {
			o.GetMeta().DisplayName = "changed"
			switch o := o.(type) {
			case *api.Token:
				o.Spec.Hash = ""
			case *api.Secret:
				o.Spec.Data = map[string]string{"k": "v"}
			}
			a.body = o
		}
		return a
	}
	switch row.Kind {
	case api.KindToken:
		return []ask{one(m.target(row.Kind, p.name), true), one(m.target(row.Kind, "root"), false)}
	case api.KindUser:
		out := []ask{one(m.target(row.Kind, ""), false)}
		if p.role != "" && rt.Method == http.MethodGet {
			out = append(out, one(m.lookup(api.Key{Kind: row.Kind, Name: p.name}), true))
		}
		return out
	case api.KindTrainingTask:
		if rt.Method == http.MethodGet {
			return []ask{one(m.task, p.inside || p.task == "own")}
		}
	}
	o := m.target(row.Kind, "")
	if n, ok := o.(*api.Node); ok && rt.ID == "uncordonNode" {
		n.Spec.Cordoned = true
		m.put(n)
	}
	if n, ok := o.(*api.Node); ok && (rt.ID == "testNode" || rt.ID == "faultNode") {
		n.Spec.Devices = []api.Device{{}}
		n.Status.Devices = []card.DeviceHealth{{State: card.DeviceOut}}
		m.put(n)
	}
	if rt.ID == "faultNode" {
		return []ask{{named(o.GetMeta().Name), `{"device":0,"kind":"xid-79"}`, p.inside}}
	}
	return []ask{one(o, p.inside)}
}

func (m *matrix) creations(path string, row api.KindInfo, p *person) []ask {
	m.n++
	name := fmt.Sprintf("c%d", m.n)
	switch row.Kind {
	case api.KindTrainingTask:
		return []ask{{path, manifest(name, func(t *api.TrainingTask) { t.Meta.Project = "lab" }), p.inside}}
	case asset.DatasetKind, asset.ModelKind:
		return []ask{{path, `{"metadata":{"name":"` + name + `","project":"lab"}}`, p.inside}}
	case api.KindSecret:
		return []ask{{path, `{"metadata":{"name":"` + name + `","project":"lab"},"spec":{"data":{"k":"v"}}}`, p.inside}}
	case api.KindToken:
		return []ask{
			{path, `{"metadata":{"name":"` + name + `"}}`, true},
			{path, `{"metadata":{"name":"` + name + `-x"},"spec":{"user":"root"}}`, false},
		}
	case api.KindZone:
		return []ask{{path, `{"metadata":{"name":"` + name + `"},"spec":{"region":"r"}}`, p.inside}}
	}
	return []ask{{path, `{"metadata":{"name":"` + name + `"}}`, p.inside}}
}

// rules are the table of access.
func (m *matrix) rules() *access.Rules { return m.server.rules }

// allowed is what the table says; written anew here, from what the words of the table mean.
func (m *matrix) allowed(p *person, rt *rest.Route, yours bool) bool {
	r, _ := m.rules().Of(rt.ID)
	switch {
	case rt.Open:
		return true
	case p.task != "":
		return r.Task && (yours || !strings.Contains(rt.Path, "{name}"))
	case p.role == "":
		return false
	case p.scope == api.ScopeRead && r.Scope != api.ScopeRead, p.scope == api.ScopeTasks && r.Scope == api.ScopeAdmin:
		return false
	case strings.HasPrefix(rt.ID, "openTerminalOf") && p.role != api.RoleAdmin: // its owner's alone, and nobody's here
		return false
	}
	if p.replica != "" { // its project alone: what others get of everything it gets of that
		got := map[api.UserRole]access.Reach{api.RoleAdmin: r.Admin, api.RoleMember: r.Member}[p.role]
		yours = yours && !(rt.Kind == api.KindProject && strings.Contains(rt.Path, "{name}")) // which is another
		return got == access.All && r.Viewer == access.All || (got == access.Own || got == access.All && (r.Member == access.Own || r.Viewer == access.Own)) && yours
	}
	got := map[api.UserRole]access.Reach{api.RoleAdmin: r.Admin, api.RoleOperator: r.Operator, api.RoleMember: r.Member, api.RoleViewer: r.Viewer}[p.role]
	return got == access.All || got == access.Own && yours
}

func (m *matrix) try(rt *rest.Route, p *person, a ask) answerOf {
	m.t.Helper()
	if !p.session {
		return m.do(rt.Method, a.path, p.secret, a.body, "Accept", "application/json")
	}
	return m.browser(rt.Method, a.path, m.cookieOf(p), a.body)
}

// cookieOf signs in again where the last case ended the session.
func (m *matrix) cookieOf(p *person) string {
	m.t.Helper()
	if p.cookie == "" || m.browser("GET", "/api/v1/session", p.cookie, nil).status != 200 {
		p.cookie = m.signedIn(p.name)
	}
	return p.cookie
}

// TestAccessMatrix tries every route of the OpenAPI document as everybody, and compares the answer
// with the table of access. What succeeds and changes something must be in the audit.
func TestAccessMatrix(t *testing.T) {
	m := newMatrix(t)
	var doc document
	must(t, json.Unmarshal(m.do("GET", "/api/v1/openapi.json", m.admin, nil).raw, &doc))
	documented := 0
	for _, operations := range doc.Paths {
		documented += len(operations)
	}
	if documented != len(m.server.face.routes) || documented != m.rules().Size() {
		t.Errorf("%d operations in the document, %d routes, %d rows in the table of access", documented, len(m.server.face.routes), m.rules().Size())
	}
	cases, changes := 0, 0
	for _, rt := range m.server.face.routes {
		if _, ok := m.rules().Of(rt.ID); !ok {
			t.Errorf("%s %s (%s) has no row in the table of access", rt.Method, rt.Path, rt.ID)
			continue
		}
		for _, p := range m.people {
			for _, a := range m.asks(rt, p) {
				cases++
				if m.check(rt, p, a) && rt.Changes() && rt.ID != "signIn" {
					changes++
					m.audited(rt, p, a)
				}
			}
		}
	}
	t.Logf("access matrix: %d routes, %d kinds of callers, %d cases, %d audited changes", len(m.server.face.routes), len(m.people), cases, changes)
}

// check compares one answer with the table; true when it was allowed.
func (m *matrix) check(rt *rest.Route, p *person, a ask) bool {
	m.t.Helper()
	if strings.HasPrefix(rt.ID, "watch") {
		return m.checkStream(rt, p, a)
	}
	got := m.try(rt, p, a)
	want := m.allowed(p, rt, a.yours)
	good := got.status == 200
	switch { // what is allowed, but has another end here
	case rt.ID == "signIn":
		good = got.status == 401 && got.Reason == "BadSignIn" || got.Reason == "TooManySignIns"
	case rt.ID == "getArchive" && got.Reason == "NoArchive", rt.ID == "signOut" && got.Reason == "NoSession" && !p.session && p.role != "":
		good = true
	case strings.HasPrefix(rt.ID, "openTerminalOf") && got.Reason == "WebSocketOnly":
		good = true
	case rt.ID == "setPassword" && a.yours && got.status == 400 && got.Reason == "InvalidField":
		m.t.Errorf("%s", got.raw)
	}
	refused := got.status == 401 && p.role == "" && p.task == "" || got.status == 403 || got.status == 404
	if want != good || !want && !refused {
		m.t.Errorf("%s %s as %s (theirs: %v): %d %s, allowed: %v: %.200s", rt.Method, a.path, p.name, a.yours, got.status, got.Reason, want, got.raw)
	}
	return want && good && got.status == 200
}

func (m *matrix) checkStream(rt *rest.Route, p *person, a ask) bool {
	m.t.Helper()
	headers := []string{"Accept", "text/event-stream"}
	if p.session {
		headers = append(headers, "Cookie", m.cookieOf(p))
	}
	resp := m.open(rt.Method, a.path, p.secret, nil, headers...)
	defer resp.Body.Close()
	if good := resp.StatusCode == 200; good != m.allowed(p, rt, a.yours) {
		m.t.Errorf("%s as %s: %d", a.path, p.name, resp.StatusCode)
	}
	return false
}

// audited: the newest entry is this change, with who made it, and what was before and after.
func (m *matrix) audited(rt *rest.Route, p *person, a ask) {
	m.t.Helper()
	if rt.Verb == "put-chunk" || rt.Verb == "begin-upload" { // a version is made of thousands; an upload has nothing before
		return
	}
	rows, err := m.history.ListAudit(m.t.Context(), history.AuditQuery{Limit: 1})
	must(m.t, err)
	if len(rows) == 0 {
		m.t.Errorf("%s %s as %s is not in the audit", rt.Method, a.path, p.name)
		return
	}
	e := rows[0]
	if e.Actor != p.name || e.Verb != rt.Verb || e.Outcome != "ok" || !complete(rt, e) {
		m.t.Errorf("%s %s as %s: the audit says %s %s %s %s, before %.60q, after %.60q", rt.Method, a.path, p.name, e.Actor, e.Verb, e.Kind, e.Outcome, e.Before, e.After)
	}
}

func complete(rt *rest.Route, e history.AuditEntry) bool {
	switch rt.Verb {
	case "create", "clone", "upload", "rotate":
		return e.After != ""
	case "delete", "sign-out":
		return e.Before != ""
	case "backup":
		return true
	}
	return e.Before != "" && e.After != ""
}
