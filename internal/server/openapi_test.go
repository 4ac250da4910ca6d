package server

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/internal/seal"
	"github.com/fermi-cluster/fermi/internal/server/door"
	"github.com/fermi-cluster/fermi/internal/server/rest"
)

type document struct {
	OpenAPI string `json:"openapi"`
	Paths   map[string]map[string]struct {
		OperationID string           `json:"operationId"`
		Security    []map[string]any `json:"security"`
		RequestBody json.RawMessage  `json:"requestBody"`
		Responses   map[string]any   `json:"responses"`
	} `json:"paths"`
	Components struct {
		Schemas map[string]struct {
			Properties map[string]struct {
				Type    any // a word, or several where null is one
				Pattern string
				Enum    []string
			} `json:"properties"`
		} `json:"schemas"`
	} `json:"components"`
}

// TestOpenAPI walks the table of kinds and the document: every kind has its routes, every
// reference resolves, and every route but health refuses callers without a token.
func TestOpenAPI(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.AuthBurst = 10000 })
	resp := w.do("GET", "/api/v1/openapi.json", w.admin, nil)
	var doc document
	must(t, json.Unmarshal(resp.raw, &doc))
	if !strings.HasPrefix(doc.OpenAPI, "3.1") {
		t.Fatalf("openapi %q", doc.OpenAPI)
	}
	if m := regexp.MustCompile(`(?i)\bparts? \d|\b(later|earlier) part\b|\bissues? #?\d|\bseed 0|not built`).Find(resp.raw); m != nil {
		t.Errorf("the document speaks of %q, not of a feature", m)
	}
	want := map[string][]string{
		"/healthz": {"get"}, "/readyz": {"get"}, "/metrics": {"get"}, "/api/v1/openapi.json": {"get"}, "/api/v1/version": {"get"}, "/api/v1/whoami": {"get"},
		"/api/v1/training-tasks/{name}/stop": {"post"}, "/api/v1/training-tasks/{name}/clone": {"post"}, "/api/v1/training-tasks/{name}/move": {"post"}, "/api/v1/training-tasks/{name}/fault": {"post"}, "/api/v1/training-tasks/{name}/profile": {"post"}, "/api/v1/training-tasks/{name}/logs": {"get"},
		"/api/v1/training-tasks/{name}/events": {"get"}, "/api/v1/training-tasks/{name}/why": {"get"}, "/api/v1/training-tasks/{name}/replicas": {"get"}, "/api/v1/training-tasks/{name}/restore": {"post"}, "/api/v1/training-tasks/{name}/pin": {"post"}, "/api/v1/training-tasks/{name}/verify": {"post"}, "/api/v1/training-tasks/{name}/checkpoints": {"get", "post"},
		"/api/v1/training-tasks/{name}/checkpoints/{step}/ranks/{rank}": {"get", "put"},
		"/api/v1/training-tasks/{name}/outputs":                         {"get"}, "/api/v1/training-tasks/{name}/outputs/{path}": {"get"}, "/api/v1/training-tasks/{name}/metrics": {"get"}, "/api/v1/training-tasks/{name}/metrics/points": {"get"},
		"/api/v1/events": {"get"}, "/api/v1/usage": {"get"}, "/api/v1/figures": {"get"}, "/api/v1/capacity": {"get"}, "/api/v1/devices": {"get"}, "/api/v1/shares": {"get"}, "/api/v1/shares/{name}": {"get"}, "/api/v1/archives": {"post"}, "/api/v1/archives/{digest}": {"get"}, "/api/v1/audit": {"get"}, "/api/v1/audit/export": {"get"}, "/api/v1/backup": {"post"}, "/api/v1/rotate": {"post"},
		"/api/v1/session": {"post", "get", "delete"}, "/api/v1/sessions": {"delete"}, "/api/v1/session/code": {"post"}, "/api/v1/users/{name}/password": {"put"}, "/api/v1/users/{name}/keys": {"post"}, "/api/v1/users/{name}/keys/{key}": {"delete"}, "/api/v1/ssh": {"get"},
		"/api/v1/training-tasks/{name}/terminal": {"get"},
		"/api/v1/placements/preview":             {"post"}, "/api/v1/training-tasks/recipe": {"post"}, "/api/v1/training-tasks/existing": {"post"}, "/api/v1/training-tasks/existing/preview": {"post"}, "/api/v1/zones/{name}/latency": {"post"}, "/api/v1/zones/{name}/outage": {"get"}, "/api/v1/zone-matrix": {"get"},
		"/api/v1/nodes/{name}/cordon": {"post"}, "/api/v1/nodes/{name}/uncordon": {"post"}, "/api/v1/nodes/{name}/drain": {"get", "post"}, "/api/v1/nodes/{name}/test": {"post"}, "/api/v1/nodes/{name}/fault": {"post"}, "/api/v1/nodes/{name}/lost": {"post"}, "/api/v1/nodes/{name}/remove": {"post"}, "/api/v1/nodes/{name}/upgrade": {"post"}, "/api/v1/join-tokens": {"post"},
	}
	for _, row := range api.Kinds {
		all, one := "/api/v1/"+row.Plural, "/api/v1/"+row.Plural+"/{name}"
		want[all], want[one], want["/api/v1/watch/"+row.Plural] = []string{"get"}, []string{"get"}, []string{"get"}
		if row.Users {
			want[all], want[one] = []string{"get", "post"}, []string{"get", "put", "delete"}
		}
		if row.Kind == asset.DatasetKind || row.Kind == asset.ModelKind {
			maps.Copy(want, assetPaths(one))
		}
		if _, ok := doc.Components.Schemas[string(row.Kind)]; !ok {
			t.Errorf("no schema of %s", row.Kind)
		}
	}
	count := 0
	for path, methods := range want {
		if got := len(doc.Paths[path]); got != len(methods) {
			t.Errorf("%s has %d operations, want %v", path, got, methods)
		}
		for _, method := range methods {
			if _, ok := doc.Paths[path][method]; !ok {
				t.Errorf("missing: %s %s", method, path)
			}
			count++
		}
	}
	if len(doc.Paths) != len(want) {
		t.Errorf("%d paths in the document, %d expected", len(doc.Paths), len(want))
	}
	for _, ref := range regexp.MustCompile(`"#/components/schemas/([^"]+)"`).FindAllStringSubmatch(string(resp.raw), -1) {
		if _, ok := doc.Components.Schemas[ref[1]]; !ok {
			t.Errorf("dangling reference %s", ref[1])
		}
	}
	resources := doc.Components.Schemas["Resources"].Properties
	if p := resources["memory"]; p.Type != "string" || p.Pattern == "" {
		t.Errorf("memory is %+v, want a string with a pattern", p)
	}
	if p := doc.Components.Schemas["TrainingTaskStatus"].Properties["phase"]; len(p.Enum) != 7 {
		t.Errorf("phase is %+v, want an enum", p)
	}
	fill := strings.NewReplacer("{name}", "x", "{path}", "x", "{digest}", "x")
	ids := map[string]bool{}
	for path, operations := range doc.Paths {
		for method, op := range operations {
			if ids[op.OperationID] || op.OperationID == "" {
				t.Errorf("operation id %q of %s %s is not unique", op.OperationID, method, path)
			}
			ids[op.OperationID] = true
			if len(op.Security) == 0 {
				if path != "/healthz" && path != "/readyz" && op.OperationID != "signIn" {
					t.Errorf("%s %s needs no token", method, path)
				}
				continue
			}
			for _, token := range []string{"", "nonsense", "fermi_root_" + strings.Repeat("A", 43)} {
				a := w.do(strings.ToUpper(method), fill.Replace(path), token, nil)
				if a.status != http.StatusUnauthorized || a.Reason == "" || a.header.Get("WWW-Authenticate") == "" {
					t.Errorf("%s %s with token %q: %d %s", method, path, token, a.status, a.raw)
				}
			}
			count--
		}
	}
	if count != 3 {
		t.Errorf("%d operations were not tried, want the 2 of health and signing in", count)
	}
	if path := os.Getenv("FERMI_WRITE_OPENAPI"); path != "" {
		must(t, os.WriteFile(path, resp.raw, 0o644))
	}
}

