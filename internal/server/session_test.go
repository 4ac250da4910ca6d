package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/door"
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
	var info door.SessionInfo
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
	var made door.CodeInfo
	w.ok("POST", "/api/v1/session/code", nil, &made)
	clock.forward(6 * time.Minute)
	if a, _ := w.signIn(fmt.Sprintf(`{"code":%q}`, made.Code)); a.status != 401 || a.Reason != "BadCode" {
		t.Errorf("an old code: %s", a.raw)
	}
	if n, err := w.server.sessions.Sweep(context.Background()); err != nil || n != 1 {
		t.Errorf("swept %d (%v), want the old code", n, err)
	}
	if a := w.browser("GET", "/api/v1/session", cookie, nil); a.status != 200 {
		t.Errorf("the session was swept too: %s", a.raw)
	}
	raw := string(w.ok("GET", "/api/v1/audit", nil, nil).raw)
	for _, secret := range []string{code, made.Code, secret, door.HashSecret(secret)} {
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
	// No more than MaxSessions at a time: the oldest go.
	first := w.signedIn("ann")
	for range door.MaxSessions {
		w.signedIn("ann")
	}
	eventually(t, "the oldest ends", func() bool { return w.browser("GET", "/api/v1/session", first, nil).status == 401 })
}

func TestSignInCodeOfNobody(t *testing.T) {
	w := newWorld(t)
	if _, err := w.server.SignInCode(context.Background(), "nobody"); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
}
