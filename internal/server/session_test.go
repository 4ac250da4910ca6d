package server

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

const testPassword = "correct horse 电池"

// shifted is a clock that can be set forward.
type shifted struct {
	mu sync.Mutex
	by time.Duration
}

func (c *shifted) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.by)
}
func (c *shifted) After(d time.Duration) <-chan time.Time { return time.After(d) }
func (c *shifted) forward(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by += d
}

// signIn posts to /session and returns the cookie as a header value.
func (w *world) signIn(body string, headers ...string) (answerOf, string) {
	w.t.Helper()
	a := w.do("POST", "/api/v1/session", "", body, headers...)
	cookie, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	return a, cookie
}

func (w *world) signedIn(user string) string {
	w.t.Helper()
	a, cookie := w.signIn(fmt.Sprintf(`{"user":%q,"password":%q}`, user, testPassword))
	if a.status != 200 || cookie == "" {
		w.t.Fatalf("sign-in: %d %s", a.status, a.raw)
	}
	return cookie
}

func (w *world) withPassword(user string, role api.UserRole) string {
	w.t.Helper()
	token := w.user(user, role)
	w.ok("PUT", "/api/v1/users/"+user+"/password", map[string]string{"password": testPassword}, nil)
	return token
}

// browser does what a page of our own origin does.
func (w *world) browser(method, path, cookie string, body any) answerOf {
	w.t.Helper()
	return w.do(method, path, "", body, "Cookie", cookie, "Origin", w.base, "Sec-Fetch-Site", "same-origin")
}

func TestSignInCode(t *testing.T) {
	clock := &shifted{}
	w := newWorld(t, func(c *Config) { c.Clock = clock })
	code, err := w.server.SignInCode(context.Background(), "root")
	must(t, err)
	body := fmt.Sprintf(`{"code":%q}`, code)
	w.refusedTo(code, "GET", "/api/v1/whoami", nil, 401, "BadToken") // a code is no token
	a, cookie := w.signIn(body)
	if a.status != 200 {
		t.Fatalf("%s", a.raw)
	}
	set := a.header.Get("Set-Cookie")
	for _, want := range []string{"fermi_session=", "Path=/", "HttpOnly", "SameSite=Strict", "Max-Age=604800"} {
		if !strings.Contains(set, want) {
			t.Errorf("the cookie %q lacks %s", set, want)
		}
	}
	if strings.Contains(set, "Secure") || strings.Contains(set, "__Host-") {
		t.Errorf("plain HTTP: %s", set)
	}
	var info sessionInfo
	must(t, json.Unmarshal(w.browser("GET", "/api/v1/session", cookie, nil).Data, &info))
	if info.User != "root" || info.ExpiresAt == nil || info.IdleAt == nil || !info.SeesAll {
		t.Errorf("%+v", info)
	}
	if a, _ := w.signIn(body); a.status != 401 || a.Reason != "BadCode" {
		t.Errorf("a replayed code: %s", a.raw)
	}
	_, secret, _ := strings.Cut(cookie, "=")
	w.refusedTo(secret, "GET", "/api/v1/whoami", nil, 401, "BadToken") // a session is no token
	if a := w.do("GET", "/api/v1/whoami", "", nil, "Cookie", "fermi_session="+w.admin); a.status != 401 {
		t.Errorf("a token as a cookie: %s", a.raw)
	}
	// Another one, made by hand, too late.
	var made codeInfo
	w.ok("POST", "/api/v1/session/code", nil, &made)
	clock.forward(6 * time.Minute)
	if a, _ := w.signIn(fmt.Sprintf(`{"code":%q}`, made.Code)); a.status != 401 || a.Reason != "BadCode" {
		t.Errorf("an old code: %s", a.raw)
	}
	if n, err := w.server.sweepOnce(context.Background()); err != nil || n != 1 {
		t.Errorf("swept %d (%v), want the old code", n, err)
	}
	if a := w.browser("GET", "/api/v1/session", cookie, nil); a.status != 200 {
		t.Errorf("the session was swept too: %s", a.raw)
	}
	raw := string(w.ok("GET", "/api/v1/audit", nil, nil).raw)
	for _, secret := range []string{code, made.Code, secret, HashSecret(secret)} {
		if strings.Contains(raw, secret) {
			t.Error("the audit holds a secret")
		}
	}
	if !strings.Contains(raw, `"sign-in"`) {
		t.Error("a sign-in is not audited")
	}
}

