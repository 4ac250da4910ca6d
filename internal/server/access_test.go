package server

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/server/door"
)

// TestRoles tries who may do what.
func TestRoles(t *testing.T) {
	w := newWorld(t)
	w.put(&api.Project{Meta: api.Meta{Name: "lab"}, Spec: api.ProjectSpec{Members: []string{"ann", "vic"}}})
	who := map[string]string{
		"ann": w.user("ann", api.RoleMember), "vic": w.user("vic", api.RoleViewer), "out": w.user("out", api.RoleMember),
		"op": w.user("op", api.RoleOperator), "root": w.admin,
	}
	lab := manifest("mine", func(t *api.TrainingTask) { t.Meta.Project = "lab" })
	if a := w.do("POST", "/api/v1/training-tasks", who["ann"], lab); a.status != 200 {
		t.Fatalf("%s", a.raw)
	}
	status := func(user, method, path string, body any) int { return w.do(method, path, who[user], body).status }
	zone := `{"metadata":{"name":"%s"},"spec":{"region":"r"}}`
	for _, tc := range []struct {
		method, path string
		body         any
		want         map[string]int
	}{
		{"GET", "/api/v1/training-tasks/mine?project=lab", nil, map[string]int{"ann": 200, "vic": 200, "out": 404, "op": 200, "root": 200}},
		{"GET", "/api/v1/training-tasks/mine/logs?project=lab", nil, map[string]int{"ann": 200, "vic": 200, "out": 404, "op": 200}},
		{"GET", "/api/v1/projects/lab", nil, map[string]int{"ann": 200, "vic": 200, "out": 404, "op": 200, "root": 200}},
		{"GET", "/api/v1/zones", nil, map[string]int{"ann": 200, "vic": 200, "out": 200}},
		{"GET", "/api/v1/users/ann", nil, map[string]int{"ann": 200, "vic": 404, "op": 200}},
		{"GET", "/api/v1/tokens/ann", nil, map[string]int{"ann": 200, "vic": 404, "op": 200}},
		{"POST", "/api/v1/training-tasks?dryRun=true", lab, map[string]int{"ann": 200, "vic": 403, "out": 403, "op": 403, "root": 200}},
		{"POST", "/api/v1/training-tasks/mine/stop?project=lab", nil, map[string]int{"vic": 403, "out": 404, "op": 403, "ann": 200}},
		{"POST", "/api/v1/zones?dryRun=true", fmt.Sprintf(zone, "zz"), map[string]int{"ann": 403, "vic": 403, "op": 200, "root": 200}},
		{"POST", "/api/v1/users?dryRun=true", `{"metadata":{"name":"x"}}`, map[string]int{"ann": 403, "op": 403, "root": 200}},
		{"POST", "/api/v1/projects?dryRun=true", `{"metadata":{"name":"x"}}`, map[string]int{"ann": 403, "op": 403, "root": 200}},
		{"GET", "/api/v1/events?project=lab", nil, map[string]int{"ann": 200, "vic": 200, "out": 403, "op": 200}},
		{"GET", "/api/v1/watch/training-tasks?nope=1", nil, map[string]int{"ann": 400}},
	} {
		for user, want := range tc.want {
			if got := status(user, tc.method, tc.path, tc.body); got != want {
				t.Errorf("%s %s as %s: %d, want %d", tc.method, tc.path, user, got, want)
			}
		}
	}
	for user, want := range map[string][]string{"ann": {"mine"}, "vic": {"mine"}, "out": nil, "op": {"mine"}} {
		var list struct{ Items []*api.TrainingTask }
		must(t, json.Unmarshal(w.do("GET", "/api/v1/training-tasks", who[user], nil).Data, &list))
		var names []string
		for _, o := range list.Items {
			names = append(names, o.Meta.Name)
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("%s sees: %s", user, diff)
		}
	}
	var list struct{ Items []*api.Project }
	must(t, json.Unmarshal(w.do("GET", "/api/v1/projects", who["out"], nil).Data, &list))
	if len(list.Items) != 0 {
		t.Errorf("a stranger sees projects: %+v", list.Items)
	}
}

