package server

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// TestScopes: a token may less than its user, and cannot make itself a larger one.
func TestScopes(t *testing.T) {
	w := newWorld(t)
	w.put(&api.Project{Meta: api.Meta{Name: "lab"}, Spec: api.ProjectSpec{Members: []string{"ann"}}})
	w.put(&api.Project{Meta: api.Meta{Name: "den"}, Spec: api.ProjectSpec{Members: []string{"ann"}}})
	ann := w.user("ann", api.RoleMember)
	make := func(by, name, spec string) string {
		t.Helper()
		var made struct{ Secret string }
		a := w.do("POST", "/api/v1/tokens", by, `{"metadata":{"name":"`+name+`"},"spec":`+spec+`}`)
		if a.status != 200 {
			t.Fatalf("%s", a.raw)
		}
		must(t, json.Unmarshal(a.Data, &made))
		return made.Secret
	}
	tokens := map[string]string{
		"read": make(ann, "r", `{"scope":"read"}`), "tasks": make(ann, "t", `{"scope":"tasks"}`), "all": make(ann, "a", `{"scope":"admin"}`),
		"lab": make(ann, "l", `{"projects":["lab"]}`), "rootlab": make(w.admin, "rl", `{"projects":["lab"]}`), "rootread": make(w.admin, "rr", `{"scope":"read"}`),
	}
	task := func(name, project string) *api.TrainingTask {
		return manifest(name, func(t *api.TrainingTask) { t.Meta.Project = project })
	}
	for _, project := range []string{"lab", "den"} {
		if a := w.do("POST", "/api/v1/training-tasks", ann, task("one", project)); a.status != 200 {
			t.Fatalf("%s", a.raw)
		}
	}
	for _, tc := range []struct {
		method, path string
		body         any
		want         map[string]int
	}{
		{"GET", "/api/v1/training-tasks/one?project=lab", nil, map[string]int{"read": 200, "tasks": 200, "all": 200, "lab": 200, "rootlab": 200, "rootread": 200}},
		{"GET", "/api/v1/training-tasks/one?project=den", nil, map[string]int{"read": 200, "lab": 404, "rootlab": 404, "rootread": 200}},
		{"GET", "/api/v1/events?project=den", nil, map[string]int{"read": 200, "lab": 403, "rootlab": 403, "rootread": 200}},
		{"POST", "/api/v1/training-tasks?dryRun=true", task("x", "lab"), map[string]int{"read": 403, "tasks": 200, "all": 200, "lab": 200, "rootlab": 200, "rootread": 403}},
		{"POST", "/api/v1/training-tasks?dryRun=true", task("x", "den"), map[string]int{"tasks": 200, "lab": 403, "rootlab": 403}},
		{"POST", "/api/v1/tokens?dryRun=true", `{"metadata":{"name":"y"}}`, map[string]int{"read": 403, "tasks": 403, "all": 200, "lab": 403, "rootlab": 403, "rootread": 403}},
		{"POST", "/api/v1/session/code", nil, map[string]int{"read": 403, "tasks": 403, "lab": 403, "rootlab": 403, "rootread": 403}},
		{"PUT", "/api/v1/users/ann/password", `{"password":"long enough"}`, map[string]int{"read": 403, "tasks": 403, "lab": 403, "rootlab": 403}},
		{"GET", "/api/v1/audit", nil, map[string]int{"rootread": 403, "rootlab": 403}},
		{"GET", "/metrics", nil, map[string]int{"rootread": 200, "rootlab": 403}},
		{"GET", "/api/v1/users/root", nil, map[string]int{"rootlab": 200, "rootread": 200, "lab": 404}},
		{"GET", "/api/v1/zones", nil, map[string]int{"read": 200, "lab": 200, "rootlab": 200}},
	} {
		for who, want := range tc.want {
			if a := w.do(tc.method, tc.path, tokens[who], tc.body); a.status != want {
				t.Errorf("%s %s as %s: %d, want %d: %s", tc.method, tc.path, who, a.status, want, a.raw)
			}
		}
	}
	w.refusedTo(tokens["read"], "POST", "/api/v1/tokens", `{}`, 403, "ScopeTooSmall")
	w.refused("POST", "/api/v1/tokens", `{"metadata":{"name":"z"},"spec":{"scope":"root"}}`, 400, "InvalidField")
	var list struct{ Items []*api.TrainingTask }
	must(t, json.Unmarshal(w.do("GET", "/api/v1/training-tasks", tokens["rootlab"], nil).Data, &list))
	if len(list.Items) != 1 || list.Items[0].Meta.Project != "lab" {
		t.Errorf("a token of lab lists %d tasks", len(list.Items))
	}
	var token api.Token
	must(t, json.Unmarshal(w.do("GET", "/api/v1/tokens/r", ann, nil).Data, &token))
	token.Spec.Scope = api.ScopeAdmin
	if a := w.do("PUT", "/api/v1/tokens/r", ann, token); a.status != 400 || a.Reason != "Immutable" {
		t.Errorf("a widened scope: %s", a.raw)
	}
}

// TestLostStream: who is put out of a project, or signed out, loses the streams too.
func TestLostStream(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.Recheck = 20 * time.Millisecond })
	w.withPassword("ann", api.RoleMember)
	lab := w.put(&api.Project{Meta: api.Meta{Name: "lab"}, Spec: api.ProjectSpec{Members: []string{"ann"}}}).(*api.Project)
	ann := w.token("ann2", "ann", "", nil)
	task := manifest("one", func(t *api.TrainingTask) { t.Meta.Project = "lab" })
	if a := w.do("POST", "/api/v1/training-tasks", ann, task); a.status != 200 {
		t.Fatalf("%s", a.raw)
	}
	watch := w.events("/api/v1/watch/training-tasks", ann)
	watch.want("added")
	watch.want("synced")
	logs := w.events("/api/v1/training-tasks/one/logs?project=lab&follow=true", ann)
	session := w.events("/api/v1/watch/zones", "", "Cookie", w.signedIn("ann"))
	session.want("synced")
	lab.Spec.Members = nil
	w.put(lab)
	for name, e := range map[string]*feed{"watch": watch, "logs": logs, "session": session} {
		if ev, err := e.next(); err != nil || ev.name != "error" || !strings.Contains(ev.data, "AccessLost") {
			t.Errorf("%s: %+v %v", name, ev, err)
		}
		if _, err := e.next(); err != errEnded {
			t.Errorf("%s goes on", name)
		}
	}
	session = w.events("/api/v1/watch/zones", "", "Cookie", w.signedIn("ann"))
	session.want("synced")
	w.ok("DELETE", "/api/v1/sessions?user=ann", nil, nil)
	if ev, err := session.next(); err != nil || ev.name != "error" || !strings.Contains(ev.data, "BadToken") {
		t.Errorf("%+v %v", ev, err)
	}
}
