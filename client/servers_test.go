package client

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/test/foreign"
)

// TestServers: reads go on at the next server whatever the first does, writes only when it did nothing.
func TestServers(t *testing.T) {
	var calls [3]atomic.Int32
	behave := make([]atomic.Value, 3)
	list := ""
	for i := range 3 {
		behave[i].Store("good")
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			calls[i].Add(1)
			switch behave[i].Load() {
			case "cut off":
				refuse(w, http.StatusServiceUnavailable, "CutOff")
			case "unknown":
				refuse(w, http.StatusServiceUnavailable, "StoreUnavailable")
			case "silent":
				<-r.Context().Done()
			default:
				answer(w, map[string]any{"metadata": map[string]any{"name": "a"}})
			}
		}))
		t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
		list += srv.URL + ","
	}
	list = "http://" + foreign.Nobody(t) + " , " + list[:len(list)-1]
	c, err := New(Config{Server: list})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdle)
	queue := &api.Queue{Meta: api.Meta{Name: "a"}}
	read := func() error { _, err := c.Get(t.Context(), api.KindQueue, "", "a"); return err }
	write := func() error { _, err := c.Create(t.Context(), queue, false); return err }
	if err := write(); err != nil || calls[0].Load() != 1 {
		t.Fatalf("nobody at the first address: %v", err)
	}
	if err := read(); err != nil || calls[0].Load() != 2 {
		t.Fatalf("the one that worked is kept: %v", err)
	}
	behave[0].Store("cut off")
	if err := write(); err != nil || calls[1].Load() != 1 {
		t.Fatalf("a server that did nothing: %v", err)
	}
	behave[1].Store("unknown")
	if err := write(); !fault.Is(err, fault.Unavailable) || calls[2].Load() != 0 {
		t.Fatalf("a write with an unknown end was repeated, or forgotten: %v", err)
	}
	behave[2].Store("silent")
	behave[0].Store("good")
	if err := read(); err != nil {
		t.Fatalf("a silent server: %v", err)
	}
}

// FuzzServers: what is taken for addresses is at least one, at most so many, and each has a host.
func FuzzServers(f *testing.F) {
	f.Add("127.0.0.1:7070")
	f.Add("http://a:1, https://b:2/x/,c")
	f.Fuzz(func(t *testing.T, list string) {
		bases, err := parseServers(list)
		if err == nil && (len(bases) == 0 || len(bases) > maxServers) {
			t.Fatal(len(bases))
		}
		for _, u := range bases {
			if u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
				t.Fatal(u)
			}
		}
	})
}
