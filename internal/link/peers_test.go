package link

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fermi-cluster/fermi/internal/blob/logbook"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
	"github.com/fermi-cluster/fermi/internal/link/message"
)

// replicaServer is one server among several.
type replicaServer struct {
	*server
	peers *Peers
	addr  string
	alone atomic.Bool
}

func (s *replicaServer) contact() error {
	if s.alone.Load() {
		return errNotLeading
	}
	return nil
}

// cluster is servers that know each other.
type cluster struct {
	w    *world
	list []*replicaServer
}

var clusterKey = []byte("the link key of this test, 32 b.")

func (w *world) cluster(n int) *cluster {
	w.t.Helper()
	c := &cluster{w: w}
	for i := range n {
		c.list = append(c.list, w.peered(fmt.Sprintf("p%d", i)))
	}
	return c
}

func (w *world) peered(name string) *replicaServer {
	w.t.Helper()
	s := &replicaServer{server: &server{w: w, target: "unix://" + filepath.Join(w.dir, name)}}
	s.book = logbook.New(logbook.Config{
		Blob: w.store, Log: w.quiet(), Clock: clock.Real,
		Others: func(ctx context.Context, task string, take func(string, int64, []byte), synced func()) {
			s.peers.Follow(ctx, task, take, synced)
		},
	})
	s.hub = NewHub(HubConfig{
		Blob: w.store, Logs: s.book, Tokens: w.tokens, Log: w.quiet(), Clock: w.clock, Peered: true, Tails: s.book,
		Answer: func(_ context.Context, kind, task string, body []byte) ([]byte, error) {
			return append([]byte(name+kind+task), body...), nil
		},
	})
	l, err := net.Listen("unix", filepath.Join(w.dir, name))
	if err != nil {
		w.t.Fatal(err)
	}
	pl, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	s.addr = pl.Addr().String()
	if s.peers, err = NewPeers(PeersConfig{Hub: s.hub, Key: clusterKey, Name: name, Self: s.addr, Zone: "zone of " + s.addr, Contact: s.contact, Log: w.quiet(), Clock: clock.Real}); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, run := range []func() error{
		func() error { return s.book.Run(ctx) }, func() error { return s.hub.Serve(ctx, l) },
		func() error { return s.peers.Serve(ctx, pl) }, func() error { return s.peers.Run(ctx) },
	} {
		wg.Go(func() {
			if err := run(); err != nil {
				w.t.Error(err)
			}
		})
	}
	s.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	w.t.Cleanup(s.stop)
	return s
}

// lead makes one of them the leader, and tells all.
func (c *cluster) lead(leader int, epoch int64, without ...int) {
	dead := map[int]bool{}
	for _, i := range without {
		dead[i] = true
	}
	list := []Server{{Name: "leader", Address: c.list[leader].addr, Epoch: epoch}}
	for i, s := range c.list {
		if i != leader && !dead[i] {
			list = append(list, Server{Name: fmt.Sprint(i), Address: s.addr, Epoch: epoch + int64(i) + 1})
		}
	}
	for i, s := range c.list {
		if i != leader {
			s.hub.Lead(0)
		}
	}
	c.list[leader].hub.Lead(epoch)
	for _, s := range c.list {
		s.peers.Set(list)
	}
}

