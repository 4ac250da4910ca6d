package gateway

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/serving"
)

// pipes is a listener whose connections lie in memory, so that all of it can live in a bubble of testing/synctest, where
// hours of silence pass at once.
type pipes struct {
	come chan net.Conn
	end  chan struct{}
	once sync.Once
}

func newPipes() *pipes { return &pipes{come: make(chan net.Conn), end: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.come:
		return c, nil
	case <-p.end:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.end) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.come <- there:
		return here, nil
	case <-p.end:
		return nil, &net.OpError{Op: "dial", Net: "pipe", Err: errors.New("nobody listens")}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// newBubble is a world in memory: replicas are reached through their agents, which are pipes.
func newBubble(t *testing.T) (*world, *http.Client) {
	w := newKnown(t)
	replicas := map[string]*pipes{}
	w.g = New(Config{Store: w.known, Far: func(ctx context.Context, via serving.Via, _ int) (net.Conn, error) {
		return replicas[via.Replica].dial(ctx)
	}})
	close(w.g.filled)
	w.start = func(name string, h http.Handler) serving.ServiceEndpoint {
		l := newPipes()
		replicas[name] = l
		srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
		go func() { _ = srv.Serve(l) }()
		t.Cleanup(func() { _ = srv.Close() })
		return serving.ServiceEndpoint{Replica: name, Address: "10.0.0.1:80", Revision: 1, Via: &serving.Via{Node: "n", Agent: "a:1", Replica: name}}
	}
	front := newPipes()
	srv := &http.Server{Handler: w.g, ReadHeaderTimeout: time.Minute}
	go func() { _ = srv.Serve(front) }()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return front.dial(ctx) }}
	w.url = "http://gateway"
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = srv.Close()
		w.g.lines.Close()
	})
	return w, &http.Client{Transport: transport}
}

// patient is for machines that do much else.
const patient = 2 * time.Minute

// eventually waits for a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patient); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}
