package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

func (w *world) withPassword(user string, role api.UserRole) string {
	w.t.Helper()
	token := w.user(user, role)
	w.ok("PUT", "/api/v1/users/"+user+"/password", map[string]string{"password": testPassword}, nil)
	return token
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
}