func TestSystemRoutes(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/healthz", "/readyz"} {
		if a := w.do("GET", path, "", nil); a.status != 200 || a.Code != 200 {
			t.Errorf("%s: %d %s", path, a.status, a.raw)
		}
	}
	var v versionInfo
	w.ok("GET", "/api/v1/version", nil, &v)
	if v.Version != "test" {
		t.Errorf("version %+v", v)
	}
	var me door.Identity
	w.ok("GET", "/api/v1/whoami", nil, &me)
	if me.User != "root" || me.Role != api.RoleAdmin || len(me.Projects) != 1 {
		t.Errorf("whoami %+v", me)
	}
	if a := w.do("GET", "/metrics", w.admin, nil); a.status != 200 || !strings.Contains(string(a.raw), "fermi_http_requests_total") {
		t.Errorf("metrics: %d %.200s", a.status, a.raw)
	}
	if a := w.do("POST", "/api/v1/backup", w.admin, nil); a.status != 200 || string(a.raw) != "tar" {
		t.Errorf("backup: %d %s", a.status, a.raw)
	}
	viewer := w.user("eve", api.RoleViewer)
	for _, path := range []string{"/metrics", "/api/v1/audit"} {
		w.refusedTo(viewer, "GET", path, nil, 403, "NotAllowed")
	}
	w.refusedTo(viewer, "POST", "/api/v1/backup", nil, 403, "NotAllowed")
}