// TestForwarding: a launcher attached to a follower is the leader's as if it were attached there.
func TestForwarding(t *testing.T) {
	w := newWorld(t)
	c := w.cluster(3)
	c.lead(0, 7)
	leader := c.list[0].hub
	cl, _, ord, _ := w.client(testName, w.endpoints(c.list[1].target), 0)
	eventually(t, "attached at the leader", func() bool { return leader.Attached(testName) })
	if err := leader.Go(testName, 1, first); err != nil {
		t.Fatal(err)
	}
	eventually(t, "go", func() bool { n, _ := ord.heard(); return n > 0 })
	if ord.goes[0] != 7 {
		t.Fatal(ord.goes)
	}
	if err := c.list[1].hub.Go(testName, 1, first); err == nil {
		t.Error("a follower gave an order")
	}
	cl.Started(time.Now(), 42)
	eventually(t, "running", func() bool { s, _ := leader.State(testName); return s == engine.StateRunning })
	cl.Usage(Usage{CPU: time.Second, RSS: 10, Processes: 3})
	eventually(t, "usage", func() bool { u, ok := leader.Usage(testName); return ok && u.RSS == 10 && u.Processes == 3 })

	cl.Ranks(message.Ranks{Generation: 1, Holding: message.Holding{Mark: 3, Offer: 1}})
	fresh := func(h *Hub) func() bool {
		return func() bool { r, _ := h.Ranks(testName); return r.Offer == 1 && r.Fresh }
	}
	eventually(t, "ranks", fresh(leader))

	streams := cl.streams()
	// The third leads: the launcher's stream stays, hears of it, and takes its orders.
	c.lead(2, 9)
	eventually(t, "attached at the new leader", func() bool { return c.list[2].hub.Attached(testName) })
	eventually(t, "epoch 9", func() bool { return cl.Epoch() == 9 })
	eventually(t, "ranks as the launcher tells them the new leader", fresh(c.list[2].hub))
	if s, _ := c.list[2].hub.State(testName); s != engine.StateRunning {
		t.Errorf("state %v at the new leader", s)
	}
	if err := c.list[2].hub.Stop(testName, 3*time.Second); err != nil {
		t.Fatal(err)
	}
	eventually(t, "stop", func() bool { _, n := ord.heard(); return n == 1 })
	if cl.streams() != streams {
		t.Errorf("the launcher dialled %d times", cl.streams())
	}
	if leader.Attached(testName) {
		t.Error("the old leader still counts it")
	}

	// Its server leads: still the same stream.
	c.lead(1, 11)
	eventually(t, "attached at its own server", func() bool { return c.list[1].hub.Attached(testName) && cl.Epoch() == 11 })
	eventually(t, "ranks as the launcher tells them its own server", fresh(c.list[1].hub))
	if cl.streams() != streams {
		t.Errorf("the launcher dialled %d times", cl.streams())
	}

	// Its server dies: it goes to another, through which the leader has it.
	w.endpoints(c.list[1].target, c.list[2].target)
	c.lead(0, 13)
	eventually(t, "attached", func() bool { return leader.Attached(testName) })
	c.list[1].stop()
	c.lead(0, 13, 1)
	eventually(t, "attached elsewhere", func() bool {
		return cl.streams() > streams && leader.Attached(testName) && c.list[2].hub.Attached(testName)
	})
	cl.Exited(engine.Exit{Code: 0, Reason: engine.ReasonSucceeded, At: time.Now()})
	eventually(t, "exited", func() bool { s, _ := leader.State(testName); return s == engine.StateExited })

	// Nobody leads, and the server is cut off: the door is closed, so that launchers look elsewhere.
	for _, s := range c.list {
		s.alone.Store(true)
		s.hub.Lead(0)
		s.peers.Set(nil)
	}
	eventually(t, "hung up on", func() bool { return !c.list[2].hub.Attached(testName) })
}

func (c *Client) streams() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessions
}

// TestOlderStreamLoses: what arrives late about an older stream of a launcher changes nothing.
func TestOlderStreamLoses(t *testing.T) {
	w := newWorld(t)
	h := w.peered("p").hub
	h.Lead(3)
	one, two := &follower{names: map[engine.Name]struct{}{}}, &follower{names: map[engine.Name]struct{}{}}
	h.roll.followers[one], h.roll.followers[two] = struct{}{}, struct{}{}
	one.cancel, two.cancel = func(error) {}, func(error) {}
	facts := func(attached bool, session int64) *linkpb.Facts {
		return &linkpb.Facts{Replica: string(testName), Attached: attached, Session: session, State: string(engine.StateRunning)}
	}
	for i, step := range []struct {
		f    *follower
		m    *linkpb.Facts
		want *follower
	}{
		{one, facts(true, 1), one}, {one, facts(true, 3), one}, {two, facts(true, 2), one}, {two, facts(false, 2), one},
		{two, facts(true, 4), two}, {one, facts(false, 3), two}, {two, facts(false, 4), nil},
	} {
		if err := (&peerServer{hub: h}).takeFacts(step.f, step.m); err != nil {
			t.Fatal(err)
		}
		var got *follower
		if p := h.roll.peers[testName]; p != nil {
			got = p.via
		}
		if got != step.want {
			t.Fatalf("step %d: it is with the wrong server", i)
		}
	}
	for _, bad := range []*linkpb.Facts{
		{}, {Replica: "x", State: "Running"}, {Replica: string(testName), State: "Dancing"}, {Replica: string(testName), State: "Running", Session: -1},
		{Replica: string(testName), State: "Running", Usage: &linkpb.Usage{RssBytes: -1}},
	} {
		if (&peerServer{hub: h}).takeFacts(one, bad) == nil {
			t.Errorf("taken: %v", bad)
		}
	}
}