// TestCodeOnce: many at once, one gets in.
func TestCodeOnce(t *testing.T) {
	w := newWorld(t)
	code, err := w.server.SignInCode(context.Background(), "root")
	must(t, err)
	var wg sync.WaitGroup
	status := make([]int, 10)
	for i := range status {
		wg.Go(func() {
			resp, err := http.Post(w.base+"/api/v1/session", "application/json", strings.NewReader(fmt.Sprintf(`{"code":%q}`, code)))
			if err == nil {
				status[i] = resp.StatusCode
				_ = resp.Body.Close()
			}
		})
	}
	wg.Wait()
	slices.Sort(status)
	if status[0] != 200 || status[1] != 401 || status[9] != 401 {
		t.Errorf("%v, want one 200 and nine 401", status)
	}
}

func TestPasswords(t *testing.T) {
	w := newWorld(t)
	ann := w.withPassword("ann", api.RoleMember)
	cookie := w.signedIn("ann")
	for path, token := range map[string]string{"/api/v1/users/ann": ann, "/api/v1/users": w.admin, "/api/v1/audit": w.admin} {
		if raw := string(w.do("GET", path, token, nil).raw); strings.Contains(raw, "argon2id") {
			t.Errorf("%s shows a hash: %s", path, raw)
		}
	}
	e := w.events("/api/v1/watch/users", w.admin)
	for ev, err := e.next(); err == nil && ev.name != "synced"; ev, err = e.next() {
		if strings.Contains(ev.data, "argon2id") {
			t.Errorf("a watch shows a hash: %s", ev.data)
		}
	}
	put := func(token, user, body string) answerOf {
		return w.do("PUT", "/api/v1/users/"+user+"/password", token, body)
	}
	for _, tc := range []struct {
		token, user, body string
		status            int
		reason            string
	}{
		{w.admin, "ann", `{"password":"short"}`, 400, "InvalidField"},
		{w.admin, "ann", `{"password":"` + strings.Repeat("x", 257) + `"}`, 400, "InvalidField"},
		{w.admin, "ann", `{"password":"tab\tis no letter"}`, 400, "InvalidField"},
		{w.admin, "ann", `{"password":"long enough","nope":1}`, 400, "BadSyntax"},
		{w.admin, "ann", `{"password":"long enough"} x`, 400, "BadSyntax"},
		{w.admin, "ann", `[`, 400, "BadSyntax"},
		{w.admin, "nobody", `{"password":"long enough"}`, 404, "NotFound"},
		{ann, "root", `{"password":"long enough"}`, 404, "NotFound"},
		{ann, "ann", `{"password":"long enough"}`, 400, "InvalidField"},
		{ann, "ann", `{"password":"long enough","current":"wrong password"}`, 403, "WrongPassword"},
	} {
		if a := put(tc.token, tc.user, tc.body); a.status != tc.status || a.Reason != tc.reason || strings.Contains(string(a.raw), "long enough") {
			t.Errorf("%s: %s, want %d %s", tc.body, a.raw, tc.status, tc.reason)
		}
	}
	if a := w.browser("GET", "/api/v1/session", cookie, nil); a.status != 200 {
		t.Errorf("nothing changed, but the session ended: %s", a.raw)
	}
	// Changing it ends the sessions, not the tokens.
	if a := put(ann, "ann", fmt.Sprintf(`{"password":"another one","current":%q}`, testPassword)); a.status != 200 {
		t.Fatalf("%s", a.raw)
	}
	eventually(t, "the session ends", func() bool { return w.browser("GET", "/api/v1/session", cookie, nil).status == 401 })
	if a := w.do("GET", "/api/v1/whoami", ann, nil); a.status != 200 {
		t.Errorf("the token ended too: %s", a.raw)
	}
	if a, _ := w.signIn(`{"user":"ann","password":"another one"}`); a.status != 200 {
		t.Errorf("%s", a.raw)
	}
	for _, body := range []string{
		`{"user":"ann","password":"` + testPassword + `"}`, `{"user":"nobody","password":"another one"}`, `{"user":"root","password":"another one"}`, `{"user":"../x","password":"another one"}`,
	} {
		if a, cookie := w.signIn(body); a.status != 401 || a.Reason != "BadSignIn" || cookie != "" {
			t.Errorf("%s: %s", body, a.raw)
		}
	}
	for _, body := range []string{`{}`, `{"user":"ann"}`, `{"code":"x","user":"ann","password":"y"}`} {
		if a, _ := w.signIn(body); a.status != 400 {
			t.Errorf("%s: %s", body, a.raw)
		}
	}
	// A change through the plain verbs leaves the password alone, and takes none.
	var user api.User
	w.ok("GET", "/api/v1/users/ann", nil, &user)
	user.Meta.DisplayName, user.Status.PasswordHash = "Ann", "$argon2id$mine"
	w.ok("PUT", "/api/v1/users/ann", user, nil)
	if a, _ := w.signIn(`{"user":"ann","password":"another one"}`); a.status != 200 {
		t.Errorf("%s", a.raw)
	}
	// Disabled: out, and a session does not come back.
	_, cookie = w.signIn(`{"user":"ann","password":"another one"}`)
	for _, off := range []bool{true, false} {
		w.ok("GET", "/api/v1/users/ann", nil, &user)
		user.Spec.Disabled = off
		w.ok("PUT", "/api/v1/users/ann", user, nil)
		eventually(t, "the session ends", func() bool { return w.browser("GET", "/api/v1/session", cookie, nil).status == 401 })
		a, _ := w.signIn(`{"user":"ann","password":"another one"}`)
		if (a.status == 401) != off {
			t.Errorf("disabled %v: %s", off, a.raw)
		}
	}
}