// TestShape is about answers nobody planned: they have the same shape as all others.
func TestShape(t *testing.T) {
	w := newWorld(t)
	for _, tc := range []struct {
		method, path, body string
		status             int
		reason             string
	}{
		{"GET", "/", "", 404, "UnknownRoute"},
		{"GET", "/api/v1/nothing", "", 404, "UnknownRoute"},
		{"GET", "/api/v1/../v1/zones", "", 404, "UnknownRoute"},
		{"PATCH", "/api/v1/zones", "", 405, "MethodNotAllowed"},
		{"POST", "/api/v1/placements", "", 405, "MethodNotAllowed"},
		{"GET", "/api/v1/zones?limit=0", "", 400, "BadQuery"},
		{"GET", "/api/v1/zones?limit=501", "", 400, "BadQuery"},
		{"GET", "/api/v1/zones?limit=", "", 400, "BadQuery"},
		{"GET", "/api/v1/zones?sort=", "", 400, "BadQuery"},
		{"DELETE", "/api/v1/training-tasks", "", 405, "MethodNotAllowed"},
		{"GET", "/api/v1/zones?nope=1", "", 400, "BadQuery"},
		{"GET", "/api/v1/zones?limit=1&limit=2", "", 400, "BadQuery"},
		{"GET", "/api/v1/zones?sort=size", "", 400, "BadQuery"},
		{"GET", "/api/v1/zones?cursor=xyz", "", 400, "BadCursor"},
		{"GET", "/api/v1/zones?%zz", "", 400, "BadQuery"},
		{"GET", "/api/v1/training-tasks?phase=Sleeping", "", 400, "BadQuery"},
		{"GET", "/api/v1/zones/none", "", 404, "NotFound"},
		{"POST", "/api/v1/zones", "{", 400, "BadSyntax"},
		{"POST", "/api/v1/zones", `{"metadata":{"name":"z"},"spec":{"region":"r","color":"red"}}`, 400, "UnknownField"},
		{"POST", "/api/v1/zones", strings.Repeat(" ", 4<<20+1), 413, "BodyTooLarge"},
		{"PUT", "/api/v1/zones/z", `{"metadata":{"name":"z"},"spec":{"region":"r"}}`, 400, "InvalidField"},
	} {
		a := w.do(tc.method, tc.path, w.admin, tc.body)
		if a.status != tc.status || a.Reason != tc.reason || a.Code != tc.status || a.Message == "" {
			t.Errorf("%s %s: got %d %s, want %d %s: %.300s", tc.method, tc.path, a.status, a.Reason, tc.status, tc.reason, a.raw)
		}
	}
	zh := w.do("GET", "/api/v1/zones?limit=0", w.admin, nil, "Accept-Language", "zh-CN,zh;q=0.9,en;q=0.8")
	if !strings.Contains(zh.Message, "查询") || zh.header.Get("Content-Language") != "zh" || !strings.Contains(zh.header.Get("Vary"), "Accept-Language") {
		t.Errorf("zh: %s %v", zh.raw, zh.header)
	}
	if len(zh.Fields) != 1 || zh.Fields[0].Path != "query.limit" || !strings.Contains(zh.Fields[0].Message, "整数") {
		t.Errorf("fields: %+v", zh.Fields)
	}
}

func TestLanguage(t *testing.T) {
	for header, want := range map[string]string{
		"": "en", "zh": "zh", "zh-CN,en;q=0.5": "zh", "en-US,zh;q=0.9": "en", "fr, zh;q=0.1": "zh", "zh;q=0, en;q=0.1": "en", "zh;q=x": "en", "*": "en",
	} {
		if got := rest.Language(header); got != want {
			t.Errorf("%q: %s, want %s", header, got, want)
		}
	}
}

// TestContentType: a body of another type is refused before it is read, everywhere.
func TestContentType(t *testing.T) {
	w := newWorld(t)
	tried := 0
	for _, rt := range w.server.face.routes {
		if rt.Body == nil {
			continue
		}
		tried++
		path := strings.ReplaceAll(rt.Path, "{name}", "x")
		for _, given := range []string{"text/plain", "application/x-www-form-urlencoded", "nonsense", "application/json; charset"} {
			a := w.do(rt.Method, path, w.admin, "x", "Content-Type", given)
			if a.status != 415 || a.Reason != "BadContentType" || !strings.Contains(a.Message, rt.Body.Media[0]) {
				t.Errorf("%s %s as %s: %d %s", rt.Method, rt.Path, given, a.status, a.raw)
			}
		}
		for _, media := range rt.Body.Media {
			if a := w.do(rt.Method, path, w.admin, "[", "Content-Type", media+"; charset=utf-8"); a.status == 415 {
				t.Errorf("%s %s as %s: %s", rt.Method, rt.Path, media, a.raw)
			}
		}
	}
	if tried == 0 {
		t.Error("no route reads a body")
	}
}

