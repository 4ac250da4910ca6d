package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/link/agency"
	"github.com/fermi-cluster/fermi/internal/link/endpoint"
)

// TestCallHome: what a replica of a joined machine says comes to the API and back, whole, several at a time; a machine that is known no more is
// served no more, and neither is one whose servers are gone.
func TestCallHome(t *testing.T) {
	key := []byte(strings.Repeat("h", 32))
	keys := func() [][]byte { return [][]byte{key} }
	log := slog.New(slog.DiscardHandler)
	var gone atomic.Bool
	desk := agency.NewDesk(agency.DeskConfig{
		Keys: keys, Version: "dev", Log: log,
		Known: func(context.Context, agency.Identity) error {
			if gone.Load() {
				return agency.ErrRemoved
			}
			return nil
		},
		Join: func(_ context.Context, w agency.Wish) (agency.Joined, error) {
			return agency.Joined{Node: w.Name, ID: "id", Zone: "z"}, nil
		},
	})
	calls := desk.Calls()
	api := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		body, rerr := io.ReadAll(r.Body)
		if err := errors.Join(err, rerr); err != nil || host != "127.0.0.1" {
			http.Error(w, "from "+r.RemoteAddr, http.StatusBadRequest)
			return
		}
		_, _ = w.Write(body)
	})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var servers, agents sync.WaitGroup
	servers.Go(func() {
		hub := link.NewHub(link.HubConfig{Tokens: link.NewTokens(key), Log: log, Clock: clock.Real})
		_ = hub.Serve(ctx, tls.NewListener(l, endpoint.ServerTLS(keys)), func(r grpc.ServiceRegistrar) { desk.Register(r) })
	})
	servers.Go(func() { _ = api.Serve(calls) })
	stop := sync.OnceFunc(func() { cancel(); _ = api.Close(); servers.Wait() })
	defer stop()

	target, err := endpoint.Target("host:1", key)
	if err != nil {
		t.Fatal(err)
	}
	_, pin, _ := strings.Cut(target, "#")
	m, err := agency.Join(ctx, t.TempDir(), []string{l.Addr().String()}, agency.Token{Secret: "s", Pin: pin}, agency.Wish{Name: "n", Version: "dev"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	home, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	atHome, leave := context.WithCancel(t.Context())
	defer agents.Wait()
	defer leave()
	a := &agent{cfg: Config{Member: m, Log: log}}
	agents.Go(func() { _ = a.callHome(atHome, home) })

	ask := func(text string) (string, error) {
		transport := &http.Transport{DisableKeepAlives: true}
		r, err := (&http.Client{Transport: transport}).Post("http://"+home.Addr().String()+"/", "text/plain", strings.NewReader(text))
		if err != nil {
			return "", err
		}
		defer r.Body.Close()
		got, err := io.ReadAll(r.Body)
		if r.StatusCode != http.StatusOK {
			err = errors.Join(err, errors.New(string(got)))
		}
		return string(got), err
	}
	var several sync.WaitGroup
	for i := range 8 {
		several.Go(func() {
			text := strings.Repeat(string(rune('a'+i)), 300_000)
			if got, err := ask(text); err != nil || got != text {
				t.Errorf("%d of %d bytes came back: %v", len(got), len(text), err)
			}
		})
	}
	several.Wait()
	gone.Store(true)
	if got, err := ask("x"); err == nil {
		t.Errorf("a machine that was removed is answered: %q", got)
	}
	gone.Store(false)
	stop()
	if got, err := ask("x"); err == nil {
		t.Errorf("without a server: %q", got)
	}
}
