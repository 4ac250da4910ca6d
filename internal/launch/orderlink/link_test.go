package orderlink

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/launch"
	"github.com/fermi-cluster/fermi/internal/launch/orderstest"
	"github.com/fermi-cluster/fermi/internal/link"
)

// server is the other side: what it would answer, and what it says.
type server struct {
	l *Link

	mu   sync.Mutex
	spec *record.Spec
	away int // how often it does not answer
}

func (s *server) fetch(context.Context) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away > 0 {
		s.away--
		return nil, status.Error(codes.Unavailable, "away")
	}
	if s.spec == nil {
		return nil, status.Error(codes.NotFound, "no such replica")
	}
	return json.Marshal(s.spec)
}

func (s *server) Spec(r engine.Replica) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.l.cfg.Replica = r.Name
	s.spec = &record.Spec{Replica: r, Link: record.Link{Endpoints: "there"}}
	return nil
}

func (s *server) Lead(epoch int64) error {
	s.l.lead(epoch)
	return nil
}

func (s *server) Stop(epoch int64, grace time.Duration) error {
	s.l.stop(epoch, grace)
	return nil
}

func open(t *testing.T) (launch.Orders, orderstest.Leader) {
	l, err := Open(Config{Dir: t.TempDir(), Replica: "task-1-worker-0-1", Endpoints: "here"})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{l: l, away: 1}
	l.fetch = s.fetch
	return l, s
}

func TestLink(t *testing.T) { orderstest.Run(t, open) }

// TestKept: what was told once is known without a server, and servers are those that this launcher was given.
func TestKept(t *testing.T) {
	o, other := open(t)
	if err := other.Spec(engine.Replica{Name: "task-1-worker-0-1", Command: []string{"true"}}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := o.Spec(); err != nil {
		t.Fatal(err)
	}
	other.(*server).spec = nil
	cfg := o.(*Link).cfg
	cfg.Address = "10.0.0.7"
	again, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	again.fetch = other.(*server).fetch
	if r, ends, err := again.Spec(); err != nil || r.Name != "task-1-worker-0-1" || ends.Endpoints != "here" || ends.Address != "10.0.0.7" {
		t.Errorf("%+v %+v %v", r, ends, err)
	}
}

// TestAnother: the records of another replica are not taken.
func TestAnother(t *testing.T) {
	o, other := open(t)
	if err := other.Spec(engine.Replica{Name: "task-2-worker-0-1", Command: []string{"true"}}); err != nil {
		t.Fatal(err)
	}
	o.(*Link).cfg.Replica = "task-1-worker-0-1"
	if _, _, err := o.Spec(); err == nil {
		t.Error("taken")
	}
}

type heard struct {
	link.Orders
	gone, stopped int
}

func (h *heard) Go(int64, link.Generation) { h.gone++ }
func (h *heard) Stop(time.Duration)        { h.stopped++ }

// TestThrough: what a server says is known to the orders before the launcher acts on it.
func TestThrough(t *testing.T) {
	o, _ := open(t)
	var h heard
	words := o.(*Link).Through(&h)
	words.Go(7, link.Generation{Number: 1})
	words.Stop(time.Second)
	if epoch, err := o.Epoch(); err != nil || epoch != 7 || h.gone != 1 || h.stopped != 1 {
		t.Error(epoch, err, h)
	}
	if wish, ok, err := o.Stop(7); !ok || err != nil || wish.Grace != time.Second {
		t.Error(wish, ok, err)
	}
}
