package port

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/seal"
)

func env(name, project string) *devenv.DevEnvironment {
	return &devenv.DevEnvironment{Meta: api.Meta{ID: "env-01234567890123456789", Name: name, Project: project}}
}

// TestAddresses: what is written as a host is read back as the same environment; names that are not clear use the id.
func TestAddresses(t *testing.T) {
	p := &Ports{Domain: "apps.example.com"}
	for _, e := range []*devenv.DevEnvironment{env("lab", "team"), env("a-b", "c-d"), env("a--b", "c"), env(strings.Repeat("x", 60), "team"), env("8888", "1")} {
		for _, domain := range []string{local, p.Domain} {
			got, ok := p.OfHost(strings.ToUpper(label(e, 8888)) + "." + domain + ":7070")
			if !ok || got.Port != 8888 || got.ID != e.Meta.ID && (got.Name != e.Meta.Name || got.Project != e.Meta.Project) {
				t.Errorf("%s: %+v, %v", label(e, 8888), got, ok)
			}
		}
		if got, rest, ok := ofPath(pathOf(e, 80) + "x/y"); !ok || rest != "/x/y" || got.Name != e.Meta.Name || got.Project != e.Meta.Project || got.Port != 80 {
			t.Errorf("%s: %+v, %q, %v", pathOf(e, 80), got, rest, ok)
		}
	}
	for _, host := range []string{"localhost:7070", "127.0.0.1:7070", "apps.example.com", "x.localhost", "0--a--b.localhost", "70000--a--b.localhost", "80--a--b.c.localhost", "80--a--b.example.com", "80--.localhost", "80--a--b--c.localhost"} {
		if got, ok := p.OfHost(host); ok {
			t.Errorf("%s is taken for %+v", host, got)
		}
	}
	for _, path := range []string{"/env/", "/env/a/b/80", "/env/a/../80/", "/env/A/b/80/", "/env/a/b/x/", "/environment/a/b/80/"} {
		if got, _, ok := ofPath(path); ok {
			t.Errorf("%s is taken for %+v", path, got)
		}
	}
	for host, want := range map[string]string{"127.0.0.1:7070": "http://80--lab--team.localhost:7070/", "localhost": "http://80--lab--team.localhost/", "[::1]:1": "http://80--lab--team.localhost:1/", "fermi.example.com": ""} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = host
		if got := (&Ports{}).urlOf(r, env("lab", "team"), 80); got != want {
			t.Errorf("%s: %q", host, got)
		}
	}
}

// TestPasses: a code or cookie is good for its environment, port and time, and is what it is.
func TestPasses(t *testing.T) {
	box, err := seal.New(seal.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	c := clock.NewFake(time.Unix(1_000_000, 0))
	p, e := &Ports{Box: box, Clock: c}, env("lab", "team")
	good := pass{Token: "t", TokenID: "i", Env: e.Meta.ID, Port: 80, Ends: c.Now().Add(time.Minute)}
	code := box.Seal(good.text(), contextCode)
	if got, err := p.read(code, contextCode, e, 80); err != nil || got.Token != "t" || got.TokenID != "i" {
		t.Errorf("%+v, %v", got, err)
	}
	other := env("lab", "team")
	other.Meta.ID = "env-other"
	for name, try := range map[string]func() error{
		"another port":        func() error { _, err := p.read(code, contextCode, e, 81); return err },
		"another environment": func() error { _, err := p.read(code, contextCode, other, 80); return err },
		"as a cookie":         func() error { _, err := p.read(code, contextCookie, e, 80); return err },
		"cut":                 func() error { _, err := p.read(code[:len(code)-8], contextCode, e, 80); return err },
		"too late":            func() error { c.Advance(time.Minute); _, err := p.read(code, contextCode, e, 80); return err },
	} {
		if try() == nil && name != "too late" {
			t.Errorf("%s is let in", name)
		}
	}
	if _, err := p.read(code, contextCode, e, 80); err == nil {
		t.Error("too late, and let in")
	}
	if !p.spent.use(code, good.Ends, time.Unix(1_000_000, 0)) || p.spent.use(code, good.Ends, time.Unix(1_000_000, 0)) {
		t.Error("a code works once")
	}
}

func TestOurs(t *testing.T) {
	for name, want := range map[string]bool{"fermi_port": true, "__Host-fermi_session": true, "__Secure-fermi_x": true, "own": false, "_xsrf": false} {
		if isOurs(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
	for header, want := range map[string]bool{"Bearer fermi_a_b": true, "bearer  fermi_a_b": true, "Bearer fermireplica_a_b": true, "token abc": false, "Bearer abc": false, "": false} {
		if _, ok := ourToken(header); ok != want {
			t.Errorf("%q: %v", header, ok)
		}
	}
}

// TestForeignPages: a page of another host follows links to ours, and uses nothing else with the cookie that browsers send along.
func TestForeignPages(t *testing.T) {
	for _, c := range []struct {
		name    string
		headers map[string]string
		foreign bool
	}{
		{"a program", nil, false},
		{"typed", map[string]string{"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, false},
		{"its own page", map[string]string{"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "Origin": "https://8888--a--b.apps.example.com"}, false},
		{"its own frame", map[string]string{"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, false},
		{"a link", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, false},
		{"a neighbour's script", map[string]string{"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}, true},
		{"a neighbour's frame", map[string]string{"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, true},
		{"a neighbour's fetch", map[string]string{"Origin": "https://80--x--y.apps.example.com"}, true},
		{"no origin to name", map[string]string{"Origin": "null"}, true},
	} {
		r := httptest.NewRequest("GET", "https://8888--a--b.apps.example.com/", nil)
		for k, v := range c.headers {
			r.Header.Set(k, v)
		}
		if got := isForeign(r); got != c.foreign {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
