package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/asset"
)

func TestOrigins(t *testing.T) {
	w := newWorld(t)
	w.withPassword("ann", api.RoleMember)
	cookie := w.signedIn("ann")
	host := strings.TrimPrefix(w.base, "http://")
	for _, tc := range []struct {
		name    string
		method  string
		headers []string
		want    int
	}{
		{"our page", "POST", []string{"Origin", w.base}, 200},
		{"our page behind a TLS proxy", "POST", []string{"Origin", "https://" + host}, 200},
		{"fetch metadata alone", "POST", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{"another origin", "POST", []string{"Origin", "http://evil.example"}, 403},
		{"another port", "POST", []string{"Origin", "http://127.0.0.1:1"}, 403},
		{"another scheme", "POST", []string{"Origin", "ftp://" + host}, 403},
		{"a sandboxed page", "POST", []string{"Origin", "null"}, 403},
		{"says nothing", "POST", nil, 403},
		{"another site", "POST", []string{"Origin", w.base, "Sec-Fetch-Site", "cross-site"}, 403},
		{"same site, another port", "POST", []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"reading", "GET", nil, 200},
		{"reading from another site", "GET", []string{"Sec-Fetch-Site", "cross-site"}, 403},
	} {
		path := "/api/v1/tokens?dryRun=true"
		var body any = `{"metadata":{"name":"x"}}`
		if tc.method == "GET" {
			path, body = "/api/v1/tokens", nil
		}
		a := w.do(tc.method, path, "", body, append(tc.headers, "Cookie", cookie)...)
		if a.status != tc.want || tc.want == 403 && a.Reason != "BadOrigin" {
			t.Errorf("%s: %d %s", tc.name, a.status, a.raw)
		}
		if a := w.do(tc.method, path, w.admin, body, tc.headers...); a.status != 200 {
			t.Errorf("%s with a token: %d %s", tc.name, a.status, a.raw)
		}
	}
	if a, _ := w.signIn(`{"user":"ann","password":"`+testPassword+`"}`, "Origin", "http://evil.example"); a.status != 403 || a.Reason != "BadOrigin" {
		t.Errorf("signed in by a stranger's page: %s", a.raw)
	}
}

func TestHosts(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Hosts = []string{"Fermi.Example."} })
	for host, want := range map[string]int{
		"127.0.0.1:7070": 200, "localhost": 200, "LOCALHOST:7070": 200, "[::1]:7070": 200, "[::1]": 200, "192.0.2.7": 200, "fermi.example": 200, "FERMI.example.:443": 200,
		"evil.example": 403, "127.0.0.1.evil.example": 403, "localhost.evil.example": 403, "x.localhost": 403, "[evil]": 403,
	} {
		for _, path := range []string{"/healthz", "/api/v1/version", "/nothing"} {
			req, err := http.NewRequest("GET", w.base+path, nil)
			must(t, err)
			req.Host = host
			req.Header.Set("Authorization", "Bearer "+w.admin)
			resp, err := http.DefaultClient.Do(req)
			must(t, err)
			raw, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if got := resp.StatusCode; (got == 403) != (want == 403) || got == 403 && !strings.Contains(string(raw), "BadHost") {
				t.Errorf("%s at %s: %d %s", path, host, got, raw)
			}
		}
	}
}

func TestHeaders(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/healthz", "/nothing", "/api/v1/zones", "/metrics"} {
		h := w.do("GET", path, w.admin, nil).header
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
		} {
			if h.Get(name) != want {
				t.Errorf("%s: %s is %q", path, name, h.Get(name))
			}
		}
		if csp := h.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") {
			t.Errorf("%s: %s", path, csp)
		}
	}
}

// TestHTTPS: there the cookie is bound to this host and to HTTPS.
func TestHTTPS(t *testing.T) {
	w := newWorld(t)
	srv := httptest.NewTLSServer(w.server.Handler())
	defer srv.Close()
	code, err := w.server.SignInCode(context.Background(), "root")
	must(t, err)
	client := srv.Client()
	client.Transport.(*http.Transport).TLSClientConfig.MinVersion = tls.VersionTLS12
	resp, err := client.Post(srv.URL+"/api/v1/session", "application/json", strings.NewReader(fmt.Sprintf(`{"code":%q}`, code)))
	must(t, err)
	_ = resp.Body.Close()
	set := resp.Header.Get("Set-Cookie")
	if !strings.HasPrefix(set, "__Host-fermi_session=") || !strings.Contains(set, "; Secure") || !strings.Contains(set, "Path=/;") || strings.Contains(set, "Domain") {
		t.Fatalf("%q", set)
	}
	cookie, _, _ := strings.Cut(set, ";")
	for origin, want := range map[string]int{srv.URL: 200, strings.Replace(srv.URL, "https", "http", 1): 403} {
		req, err := http.NewRequest("POST", srv.URL+"/api/v1/tokens?dryRun=true", strings.NewReader(`{"metadata":{"name":"x"}}`))
		must(t, err)
		req.Header.Set("Cookie", cookie)
		req.Header.Set("Origin", origin)
		resp, err := client.Do(req)
		must(t, err)
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("from %s: %d, want %d", origin, resp.StatusCode, want)
		}
	}
}

// TestHugeBody: a body of 1 GB is refused by its length, or when it passes the limit.
func TestHugeBody(t *testing.T) {
	w := newWorld(t)
	const huge = 1 << 30
	answered := 0
	for _, rt := range w.server.face.routes {
		if rt.Body == nil || rt.ID == "putArchive" || rt.ID == "putCheckpointRank" || strings.HasPrefix(rt.ID, "begin") {
			continue // they take what is large, within limits of their own
		}
		for _, length := range []int64{huge, -1} {
			path := strings.NewReplacer("{name}", "root").Replace(rt.Path)
			if strings.Contains(rt.Path, "{name}/") && (rt.Kind == asset.DatasetKind || rt.Kind == asset.ModelKind) {
				path = strings.NewReplacer("{name}", w.anyAsset(rt.Kind), "{hash}", strings.Repeat("0", 64)).Replace(rt.Path) + "?project=default"
			}
			if rt.ID == "cloneTask" || rt.ID == "moveTask" {
				path = strings.Replace(rt.Path, "{name}", w.anyTask(), 1)
			}
			req, err := http.NewRequest(rt.Method, w.base+path, io.LimitReader(zeros{}, huge))
			must(t, err)
			req.ContentLength = length
			req.Header.Set("Authorization", "Bearer "+w.admin)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				continue // the server hung up while we still sent
			}
			raw, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			answered++
			if resp.StatusCode != 413 || !strings.Contains(string(raw), "BodyTooLarge") {
				t.Errorf("%s %s (length %d): %d %s", rt.Method, rt.Path, length, resp.StatusCode, raw)
			}
		}
	}
	if answered == 0 {
		t.Error("nobody was told why")
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func (w *world) anyTask() string {
	w.t.Helper()
	if a := w.do("GET", "/api/v1/training-tasks/any", w.admin, nil); a.status != 200 {
		w.submit("any")
	}
	return "any"
}
