package agent

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/joined"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/agentengine"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/link/agency"
	"github.com/fermi-cluster/fermi/internal/link/endpoint"
)

// still is a machine's engine on which replicas run and nothing else happens.
type still struct {
	*engine.Board
	ready chan struct{}
}

func newStill(node string, replicas int) still {
	s := still{engine.NewBoard(), make(chan struct{})}
	for i := range replicas {
		s.Put(engine.Observation{Name: engine.NameOf("task-"+node, "worker", i, 1), TaskID: "task-" + node, State: engine.StateRunning, Node: node})
	}
	close(s.ready)
	return s
}

func (s still) Run(ctx context.Context) error { <-ctx.Done(); return nil }
func (s still) Ready() <-chan struct{}        { return s.ready }

func (still) Start(context.Context, engine.Replica) error            { return nil }
func (still) Stop(context.Context, engine.Name, time.Duration) error { return nil }
func (still) Remove(context.Context, engine.Name) error              { return nil }

// stormServer serves agents at an address, as the leader of an epoch.
func stormServer(t *testing.T, l net.Listener, key []byte, epoch int64, nodes []api.Node, change ...func(*agentengine.Config)) (e *agentengine.Engine, end func()) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	cfg := agentengine.Config{
		Epoch: epoch, Mint: func(n engine.Name) string { return string(n) }, Wait: time.Minute, Log: log,
		Joined: func(context.Context) ([]api.Node, error) { return nodes, nil },
	}
	for _, c := range change {
		c(&cfg)
	}
	e = agentengine.New(cfg)
	keys := func() [][]byte { return [][]byte{key} }
	desk := agency.NewDesk(agency.DeskConfig{
		Keys: keys, Version: "dev", Log: log, Known: func(context.Context, agency.Identity) error { return nil },
		Join: func(_ context.Context, w agency.Wish) (agency.Joined, error) {
			return agency.Joined{Node: w.Name, ID: "id-" + w.Name, Zone: "z"}, nil
		},
	})
	desk.Take(e)
	hub := link.NewHub(link.HubConfig{Tokens: link.NewTokens(key), Log: log, Clock: clock.Real})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = hub.Serve(ctx, tls.NewListener(l, endpoint.ServerTLS(keys)), func(r grpc.ServiceRegistrar) { desk.Register(r) })
	})
	wg.Go(func() { _ = e.Run(ctx) })
	return e, sync.OnceFunc(func() { cancel(); wg.Wait() })
}

// TestStorm: 200 agents with 8 replicas each lose their server and are all back at the next one, with all that they have; within FERMI_STORM_WITHIN where that
// is set, as make e2e-hosts does. They show real certificates over real TLS; their machines' engines are not there.
func TestStorm(t *testing.T) {
	const agents, replicas = 200, 8
	key := []byte(strings.Repeat("s", 32))
	var nodes []api.Node
	for i := range agents {
		name := fmt.Sprint("n", i)
		nodes = append(nodes, api.Node{Meta: api.Meta{Name: name}, Spec: api.NodeSpec{Zone: "z", Spec: joined.Spec{Agent: &joined.Agent{ID: "id-" + name}}}})
	}
	first, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	second, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e, end := stormServer(t, first, key, 1, nodes)
	defer end()
	pin := pinOf(t, key)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for _, n := range nodes {
		name, dir := n.Meta.Name, t.TempDir()
		m, err := agency.Join(ctx, dir, []string{first.Addr().String()}, agency.Token{Secret: "s", Pin: pin}, agency.Wish{Name: name, Version: "dev"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Reach([]string{first.Addr().String(), second.Addr().String()}); err != nil {
			t.Fatal(err)
		}
		hand := agentengine.NewHand(agentengine.HandConfig{
			Open: func(int64) (engine.Adapter, error) { return newStill(name, replicas), nil }, Last: func() (int64, error) { return 0, nil },
			Hello: func(context.Context) (agentengine.Hello, error) {
				return agentengine.Hello{Version: "dev", Instance: name, Now: time.Now(), Node: api.Node{Meta: api.Meta{Name: name}, Status: api.NodeStatus{Ready: true}}}, nil
			},
			Admit: func(*engine.Replica, string) error { return nil }, Forget: func(engine.Name) {}, Settle: func(agentengine.Settings) error { return nil }, Erase: func(string) error { return nil },
		})
		begun := make(chan struct{})
		wg.Go(func() { _ = hand.Run(ctx, func() { close(begun) }) })
		wg.Go(func() {
			<-begun
			_ = m.Run(ctx, hand.Attend)
		})
	}
	all := func(e *agentengine.Engine) time.Duration {
		begun := time.Now()
		for len(e.Attached()) < agents || len(e.Replicas("")) < agents*replicas {
			if time.Since(begun) > 5*time.Minute {
				t.Fatalf("only %d agents with %d replicas are attached", len(e.Attached()), len(e.Replicas("")))
			}
			<-clock.Real.After(5 * time.Millisecond)
		}
		return time.Since(begun)
	}
	t.Logf("the first time: %s", all(e))
	end() // as a server that dies: its connections end, and nobody listens
	next, endNext := stormServer(t, second, key, 2, nodes)
	defer endNext()
	took := all(next)
	t.Logf("after a server's death: %d agents with %d replicas are attached after %s", agents, agents*replicas, took)
	if within, err := time.ParseDuration(os.Getenv("FERMI_STORM_WITHIN")); err == nil && took > within {
		t.Errorf("that took %s, more than %s", took, within)
	}
}

// pinOf is by what agents know the servers that have this key.
func pinOf(t *testing.T, key []byte) string {
	t.Helper()
	target, err := endpoint.Target("host:1", key)
	if err != nil {
		t.Fatal(err)
	}
	_, pin, _ := strings.Cut(target, "#")
	return pin
}