// TestStrangers: who has not the cluster's key gets no word.
func TestStrangers(t *testing.T) {
	w := newWorld(t)
	s := w.peered("p")
	s.hub.Lead(3)
	stranger, err := NewPeers(PeersConfig{Hub: s.hub, Key: []byte("another key of thirty-two bytes."), Log: w.quiet(), Clock: clock.Real})
	if err != nil {
		t.Fatal(err)
	}
	friend, err := NewPeers(PeersConfig{Hub: s.hub, Key: clusterKey, Log: w.quiet(), Clock: clock.Real})
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]*Peers{"stranger": stranger, "friend": friend} {
		p.Set([]Server{{Name: "p", Address: s.addr, Epoch: 3}})
		got, err := p.Ask(t.Context(), "why", "t", []byte("?"))
		if name == "stranger" && err == nil || name == "friend" && (err != nil || string(got) != "pwhyt?") {
			t.Errorf("%s: %q %v", name, got, err)
		}
		conn, err := p.conn(s.addr)
		if err != nil {
			t.Fatal(err)
		}
		stream, err := linkpb.NewPeerClient(conn).Forward(t.Context())
		if err == nil {
			_ = stream.Send(&linkpb.FromFollower{Message: &linkpb.FromFollower_Hello{Hello: &linkpb.FollowerHello{Name: "x", Epoch: 2}}})
			_, err = stream.Recv()
		}
		if status.Code(err) != codes.Unavailable { // the friend means another leader
			t.Errorf("%s forwards: %v", name, err)
		}
		p.Set(nil)
	}
}

// TestTails: a line that is only in the memory of one server is shown by all, also when the launcher moves.
func TestTails(t *testing.T) {
	w := newWorld(t)
	c := w.cluster(3)
	c.lead(0, 7)
	cl, spool, _, _ := w.client(testName, w.endpoints(c.list[1].target), 0)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	var mu sync.Mutex
	got := make([][]string, len(c.list))
	var wg sync.WaitGroup
	for i, s := range c.list {
		wg.Go(func() {
			err := s.book.Read(ctx, "task-a", logbook.ReadOptions{Follow: true, Done: done}, func(_ string, l logbook.Line) error {
				mu.Lock()
				defer mu.Unlock()
				got[i] = append(got[i], string(l.Text))
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wrote := 0
	write := func(n int) {
		for range n {
			spool.add(wrote, fmt.Sprintf("line %d", wrote))
			wrote++
		}
	}
	everywhere := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(got[0]) == wrote && len(got[1]) == wrote && len(got[2]) == wrote
	}
	write(100)
	eventually(t, "100 lines on every server", everywhere)
	if cl.Durable() != 0 {
		t.Fatal("they are committed: this shows nothing")
	}
	if lines := w.lines(c.list[2].server); len(lines) != 100 {
		t.Errorf("a plain read elsewhere gives %d lines", len(lines))
	}
	streams := cl.streams()
	w.endpoints(c.list[2].target, c.list[0].target)
	c.list[1].hub.roll.mu.Lock()
	c.list[1].hub.roll.peers[testName].hangUp(errNotLeading)
	c.list[1].hub.roll.mu.Unlock()
	eventually(t, "moved", func() bool { return cl.streams() > streams && c.list[0].hub.Attached(testName) })
	write(100)
	eventually(t, "200 lines on every server", everywhere)
	spool.close()
	<-cl.Shipped()
	close(done)
	wg.Wait()
	for i := range c.list {
		for j, text := range got[i] {
			if text != fmt.Sprintf("line %d", j) {
				t.Fatalf("server %d: line %d is %q", i, j, text)
			}
		}
		if len(got[i]) != wrote {
			t.Errorf("server %d: %d lines of %d", i, len(got[i]), wrote)
		}
	}
}
