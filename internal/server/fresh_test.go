package server

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/truth"
)

// TestContact: a server that may know only old things answers nobody, ends its streams, and goes on later.
func TestContact(t *testing.T) {
	var cut atomic.Bool
	w := newWorld(t, func(c *Config) {
		c.Limits.Recheck = 1 // at once
		c.Contact = func() error {
			if cut.Load() {
				return fault.New(fault.Unavailable, "CutOff", fault.T("cut off", "失去联系"))
			}
			return nil
		}
	})
	get := func(path, header string) (int, string) {
		t.Helper()
		req, err := http.NewRequest(http.MethodGet, w.base+path, nil)
		must(t, err)
		req.Header.Set("Authorization", "Bearer "+w.admin)
		if header != "" {
			req.Header.Set(rest.HeaderRead, header)
		}
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		defer resp.Body.Close()
		var body strings.Builder
		buf := make([]byte, 4096)
		for {
			n, err := resp.Body.Read(buf)
			body.Write(buf[:n])
			if err != nil {
				return resp.StatusCode, body.String()
			}
		}
	}
	for header, want := range map[string]int{"": 200, rest.ReadFresh: 200, "stale": 400} {
		if status, body := get(rest.Prefix+"/queues/default", header); status != want {
			t.Errorf("Fermi-Read %q: %d %s", header, status, body)
		}
	}
	ended := make(chan string, 1)
	go func() {
		_, body := get(rest.Prefix+"/watch/queues", "")
		ended <- body
	}()
	cut.Store(true)
	if body := <-ended; !strings.Contains(body, "CutOff") && !strings.Contains(body, "cut off") {
		t.Errorf("the stream ended with %q", body)
	}
	for _, header := range []string{"", rest.ReadFresh} {
		if status, body := get(rest.Prefix+"/queues/default", header); status != 503 || !strings.Contains(body, "CutOff") {
			t.Errorf("cut off: %d %s", status, body)
		}
	}
	if status, _ := get("/healthz", ""); status != 200 {
		t.Errorf("the process lives: %d", status)
	}
	cut.Store(false)
	if status, body := get(rest.Prefix+"/queues/default", rest.ReadFresh); status != 200 {
		t.Errorf("back: %d %s", status, body)
	}
}

// silent is a store that answers what it has in its cache, and cannot say what else was written.
type silent struct{ truth.Store }

func (silent) Now(context.Context) (int64, error) {
	return 0, fault.New(fault.Unavailable, "StoreUnavailable", fault.T("the store does not answer", "存储未响应"))
}

// TestNobodyKnows: where another server may have made a thing and the store does not answer, nobody is told that there is none.
func TestNobodyKnows(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.Contact = func() error { return nil }
		c.Store = silent{c.Store}
	})
	for _, path := range []string{"/training-tasks/none", "/training-tasks/none/logs", "/queues/none"} {
		req, err := http.NewRequest(http.MethodGet, w.base+rest.Prefix+path, nil)
		must(t, err)
		req.Header.Set("Authorization", "Bearer "+w.admin)
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
}
