package activity

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/activity"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
)

var began = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

// place is a replica at which a Watch looks.
type place struct {
	typed, moved time.Time
	names        []string
}

func (p *place) watch(c clock.Clock, n *Notebook) *Watch {
	return New(Config{
		Typed: func() (time.Time, int) { return p.typed, 1 }, Moved: func() (time.Time, int) { return p.moved, 2 },
		Foreground: func() []string { return p.names }, Notebook: n, Clock: c,
	})
}

func TestTable(t *testing.T) {
	c := clock.NewFake(began)
	p := &place{}
	w := p.watch(c, nil)
	c.Advance(time.Minute)
	table := w.Table(t.Context())
	if err := table.Check(); err != nil || table.Since != began || table.At != began.Add(time.Minute) || len(table.Signals) != 3 {
		t.Fatalf("%+v, %v", table, err)
	}
	for _, s := range table.Signals {
		if s.Active || s.Last != nil {
			t.Errorf("nothing happened: %+v", s)
		}
	}
	p.typed, p.names = c.Now(), []string{"py\x1b[31mthon", "vim", "a", "b", "c", "c"}
	w.Used(link.Usage{CPU: time.Second, At: c.Now()})
	c.Advance(10 * time.Second)
	w.Used(link.Usage{CPU: time.Second + 2*time.Second, At: c.Now()})
	w.Read([]engine.Reading{{Busy: 0.5, Used: 1, Total: 100}, {Busy: 0, Used: 9, Total: 10}})
	table = w.Table(t.Context())
	if err := table.Check(); err != nil {
		t.Fatal(err)
	}
	if s := table.Of(activity.Terminal); s.Active || !s.Last.Equal(p.typed) {
		t.Errorf("typed: %+v", s)
	}
	if s := table.Of(activity.Process); !s.Active || s.Value != "a, b, c, py[31mthon +1" {
		t.Errorf("in the foreground: %+v", s)
	}
	if s := table.Of(activity.CPU); !s.Active || fault.Unpack(s.Value).EN != "0.20 cores" || fault.Unpack(s.Value).ZH != "0.20 核" {
		t.Errorf("cores: %+v", s)
	}
	if d, m := table.Of(activity.Device), table.Of(activity.DeviceMemory); !d.Active || !m.Active || m.Value != "90 %" {
		t.Errorf("devices: %+v, %+v", d, m)
	}
	// What ends keeps the time at which it was seen last.
	seen := c.Now()
	p.names = nil
	c.Advance(5 * time.Second)
	w.Used(link.Usage{CPU: 3 * time.Second, At: c.Now()})
	table = w.Table(t.Context())
	if s := table.Of(activity.Process); s.Active || !s.Last.Equal(seen) {
		t.Errorf("after its end: %+v", s)
	}
	if s := table.Of(activity.CPU); s.Active || !s.Last.Equal(seen) {
		t.Errorf("cores that rest: %+v", s)
	}
}

// TestNotebook: what a Jupyter server answers, and what the tenant's program answers in its place.
func TestNotebook(t *testing.T) {
	last := began.Add(-time.Hour)
	kernels := fmt.Sprintf(`[{"id":"1","execution_state":"idle","last_activity":%q,"connections":1},{"execution_state":"busy","last_activity":"2099-01-01T00:00:00Z"}]`, last.Format(time.RFC3339))
	for name, c := range map[string]struct {
		answer string
		status int
		active bool
		value  string
		last   bool
	}{
		"busy":       {kernels, 200, true, "1 of 2 kernels busy", true},
		"idle":       {strings.Replace(kernels, "busy", "idle", 1), 200, false, "0 of 2 kernels busy", true},
		"none":       {`[]`, 200, false, "0 of 0 kernels busy", false},
		"refuses":    {`{}`, 403, true, "no answer", false},
		"not JSON":   {`<html>`, 200, true, "no answer", false},
		"endless":    {strings.Repeat(" ", maxAnswer+10), 200, true, "no answer", false},
		"other JSON": {`[{"last_activity":7}]`, 200, true, "no answer", false},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "token s" {
					t.Errorf("asked with %q", r.Header.Get("Authorization"))
				}
				if r.URL.Path != "/api/kernels" {
					w.WriteHeader(http.StatusNotFound)
					return
				}
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.answer))
			}))
			defer srv.Close()
			dial := func(ctx context.Context, _ int) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "tcp", srv.Listener.Addr().String())
			}
			s := NewNotebook(dial, 8888, func() string { return "s" }).look(t.Context(), began)
			if s.Active != c.active || fault.Unpack(s.Value).EN != c.value || (s.Last != nil) != c.last || s.Last != nil && !s.Last.Equal(last) {
				t.Errorf("%+v", s)
			}
		})
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	dial := func(ctx context.Context, _ int) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}
	if s := NewNotebook(dial, 8888, func() string { return "" }).look(t.Context(), began); s.Active || fault.Unpack(s.Value).EN != "not running" {
		t.Errorf("nobody listens: %+v", s)
	}
}
