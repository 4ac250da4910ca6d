package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/test/foreign"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a server with one handler and a client for it.
func serve(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	srv := httptest.NewServer(h)
	c, err := New(Config{Server: srv.URL, Token: "fermi_x_secret", Language: "zh"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.CloseIdle(); srv.CloseClientConnections(); srv.Close() })
	return c
}

func answer(w http.ResponseWriter, data any) {
	_ = json.NewEncoder(w).Encode(map[string]any{"code": 200, "message": "OK", "data": data})
}

func refuse(w http.ResponseWriter, status int, reason string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"code": status, "reason": reason, "message": "不行"})
}

func TestNew(t *testing.T) {
	for server, want := range map[string]string{
		"127.0.0.1:7070":         "http://127.0.0.1:7070",
		"https://u:p@h/x/?q=1#f": "https://h/x",
		"":                       "",
		"ftp://h":                "",
		"http://":                "",
		"http://h\n":             "",
	} {
		c, err := New(Config{Server: server})
		if want == "" {
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("New(%q): %v, want Invalid", server, err)
			}
			continue
		}
		if err != nil || c.Server() != want {
			t.Errorf("New(%q) = %v, %v; want %s", server, c, err, want)
		}
	}
	if _, err := New(Config{Server: "h", Token: "a\nb"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a token with a line break: %v", err)
	}
}

func TestRequests(t *testing.T) {
	type seen struct{ method, path, query, auth, lang, body string }
	var got seen
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = seen{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Get("Authorization"), r.Header.Get("Accept-Language"), string(body)}
		answer(w, map[string]any{"metadata": map[string]any{"name": "n"}})
	})
	ctx := t.Context()
	do := func(_ any, err error) error { return err }
	for _, tt := range []struct {
		name string
		call func() error
		want seen
	}{
		{"get", func() error { return do(Get[*api.Zone](ctx, c, "", "北 京/1")) }, seen{method: "GET", path: "/api/v1/zones/%E5%8C%97%20%E4%BA%AC%2F1"}},
		{"get task", func() error { return do(Get[*api.TrainingTask](ctx, c, "p", "t")) }, seen{method: "GET", path: "/api/v1/training-tasks/t", query: "project=p"}},
		{"delete", func() error { return c.Delete(ctx, api.KindQueue, "", "q") }, seen{method: "DELETE", path: "/api/v1/queues/q"}},
		{"update", func() error {
			return do(Update(ctx, c, &api.Queue{Meta: api.Meta{Name: "q", Revision: 7}}))
		}, seen{method: "PUT", path: "/api/v1/queues/q", body: `{"metadata":{"name":"q","revision":7},"spec":{}}`}},
		{"dry run", func() error {
			return do(c.Create(ctx, &api.Project{Meta: api.Meta{Name: "p"}}, true))
		}, seen{method: "POST", path: "/api/v1/projects", query: "dryRun=true", body: `{"metadata":{"name":"p"},"spec":{}}`}},
		{"stop", func() error { return c.Stop(ctx, "p", "t") }, seen{method: "POST", path: "/api/v1/training-tasks/t/stop", query: "project=p"}},
		{"clone", func() error { return do(c.Clone(ctx, "", "t", "u", "")) }, seen{method: "POST", path: "/api/v1/training-tasks/t/clone", body: `{"name":"u"}`}},
		{"cordon", func() error { _, err := c.NodeVerb(ctx, "cordon", "n", -1); return err }, seen{method: "POST", path: "/api/v1/nodes/n/cordon"}},
		{"drain", func() error { _, err := c.NodeVerb(ctx, "drain", "n", 3); return err }, seen{method: "POST", path: "/api/v1/nodes/n/drain", query: "device=3"}},
		{"list", func() error {
			return do(c.List(ctx, api.KindTrainingTask, ListOptions{
				Project: "p", Limit: 5, Sort: "-name", Phase: []string{"Running", "Failed"}, Labels: map[string]string{"a": "b"}, Search: "训练",
			}))
		}, seen{method: "GET", path: "/api/v1/training-tasks", query: "label=a%3Db&limit=5&phase=Running&phase=Failed&project=p&search=%E8%AE%AD%E7%BB%83&sort=-name"}},
		{"events", func() error {
			return do(c.Events(ctx, EventOptions{Kind: api.KindNode, Name: "n", After: 3, Limit: 9}))
		}, seen{method: "GET", path: "/api/v1/events", query: "after=3&kind=Node&limit=9&name=n"}},
		{"archive", func() error { return do(c.PutArchive(ctx, strings.NewReader("abc"), 3)) }, seen{method: "POST", path: "/api/v1/archives", body: "abc"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.call(); err != nil {
				t.Fatal(err)
			}
			tt.want.auth, tt.want.lang = "Bearer fermi_x_secret", "zh"
			got.body = strings.TrimSpace(got.body)
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(seen{})); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, name := range []string{"", ".", ".."} {
		if _, err := c.Get(ctx, api.KindZone, "", name); !fault.Is(err, fault.Invalid) {
			t.Errorf("name %q: %v", name, err)
		}
	}
}

func TestErrors(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "proxy") {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, "<html>no</html>")
			return
		}
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(http.StatusConflict)
		fmt.Fprint(w, `{"code":409,"reason":"NameTaken","message":"名称已被占用。","hint":"换一个。","fields":[{"path":"metadata.name","message":"已存在"}],"retryable":false}`)
	})
	_, err := c.Get(t.Context(), api.KindZone, "", "a")
	e := fault.From(err)
	if e.Code != fault.Conflict || e.Reason != "NameTaken" || e.Message.In("en") != "名称已被占用。" || e.Hint.In("zh") != "换一个。" || e.RetryAfter != 3*time.Second {
		t.Errorf("rebuilt error: %+v", e)
	}
	want := []fault.Field{{Path: "metadata.name", Message: fault.Text{EN: "已存在", ZH: "已存在"}}}
	if diff := cmp.Diff(want, e.Fields); diff != "" {
		t.Error(diff)
	}
	_, err = c.Get(t.Context(), api.KindZone, "", "proxy")
	if e := fault.From(err); e.Code != fault.Forbidden || e.Reason != "HTTP403" {
		t.Errorf("a proxy's page: %+v", e)
	}
}