// TestOutputRanges: what a range or condition asks for, and refusals in the shape of all others.
func TestOutputRanges(t *testing.T) {
	w := newWorld(t)
	task := w.submit("t")
	_, err := w.blob.Put(context.Background(), "outputs/"+task.Meta.ID+"/worker-0/out", strings.NewReader("0123456789"))
	must(t, err)
	for _, tc := range []struct {
		header, value string
		status        int
		body, reason  string
	}{
		{"Range", "bytes=2-4", 206, "234", ""},
		{"Range", "bytes=20-", 416, "", "BadRange"},
		{"Range", "bytes=x", 416, "", "BadRange"},
		{"If-Match", `"other"`, 412, "", "PreconditionFailed"},
		{"If-Modified-Since", "Thu, 01 Jan 2099 00:00:00 GMT", 304, "", ""},
		{"Accept", "image/png", 200, "0123456789", ""}, // bytes are bytes
	} {
		a := w.do("GET", "/api/v1/training-tasks/t/outputs/worker-0/out", w.admin, nil, tc.header, tc.value)
		if a.status != tc.status || a.Reason != tc.reason || tc.reason == "" && string(a.raw) != tc.body {
			t.Errorf("%s: %s: %d %s", tc.header, tc.value, a.status, a.raw)
		}
		if tc.reason != "" && (a.Code != tc.status || !strings.HasPrefix(a.header.Get("Content-Type"), "application/json")) {
			t.Errorf("%s: %s: not the usual shape: %v %s", tc.header, tc.value, a.header, a.raw)
		}
	}
}

// TestDocumentIsClosed: no operation leaves its statuses or the shape of its JSON open.
func TestDocumentIsClosed(t *testing.T) {
	w := newWorld(t)
	var doc struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct {
				Ref     string `json:"$ref"`
				Content map[string]struct {
					Schema struct {
						AdditionalProperties *bool `json:"additionalProperties"`
						Required             []string
						AnyOf                []struct{ Required []string }
					}
				}
			}
		}
	}
	must(t, json.Unmarshal(w.do("GET", "/api/v1/openapi.json", w.admin, nil).raw, &doc))
	for path, operations := range doc.Paths {
		for method, op := range operations {
			for status, answer := range op.Responses {
				if status == "default" || status >= "400" && answer.Ref != "#/components/responses/"+rest.RefusedName {
					t.Errorf("%s %s: %s is %+v", method, path, status, answer)
				}
				if s, ok := answer.Content["application/json"]; ok && path != "/api/v1/openapi.json" && (s.Schema.AdditionalProperties == nil || *s.Schema.AdditionalProperties || len(s.Schema.Required) != 3) {
					t.Errorf("%s %s: %s is open", method, path, status)
				}
				if s, ok := answer.Content["text/event-stream"]; ok && len(s.Schema.AnyOf) < 3 {
					t.Errorf("%s %s: its events have no schema", method, path)
				}
			}
			for _, status := range []string{"200", "400", "403", "503"} {
				if _, ok := op.Responses[status]; !ok {
					t.Errorf("%s %s does not tell of %s", method, path, status)
				}
			}
		}
	}
}

// made is where the answer to a create has the name of what was made.
func (w *world) made(kind api.Kind) string {
	for _, rt := range w.server.face.routes {
		if rt.ID == "create"+string(kind) {
			return rt.Body.Made
		}
	}
	return ""
}

// TestExamples: what the document shows as examples can be sent as it stands, and its links lead to what was made.
func TestExamples(t *testing.T) {
	box, err := seal.New(seal.NewKey())
	must(t, err)
	w := newWorld(t, func(c *Config) { c.Box = box })
	for _, row := range api.Kinds {
		if !row.Users {
			continue
		}
		a := w.do("POST", "/api/v1/"+row.Plural, w.admin, w.server.kinds.Of(row.Kind).Read.Example)
		if a.status != 200 {
			t.Errorf("%s: %s", row.Kind, a.raw)
			continue
		}
		var body any
		must(t, json.Unmarshal(a.raw, &body))
		_, pointer, _ := strings.Cut(w.made(row.Kind), "#/")
		for part := range strings.SplitSeq(pointer, "/") {
			body = body.(map[string]any)[part]
		}
		if got := w.do("GET", "/api/v1/"+row.Plural+"/"+body.(string), w.admin, nil); got.status != 200 {
			t.Errorf("%s: the link leads to %v: %s", row.Kind, body, got.raw)
		}
	}
}
