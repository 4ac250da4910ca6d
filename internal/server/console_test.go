package server

import (
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/fermi-cluster/fermi/internal/server/console"
)

func (w *world) page(path string, headers ...string) (*http.Response, string) {
	w.t.Helper()
	r := w.open("GET", path, "", nil, headers...)
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	must(w.t, err)
	return r, string(body)
}

func TestConsole(t *testing.T) {
	files := fstest.MapFS{
		"index.html":      {Data: []byte("<!doctype html><title>the console</title>")},
		"assets/a-123.js": {Data: []byte("let a = 1")},
	}
	w := newWorld(t, func(c *Config) { c.Console = files })
	html := []string{"Accept", "text/html,*/*"}
	for _, path := range []string{"/", "/tasks", "/tasks/first", "/index.html"} {
		r, body := w.page(path, html...)
		csp := r.Header.Get("Content-Security-Policy")
		if r.StatusCode != 200 || !strings.Contains(body, "the console") || r.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v %s", path, r.StatusCode, r.Header, body)
		}
		if !strings.Contains(csp, "script-src 'self';") || !strings.Contains(csp, "frame-ancestors 'none'") {
			t.Errorf("%s: policy %q", path, csp)
		}
	}
	r, body := w.page("/assets/a-123.js")
	if body != "let a = 1" || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/javascript") || !strings.Contains(r.Header.Get("Cache-Control"), "immutable") {
		t.Errorf("asset: %v %q", r.Header, body)
	}
	if r, _ := w.page("/assets/a-123.js", "Accept-Encoding", "gzip"); r.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("not compressed: %v", r.Header)
	}
	for _, path := range []string{"/assets/none.js", "/api/v1/nothing", "/api", "/assets/..%2f..%2fgo.mod", "/tasks"} {
		if r, body := w.page(path); r.StatusCode != 404 || !strings.Contains(body, "UnknownRoute") {
			t.Errorf("%s: %d %s", path, r.StatusCode, body)
		}
	}
	w.refused("POST", "/tasks", nil, 404, "UnknownRoute")
	w.refused("GET", "/api/v1/nothing", nil, 404, "UnknownRoute")
}

func TestConsoleNotBuilt(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Console = fstest.MapFS{"placeholder.txt": {}} })
	for lang, first := range map[string]string{"zh-CN": "未包含控制台", "en": "not in this binary"} {
		r, body := w.page("/", "Accept-Language", lang)
		if r.StatusCode != 200 || !strings.Contains(body, "未包含控制台") || !strings.Contains(body, "make build") ||
			strings.Index(body, first) > strings.Index(body, "</p>") {
			t.Errorf("%s: %d %s", lang, r.StatusCode, body)
		}
	}
	if r, _ := w.page("/placeholder.txt"); r.StatusCode != 404 {
		t.Errorf("the placeholder is served: %d", r.StatusCode)
	}
}

// FuzzConsolePath: no path reaches a file outside, panics, or is answered twice.
func FuzzConsolePath(f *testing.F) {
	for _, p := range []string{"/", "/../x", "/assets/a.js", "//", "/a/./b", "/%00", "/a\\b.js"} {
		f.Add(p, true)
	}
	files := fstest.MapFS{"index.html": {Data: []byte("i")}, "assets/a.js": {Data: []byte("a")}}
	known := map[string]bool{"": true, "i": true, "a": true}
	f.Fuzz(func(t *testing.T, p string, page bool) {
		c := console.New(fs.FS(files))
		rec := httptest.NewRecorder()
		r := &http.Request{Method: "GET", Header: http.Header{}}
		r.URL = &url.URL{Path: p}
		if page {
			r.Header.Set("Accept", "text/html")
		}
		served := c.Serve(rec, r)
		if !known[rec.Body.String()] || !served && rec.Body.Len() > 0 {
			t.Errorf("%q: served %v, %d %q", p, served, rec.Code, rec.Body.String())
		}
	})
}