func TestUnreachable(t *testing.T) {
	addr := "http://" + foreign.Nobody(t)
	c, err := New(Config{Server: addr, Token: "fermi_x_secret"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.WhoAmI(t.Context())
	e := fault.From(err)
	if e.Code != fault.Unavailable || e.Reason != ReasonUnreachable || !strings.Contains(e.Message.EN, addr) || !strings.Contains(e.Hint.EN, "fermi up") {
		t.Errorf("got %+v", e)
	}
	if strings.Contains(err.Error(), "secret") {
		t.Error("the token is in the error")
	}
}

func TestRetries(t *testing.T) {
	var calls atomic.Int32
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) < 3 {
			refuse(w, 503, "Away")
			return
		}
		answer(w, map[string]string{"user": "admin"})
	})
	me, err := c.WhoAmI(t.Context())
	if err != nil || me.User != "admin" || calls.Load() != 3 {
		t.Errorf("read: %v, %v after %d calls", me, err, calls.Load())
	}
	calls.Store(0)
	if err := c.Stop(t.Context(), "", "t"); !fault.Is(err, fault.Unavailable) || calls.Load() != 1 {
		t.Errorf("a write was sent %d times: %v", calls.Load(), err)
	}
	calls.Store(-100)
	if _, err := c.WhoAmI(t.Context()); !fault.Is(err, fault.Unavailable) || calls.Load() != -100+tries {
		t.Errorf("gave up after %d calls: %v", calls.Load()+100, err)
	}
}

func TestWalkPages(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		page := map[string]map[string]any{
			"":  {"items": []any{zone("a"), zone("b")}, "next": "x", "revision": 9},
			"x": {"items": []any{zone("c")}},
		}[r.URL.Query().Get("cursor")]
		answer(w, page)
	})
	var names []string
	if err := c.Walk(t.Context(), api.KindZone, ListOptions{}, func(o api.Object) bool {
		names = append(names, o.GetMeta().Name)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, names); diff != "" {
		t.Error(diff)
	}
}

func zone(name string) *api.Zone {
	return &api.Zone{Meta: api.Meta{Name: name, ID: "zone-" + name, Revision: 1}}
}

func TestHasArchive(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "sha256:aa") {
			answer(w, Archive{"sha256:aa", 3})
			return
		}
		refuse(w, 404, "NotFound")
	})
	for digest, want := range map[string]bool{"sha256:aa": true, "sha256:bb": false} {
		if got, err := c.HasArchive(t.Context(), digest); got != want || err != nil {
			t.Errorf("HasArchive(%s) = %v, %v", digest, got, err)
		}
	}
}

func TestOpenOutput(t *testing.T) {
	var path string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.EscapedPath()
		fmt.Fprint(w, "weights")
	})
	body, n, err := c.OpenOutput(t.Context(), "", "t", "worker-0/a b/模型.json")
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	data, _ := io.ReadAll(body)
	if string(data) != "weights" || n != 7 || path != "/api/v1/training-tasks/t/outputs/worker-0/a%20b/%E6%A8%A1%E5%9E%8B.json" {
		t.Errorf("%q of %d bytes from %s", data, n, path)
	}
	for _, bad := range []string{"", "../x", "/x", "a/../b", "a//b"} {
		if _, _, err := c.OpenOutput(t.Context(), "", "t", bad); !fault.Is(err, fault.Invalid) {
			t.Errorf("path %q: %v", bad, err)
		}
	}
}

func TestCancelled(t *testing.T) {
	c := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.WhoAmI(ctx); fault.ReasonOf(err) != "Canceled" || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func FuzzErrorAnswer(f *testing.F) {
	f.Add(400, []byte(`{"reason":"X","message":"m","fields":[{"path":"a","message":{"en":"b","zh":"c"}}]}`))
	f.Add(503, []byte(`<html>`))
	f.Add(200, []byte(`{"message":{}}`))
	f.Fuzz(func(t *testing.T, status int, data []byte) {
		e := errorFromAnswer(status, data)
		if e == nil || e.Code == "" || e.Error() == "" {
			t.Errorf("no error from %d %q", status, data)
		}
	})
}
