package callhome_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/accept"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/link/callhome"
	"github.com/fermi-cluster/fermi/internal/link/endpoint"
)

const replica = engine.Name("task-a-worker-0-1")

// TestCarry: what processes beside a launcher say comes to the API and back, whole, several at a time; without the replica's token nobody is served, and a server
// that is gone takes no call.
func TestCarry(t *testing.T) {
	key := []byte(strings.Repeat("k", 32))
	keys := func() [][]byte { return [][]byte{key} }
	log := slog.New(slog.DiscardHandler)
	calls := callhome.New()
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
	var servers sync.WaitGroup
	tokens := link.NewTokens(key)
	servers.Go(func() {
		hub := link.NewHub(link.HubConfig{Tokens: tokens, Log: log, Clock: clock.Real})
		_ = hub.Serve(ctx, tls.NewListener(l, endpoint.ServerTLS(keys)), calls.Register)
	})
	servers.Go(func() { _ = api.Serve(calls) })
	stop := sync.OnceFunc(func() { cancel(); _ = api.Close(); servers.Wait() })
	defer stop()

	target, err := endpoint.Target(l.Addr().String(), key)
	if err != nil {
		t.Fatal(err)
	}
	ends := filepath.Join(t.TempDir(), "ends")
	if err := os.WriteFile(ends, []byte(target+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var launchers sync.WaitGroup
	ctx, leave := context.WithCancel(t.Context())
	defer launchers.Wait()
	defer leave()
	// home is where processes beside the launcher with this token call.
	home := func(token string) string {
		c, err := link.NewClient(link.ClientConfig{Name: replica, Token: token, Endpoints: ends, Log: log, Clock: clock.Real})
		if err != nil {
			t.Fatal(err)
		}
		at, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		launchers.Go(func() {
			_ = accept.Serve(ctx, at, 8, nil, func(ctx context.Context, conn net.Conn) { _ = callhome.Source{Client: c}.Carry(ctx, conn) })
		})
		return "http://" + at.Addr().String() + "/"
	}
	ask := func(at, text string) (string, error) {
		r, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Post(at, "text/plain", strings.NewReader(text))
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
	mine := home(tokens.Mint(replica))
	var several sync.WaitGroup
	for i := range 8 {
		several.Go(func() {
			text := strings.Repeat(string(rune('a'+i)), 300_000)
			if got, err := ask(mine, text); err != nil || got != text {
				t.Errorf("%d of %d bytes came back: %v", len(got), len(text), err)
			}
		})
	}
	several.Wait()
	if got, err := ask(home(tokens.Mint("task-b-worker-0-1")), "x"); err == nil {
		t.Errorf("with another's token: %q", got)
	}
	stop()
	if got, err := ask(mine, "x"); err == nil {
		t.Errorf("without a server: %q", got)
	}
}
