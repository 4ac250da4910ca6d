package agency

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/engine/agentengine"
)

// noted is a clock on which every wait is over at once, and noted.
type noted struct{ waits chan time.Duration }

func (noted) Now() time.Time { return time.Unix(0, 0) }
func (c noted) After(d time.Duration) <-chan time.Time {
	c.waits <- d
	over := make(chan time.Time, 1)
	over <- time.Time{}
	return over
}

// TestPauses: an agent that finds no server for long does not wait so long that a server which came back, or was elected, is without it for seconds.
func TestPauses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := noted{make(chan time.Duration)}
	m := &Member{dir: t.TempDir(), log: slog.New(slog.DiscardHandler), clock: c, key: key, card: card{Node: "n", Given: []string{nobody}, Pin: base64.RawURLEncoding.EncodeToString(public)}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = m.Run(ctx, func(_ context.Context, s agentengine.Stream, _ func()) error {
			_, err := s.Recv()
			return err
		})
	}()
	for i := range 20 {
		if d := <-c.waits; d > 3*time.Second {
			t.Errorf("after %d rounds it waits for %s", i+1, d)
		}
	}
	cancel()
	select {
	case <-c.waits:
	case <-ended:
	}
	<-ended
}
