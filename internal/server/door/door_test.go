package door

import (
	"context"
	"crypto/rand"
	"net/http"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// FuzzSecret: no text but a well-formed one names a token.
func FuzzSecret(f *testing.F) {
	f.Add("fermi_a_0123456789012345678901234567890123456789012")
	f.Add("fermi__")
	f.Add("Bearer fermi_a_b")
	f.Fuzz(func(t *testing.T, text string) {
		if name, ok := tokenName(bearer("Bearer " + text)); ok && !api.IsName(name) {
			t.Fatalf("%q", name)
		}
	})
}

// A page of a browser can't send a header with a WebSocket: its token is a subprotocol, and nowhere else.
func TestSpoken(t *testing.T) {
	for _, c := range []struct{ upgrade, protocols, want string }{
		{"websocket", "fermi.terminal, fermi.bearer.fermi_a_b", "fermi_a_b"},
		{"WebSocket", "fermi.bearer.fermi_a_b", "fermi_a_b"},
		{"websocket", "fermi.terminal", ""},
		{"websocket", "", ""},
		{"", "fermi.bearer.fermi_a_b", ""},
		{"h2c", "fermi.bearer.fermi_a_b", ""},
	} {
		r := &http.Request{Header: http.Header{}}
		r.Header.Set("Upgrade", c.upgrade)
		r.Header.Set("Sec-WebSocket-Protocol", c.protocols)
		if got := spoken(r); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func FuzzHost(f *testing.F) {
	for _, h := range []string{"localhost:1", "[::1]:7070", "evil.example", "127.0.0.1"} {
		f.Add(h)
	}
	ours := []string{"fermi.example"}
	f.Fuzz(func(t *testing.T, host string) {
		if KnownHost(host, ours) && strings.Contains(host, "evil") && !strings.Contains(host, "%") { // an address may carry a zone
			t.Fatalf("%q is taken for ours", host)
		}
	})
}

func TestPasswordHash(t *testing.T) {
	p := newPasswords(rand.Reader)
	hash, err := p.hash(t.Context(), aPassword)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(hash, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Error(hash)
	}
	for password, want := range map[string]bool{aPassword: true, aPassword + " ": false, "": false} {
		if ok, err := p.matches(t.Context(), password, hash); ok != want || err != nil {
			t.Errorf("%q: %v %v", password, ok, err)
		}
	}
	for _, bad := range []string{"", "x", strings.Replace(hash, "m=19456", "m=9999999", 1), strings.Replace(hash, "argon2id", "argon2i", 1)} {
		if ok, _ := p.matches(t.Context(), aPassword, bad); ok {
			t.Errorf("%q matches", bad)
		}
	}
}

func FuzzPasswordHash(f *testing.F) {
	p := newPasswords(noRandom{})
	hash, err := p.hash(context.Background(), aPassword)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(hash)
	f.Add("$argon2id$v=19$m=4294967295,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA")
	f.Add("$argon2id$v=19$m=19456,t=2,p=1$$")
	f.Fuzz(func(t *testing.T, text string) {
		c, salt, key, err := parseHash(text)
		if err == nil && (c.Memory > maxCost.Memory || c.Times > maxCost.Times || c.Lanes > maxCost.Lanes || formatHash(c, salt, key) != text) {
			t.Fatalf("%q became %+v", text, c)
		}
	})
}

const aPassword = "correct horse"

type noRandom struct{}

func (noRandom) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