func TestSignOut(t *testing.T) {
	w := newWorld(t)
	w.withPassword("ann", api.RoleMember)
	one, two := w.signedIn("ann"), w.signedIn("ann")
	a := w.browser("DELETE", "/api/v1/session", one, nil)
	if a.status != 200 || !strings.Contains(a.header.Get("Set-Cookie"), "Max-Age=0") {
		t.Fatalf("%s %v", a.raw, a.header)
	}
	eventually(t, "one ends", func() bool { return w.browser("GET", "/api/v1/session", one, nil).status == 401 })
	three := w.signedIn("ann")
	if a := w.browser("DELETE", "/api/v1/sessions", two, nil); a.status != 200 {
		t.Fatalf("%s", a.raw)
	}
	for _, cookie := range []string{two, three} {
		eventually(t, "all end", func() bool { return w.browser("GET", "/api/v1/session", cookie, nil).status == 401 })
	}
	w.refused("DELETE", "/api/v1/session", nil, 400, "NoSession")
	four := w.signedIn("ann")
	if a := w.browser("DELETE", "/api/v1/sessions?user=root", four, nil); a.status != 404 {
		t.Errorf("others: %s", a.raw)
	}
	w.ok("DELETE", "/api/v1/sessions?user=ann", nil, nil)
	eventually(t, "an admin ends them", func() bool { return w.browser("GET", "/api/v1/session", four, nil).status == 401 })
	// A user made again under the same name inherits nothing.
	w.ok("DELETE", "/api/v1/tokens/ann", nil, nil)
	five := w.signedIn("ann")
	w.ok("DELETE", "/api/v1/users/ann", nil, nil)
	w.ok("POST", "/api/v1/users", `{"metadata":{"name":"ann"}}`, nil)
	eventually(t, "it ends with the user", func() bool { return w.browser("GET", "/api/v1/session", five, nil).status == 401 })
	// A session cannot be written by hand.
	for _, spec := range []string{`{"use":"session"}`, `{"epoch":"x"}`, `{"idleAt":"2030-01-01T00:00:00Z"}`} {
		w.refused("POST", "/api/v1/tokens", `{"metadata":{"name":"s"},"spec":`+spec+`}`, 400, "InvalidField")
	}
}

