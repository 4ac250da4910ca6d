package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/server/door"
	"github.com/fermi-cluster/fermi/internal/server/rest"
)

// madeToken is the answer to a new token.
type madeToken struct {
	Object api.Token `json:"object"`
	Secret string    `json:"secret"`
}

// A token with an end must not make itself one without, in any way.
func TestNothingOutlivesItsMaker(t *testing.T) {
	w := newWorld(t)
	w.user("li", api.RoleMember)
	end := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	short := w.token("short", "li", "", &end)
	const tokens = "/api/v1/tokens"
	a := w.refusedTo(short, "POST", tokens, fmt.Sprintf(`{"metadata":{"name":"longer"},"spec":{"expiresAt":%q}}`, end.Add(time.Hour).Format(time.RFC3339)), 403, "OutlivesMaker")
	if len(a.Fields) != 1 || a.Fields[0].Path != "spec.expiresAt" || !strings.Contains(a.Fields[0].Message, end.Format(time.RFC3339)) {
		t.Errorf("%s", a.raw)
	}
	a = w.do("POST", tokens, short, `{"metadata":{"name":"child"}}`)
	var child madeToken
	must(t, json.Unmarshal(a.Data, &child))
	if at := child.Object.Spec.ExpiresAt; at == nil || !at.Equal(end) {
		t.Fatalf("a token of %v made one of %v", end, at)
	}
	// It must not lengthen its own life, or that of others.
	var self api.Token
	w.ok("GET", tokens+"/short", nil, &self)
	for _, at := range []*time.Time{nil, ptrTo(end.Add(time.Second))} {
		next := self
		next.Spec.ExpiresAt = at
		a := w.do("PUT", tokens+"/short", short, &next)
		if at == nil && a.status == 200 {
			var got api.Token
			must(t, json.Unmarshal(a.Data, &got))
			if got.Spec.ExpiresAt == nil || got.Spec.ExpiresAt.After(end) {
				t.Fatalf("%s", a.raw)
			}
			self = got
			continue
		}
		if a.status != 403 || a.Reason != "OutlivesMaker" {
			t.Fatalf("%s", a.raw)
		}
	}
	// Nor come back through a code, a session and a token of that.
	var code door.CodeInfo
	a = w.do("POST", "/api/v1/session/code", short, nil)
	must(t, json.Unmarshal(a.Data, &code))
	resp := w.open("POST", "/api/v1/session", "", strings.NewReader(fmt.Sprintf(`{"code":%q}`, code.Code)), "Content-Type", "application/json", "Origin", w.base)
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Fatal(resp.Status)
	}
	cookie := resp.Cookies()[0]
	req := w.open("POST", tokens, "", strings.NewReader(`{"metadata":{"name":"late"}}`), "Cookie", cookie.Name+"="+cookie.Value, "Origin", w.base)
	defer req.Body.Close()
	if req.StatusCode != 200 {
		t.Fatal(req.Status)
	}
	for _, name := range []string{"late"} {
		var got api.Token
		w.ok("GET", tokens+"/"+name, nil, &got)
		if got.Spec.ExpiresAt == nil || got.Spec.ExpiresAt.After(end) {
			t.Errorf("%s lives until %v, its maker's maker until %v", name, got.Spec.ExpiresAt, end)
		}
	}
	snap, err := w.store.List(context.Background(), api.KindToken, "", w.server.truth.Newest())
	must(t, err)
	snap.Ascend("", func(o api.Object) bool {
		if s := o.(*api.Token); s.Spec.Use == api.UseSession && s.Spec.User == "li" && s.Spec.ExpiresAt.After(end) {
			t.Errorf("the session lives until %v, the token it came from until %v", s.Spec.ExpiresAt, end)
		}
		return true
	})
}

// A token with an end leaves nothing behind that opens doors after it: no password, no key.
func TestNothingIsLeftBehind(t *testing.T) {
	w := newSecretWorld(t)
	w.user("li", api.RoleMember)
	end := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	short := w.token("short", "li", "", &end)
	const key = `{"key":"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGk8gQ8MSVzBy7H2VqWQ4LHk2qbJl8bUJ0d0mP6aUq1a li@laptop"}`
	w.refusedTo(short, "POST", "/api/v1/users/li/keys", key, 403, "OutlivesMaker")
	w.refusedTo(short, "PUT", "/api/v1/users/li/password", `{"password":"a-long-enough-one"}`, 403, "OutlivesMaker")
	long := w.token("long", "li", "", nil)
	if a := w.do("POST", "/api/v1/users/li/keys", long, key); a.status != 200 {
		t.Errorf("the control: %s", a.raw)
	}
}

func ptrTo[T any](v T) *T { return &v }

func TestTokensAreCountedByUser(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.Rate, c.Limits.Burst = 1e6, 1e6 })
	li := w.user("li", api.RoleMember) // one token already
	var made atomic.Int64
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range door.MaxTokens / 2 {
				if a := w.do("POST", "/api/v1/tokens", li, fmt.Sprintf(`{"metadata":{"name":"t-%d-%d"}}`, g, i)); a.status == 200 {
					made.Add(1)
				} else if a.Reason != "TooManyTokens" || !strings.Contains(a.Hint, "fermi token revoke") {
					t.Errorf("%s", a.raw)
				}
			}
		})
	}
	all.Wait()
	if made.Load() != door.MaxTokens-1 {
		t.Errorf("%d tokens were made beside the first", made.Load())
	}
	w.ok("POST", "/api/v1/tokens", `{"metadata":{"name":"others"}}`, nil) // nobody else is kept out
	for range 2 * door.MaxCodes {
		if a := w.do("POST", "/api/v1/session/code", li, nil); a.status != 200 {
			t.Fatalf("%s", a.raw)
		}
	}
	snap, err := w.store.List(context.Background(), api.KindToken, "", w.server.truth.Newest())
	must(t, err)
	codes := 0
	snap.Ascend("", func(o api.Object) bool {
		if s := o.(*api.Token); s.Spec.Use == api.UseCode {
			codes++
		}
		return true
	})
	if codes > door.MaxCodes+1 {
		t.Errorf("%d codes wait", codes)
	}
}

// Ten tokens of one user make no more requests than one.
func TestCallsAreCountedByUser(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.Rate, c.Limits.Burst, c.Limits.Streams = 0.001, 20, 3 })
	w.user("li", api.RoleMember)
	wang := w.user("wang", api.RoleMember)
	let := 0
	var last answerOf
	for i := range 10 {
		token := w.token(fmt.Sprintf("li-%d", i), "li", "", nil)
		for range 10 {
			if last = w.do("GET", "/api/v1/whoami", token, nil); last.status == 200 {
				let++
			}
		}
	}
	if let != 20 || last.Reason != "TooManyRequests" {
		t.Errorf("%d were let through: %s", let, last.raw)
	}
	if a := w.do("GET", "/api/v1/whoami", wang, nil); a.status != 200 {
		t.Errorf("another user was kept out: %s", a.raw)
	}
	// A task's own calls don't keep its owner out, and the owner's not the task's.
	if a := w.do("GET", "/api/v1/whoami", w.token("of-task", "li", "task-1", nil), nil); a.status != 200 {
		t.Errorf("%s", a.raw)
	}
	open := 0
	for i := range 5 {
		resp := w.open("GET", "/api/v1/watch/zones", w.token(fmt.Sprintf("wang-%d", i), "wang", "", nil), nil, "Accept", rest.MediaEvents)
		defer resp.Body.Close()
		if resp.StatusCode == 200 {
			open++
		}
	}
	if open != 3 {
		t.Errorf("%d streams of one user are open", open)
	}
}