func TestTokens(t *testing.T) {
	w := newWorld(t)
	ann := w.user("ann", api.RoleMember)
	a := w.do("POST", "/api/v1/tokens", ann, `{"metadata":{"name":"laptop"}}`)
	var made struct {
		Object *api.Token
		Secret string
	}
	must(t, json.Unmarshal(a.Data, &made))
	if !strings.HasPrefix(made.Secret, "fermi_laptop_") || len(made.Secret) != len("fermi_laptop_")+43 || made.Object.Spec.User != "ann" || made.Object.Spec.Hash != "" {
		t.Fatalf("%s", a.raw)
	}
	// It works at once.
	var me door.Identity
	must(t, json.Unmarshal(w.do("GET", "/api/v1/whoami", made.Secret, nil).Data, &me))
	if me.User != "ann" || me.Token != "laptop" {
		t.Errorf("%+v", me)
	}
	for _, path := range []string{"/api/v1/tokens", "/api/v1/tokens/laptop", "/api/v1/audit"} {
		if raw := string(w.ok("GET", path, nil, nil).raw); strings.Contains(raw, door.HashSecret(made.Secret)) || strings.Contains(raw, made.Secret) {
			t.Errorf("%s shows a secret: %s", path, raw)
		}
	}
	w.refusedTo(ann, "POST", "/api/v1/tokens", `{"metadata":{"name":"t2"},"spec":{"user":"root"}}`, 403, "NotAllowed")
	w.refusedTo(ann, "POST", "/api/v1/tokens", `{"metadata":{"name":"t2"},"spec":{"user":"ann","hash":"x"}}`, 400, "InvalidField")
	w.refusedTo(ann, "POST", "/api/v1/tokens", `{"metadata":{"name":"t2"},"spec":{"user":"ann","expiresAt":"2001-01-01T00:00:00Z"}}`, 400, "InvalidField")
	// Changing it keeps the secret; its user never changes.
	var token api.Token
	must(t, json.Unmarshal(w.do("GET", "/api/v1/tokens/laptop", ann, nil).Data, &token))
	token.Meta.Labels = map[string]string{"a": "b"}
	if a := w.do("PUT", "/api/v1/tokens/laptop", ann, token); a.status != 200 {
		t.Errorf("%s", a.raw)
	}
	if a := w.do("GET", "/api/v1/whoami", made.Secret, nil); a.status != 200 {
		t.Errorf("%s", a.raw)
	}
	// Revoked, expired, of a disabled user: all the same to the outside.
	if a := w.do("DELETE", "/api/v1/tokens/laptop", ann, nil); a.status != 200 {
		t.Errorf("%s", a.raw)
	}
	eventually(t, "it is revoked", func() bool { return w.do("GET", "/api/v1/whoami", made.Secret, nil).status == 401 })
	past := time.Now().Add(-time.Second)
	w.refusedTo(w.token("old", "ann", "", &past), "GET", "/api/v1/whoami", nil, 401, "TokenExpired")
	w.put(&api.User{Meta: api.Meta{Name: "off"}, Spec: api.UserSpec{Role: api.RoleAdmin, Disabled: true}})
	w.refusedTo(w.token("off", "off", "", nil), "GET", "/api/v1/whoami", nil, 401, "BadToken")
}

// TestTaskToken: what user code holds reaches its own task and nothing else, whoever made it.
func TestTaskToken(t *testing.T) {
	w := newWorld(t)
	task := w.submit("mine")
	w.submit("other")
	secret := w.token("task", "root", task.Meta.ID, nil)
	for path, want := range map[string]int{
		"/api/v1/training-tasks/mine": 200, "/api/v1/training-tasks/mine/events": 200, "/api/v1/version": 200, "/api/v1/whoami": 200,
		"/api/v1/training-tasks/other": 404, "/api/v1/training-tasks": 403, "/api/v1/zones": 403, "/api/v1/audit": 403, "/metrics": 403, "/api/v1/watch/training-tasks": 403,
	} {
		if got := w.do("GET", path, secret, nil); got.status != want {
			t.Errorf("%s: %d, want %d: %s", path, got.status, want, got.raw)
		}
	}
	w.refusedTo(secret, "POST", "/api/v1/training-tasks/mine/stop", nil, 403, "TaskToken")
	w.refusedTo(secret, "POST", "/api/v1/training-tasks", manifest("x"), 403, "TaskToken")
}

func TestRateLimits(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.Limits.Rate, c.Limits.Burst, c.Limits.AuthRate, c.Limits.AuthBurst, c.Limits.Streams = 0.001, 5, 0.001, 3, 1
	})
	ann := w.user("ann", api.RoleMember)
	var got []int
	for range 7 {
		a := w.do("GET", "/api/v1/version", ann, nil)
		got = append(got, a.status)
		if a.status == 429 && (a.header.Get("Retry-After") == "" || a.Reason != "TooManyRequests") {
			t.Errorf("%s", a.raw)
		}
	}
	if diff := cmp.Diff([]int{200, 200, 200, 200, 200, 429, 429}, got); diff != "" {
		t.Error(diff)
	}
	got = nil
	for range 5 {
		got = append(got, w.do("GET", "/api/v1/version", "bad", nil).status)
	}
	if diff := cmp.Diff([]int{401, 401, 401, 429, 429}, got); diff != "" {
		t.Error(diff)
	}
	if a := w.do("GET", "/api/v1/version", w.admin, nil); a.status != 200 {
		t.Errorf("a good token suffers for bad ones: %s", a.raw)
	}
	w.events("/api/v1/watch/zones", w.admin).want("synced")
	w.refused("GET", "/api/v1/watch/zones", nil, 429, "TooManyStreams")
}

// asking are the routes that read with a body.
var asking = map[string]bool{"previewPlacement": true, "previewRecipe": true, "previewExisting": true}

func TestRouteTable(t *testing.T) {
	w := newWorld(t)
	for _, rt := range w.server.face.routes {
		reads := rt.Method == "GET" || asking[rt.ID]
		if rt.Changes() == reads {
			t.Errorf("%s %s: what writes is audited as a change, what reads is not", rt.Method, rt.Path)
		}
		if rt.Look && rt.Media == "" {
			t.Errorf("%s %s hands out no bytes, and yet is audited as a read", rt.Method, rt.Path)
		}
		if r, _ := w.server.rules.Of(rt.ID); r.Task && rt.Method != "GET" && !rt.Open {
			t.Errorf("%s %s: a task's token only reads", rt.Method, rt.Path)
		}
		if rt.Open && !slices.Contains([]string{"healthz", "readyz", "signIn"}, rt.ID) {
			t.Errorf("%s is open", rt.Path)
		}
	}
}