// TestOtherReplica: a session works on every server of the store, also on one that started later,
// and ends on all of them.
func TestOtherReplica(t *testing.T) {
	w := newWorld(t)
	w.withPassword("ann", api.RoleMember)
	cookie := w.signedIn("ann")
	other, err := New(Config{Store: w.store, History: w.history, Blob: w.blob, Logs: w.logs})
	must(t, err)
	srv := httptest.NewServer(other.Handler())
	defer srv.Close()
	there := func() int {
		req, err := http.NewRequest("GET", srv.URL+"/api/v1/session", nil)
		must(t, err)
		req.Header.Set("Cookie", cookie)
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	if got := there(); got != 200 {
		t.Fatalf("on the other replica: %d", got)
	}
	if a := w.browser("DELETE", "/api/v1/session", cookie, nil); a.status != 200 {
		t.Fatalf("%s", a.raw)
	}
	eventually(t, "it ends there too", func() bool { return there() == 401 })
}

func TestSessionLife(t *testing.T) {
	clock := &shifted{}
	w := newWorld(t, func(c *Config) { c.Clock = clock })
	w.withPassword("ann", api.RoleMember)
	cookie := w.signedIn("ann")
	for range 13 { // used every eleven hours it lives, but no longer than seven days
		clock.forward(11 * time.Hour)
		// The next use must find that this one prolonged it: hours pass in between, not microseconds.
		eventually(t, "the session is prolonged", func() bool {
			a := w.browser("GET", "/api/v1/session", cookie, nil)
			if a.status != 200 {
				t.Fatalf("%s", a.raw)
			}
			var shown struct{ Data struct{ IdleAt time.Time } }
			if err := json.Unmarshal(a.raw, &shown); err != nil {
				t.Fatal(err)
			}
			return shown.Data.IdleAt.After(clock.Now().Add(11*time.Hour + time.Minute))
		})
	}
	for range 3 {
		clock.forward(11 * time.Hour)
	}
	if a := w.browser("GET", "/api/v1/session", cookie, nil); a.status != 401 || a.Reason != "NoSession" {
		t.Errorf("after seven days: %s", a.raw)
	}
	cookie = w.signedIn("ann")
	clock.forward(13 * time.Hour)
	if a := w.browser("GET", "/api/v1/session", cookie, nil); a.status != 401 {
		t.Errorf("after half a day of silence: %s", a.raw)
	}
	// No more than maxSessions at a time: the oldest go.
	first := w.signedIn("ann")
	for range maxSessions {
		w.signedIn("ann")
	}
	eventually(t, "the oldest ends", func() bool { return w.browser("GET", "/api/v1/session", first, nil).status == 401 })
}

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

// TestGuessing: wrong passwords wait longer and longer, also when they come all at once.
func TestGuessing(t *testing.T) {
	clock := &shifted{}
	w := newWorld(t, func(c *Config) { c.Clock = clock })
	w.withPassword("ann", api.RoleMember)
	bad, good := `{"user":"ann","password":"wrong password"}`, `{"user":"ann","password":"`+testPassword+`"}`
	for i := range 5 {
		if a, _ := w.signIn(bad); a.status != 401 {
			t.Fatalf("%d: %s", i, a.raw)
		}
	}
	a, _ := w.signIn(good)
	if a.status != 429 || a.Reason != "TooManySignIns" || a.header.Get("Retry-After") == "" {
		t.Fatalf("%s", a.raw)
	}
	clock.forward(2 * time.Second)
	if a, _ := w.signIn(good); a.status != 200 {
		t.Fatalf("after the wait: %s", a.raw)
	}
	th := &throttle{free: 3, cap: time.Minute, max: 100, clock: clock}
	var waits []time.Duration
	for range 12 {
		clock.forward(th.try("x"))
		wait := th.try("x")
		for wait == 0 {
			wait = th.try("x")
		}
		waits = append(waits, wait.Round(time.Second))
	}
	if !slices.IsSorted(waits) || waits[0] != time.Second || waits[len(waits)-1] != time.Minute {
		t.Errorf("%v", waits)
	}
	for i := range 1000 {
		th.try(fmt.Sprint(i))
	}
	if len(th.by) > 100 {
		t.Errorf("%d are remembered", len(th.by))
	}
	for ip, want := range map[string]string{"192.0.2.1": "192.0.2.1", "2001:db8::1": "2001:db8::/64", "2001:db8::2%eth0": "2001:db8::/64", "?": "?"} {
		if got := neighbourhood(ip); got != want {
			t.Errorf("%s: %s", ip, got)
		}
	}
}

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
	for name, e := range map[string]*events{"watch": watch, "logs": logs, "session": session} {
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

// TestHugeBody: a body of 1 GB is refused by its length, or when it passes the limit.
func TestHugeBody(t *testing.T) {
	w := newWorld(t)
	const huge = 1 << 30
	answered := 0
	for _, rt := range w.server.routes {
		if rt.body == nil || rt.id == "putArchive" {
			continue
		}
		for _, length := range []int64{huge, -1} {
			path := strings.NewReplacer("{name}", "root").Replace(rt.path)
			if rt.id == "cloneTask" || rt.id == "moveTask" {
				path = strings.Replace(rt.path, "{name}", w.anyTask(), 1)
			}
			req, err := http.NewRequest(rt.method, w.base+path, io.LimitReader(zeros{}, huge))
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
				t.Errorf("%s %s (length %d): %d %s", rt.method, rt.path, length, resp.StatusCode, raw)
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

func TestPasswordHash(t *testing.T) {
	p := newPasswords(rand.Reader)
	hash, err := p.hash(t.Context(), testPassword)
	must(t, err)
	if !strings.HasPrefix(hash, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Error(hash)
	}
	for password, want := range map[string]bool{testPassword: true, testPassword + " ": false, "": false} {
		if ok, err := p.matches(t.Context(), password, hash); ok != want || err != nil {
			t.Errorf("%q: %v %v", password, ok, err)
		}
	}
	for _, bad := range []string{"", "x", strings.Replace(hash, "m=19456", "m=9999999", 1), strings.Replace(hash, "argon2id", "argon2i", 1)} {
		if ok, _ := p.matches(t.Context(), testPassword, bad); ok {
			t.Errorf("%q matches", bad)
		}
	}
}

func FuzzPasswordHash(f *testing.F) {
	p := newPasswords(zeros{})
	hash, err := p.hash(context.Background(), testPassword)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(hash)
	f.Add("$argon2id$v=19$m=4294967295,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA")
	f.Add("$argon2id$v=19$m=19456,t=2,p=1$$")
	f.Fuzz(func(t *testing.T, text string) {
		c, salt, key, err := parseHash(text)
		if err == nil && (c.memory > maxCost.memory || c.times > maxCost.times || c.lanes > maxCost.lanes || formatHash(c, salt, key) != text) {
			t.Fatalf("%q became %+v", text, c)
		}
	})
}

func FuzzHost(f *testing.F) {
	for _, h := range []string{"localhost:1", "[::1]:7070", "evil.example", "127.0.0.1"} {
		f.Add(h)
	}
	s := &Server{hosts: []string{"fermi.example"}}
	f.Fuzz(func(t *testing.T, host string) {
		if s.knownHost(host) && strings.Contains(host, "evil") && !strings.Contains(host, "%") { // an address may carry a zone
			t.Fatalf("%q is taken for ours", host)
		}
	})
}

func TestSignInCodeOfNobody(t *testing.T) {
	w := newWorld(t)
	if _, err := w.server.SignInCode(context.Background(), "nobody"); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
}
