package agent

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/joined"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/agentengine"
	"github.com/fermi-cluster/fermi/internal/link/agency"
	"github.com/fermi-cluster/fermi/test/foreign"
)

// TestTrips: agents of two zones measure the way between them, and those of one machine, of one zone, or that nobody reaches measure nothing.
func TestTrips(t *testing.T) {
	key := []byte(strings.Repeat("t", 32))
	open := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	at := func(l net.Listener) string { return l.Addr().String() }
	type machine struct{ name, zone, boot, forward string }
	machines := []machine{
		{"p1", "p", "boot-p1", at(open())}, {"q1", "q", "boot-q1", at(open())}, {"q2", "q", "boot-q1", at(open())},
		{"r1", "r", "boot-q1", at(open())}, {"s1", "s", "boot-s1", foreign.Nobody(t)}, {"u1", "u", "boot-u1", ""},
	}
	var nodes []api.Node
	for _, m := range machines {
		nodes = append(nodes, api.Node{Meta: api.Meta{Name: m.name}, Spec: api.NodeSpec{Zone: m.zone, Spec: joined.Spec{Agent: &joined.Agent{ID: "id-" + m.name}}}})
	}
	type trip struct {
		from, to string
		api.MeasuredLatency
	}
	found := make(chan trip, 100)
	l := open()
	_, end := stormServer(t, l, key, 1, nodes, func(c *agentengine.Config) {
		c.Measured = func(from, to string, m api.MeasuredLatency) { found <- trip{from, to, m} }
	})
	defer end()
	pin := pinOf(t, key)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	var asked sync.Map
	for _, one := range machines {
		m, err := agency.Join(ctx, t.TempDir(), []string{at(l)}, agency.Token{Secret: "s", Pin: pin}, agency.Wish{Name: one.name, Version: "dev"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		hand := agentengine.NewHand(agentengine.HandConfig{
			Open: func(int64) (engine.Adapter, error) { return newStill(one.name, 1), nil }, Last: func() (int64, error) { return 0, nil },
			Hello: func(context.Context) (agentengine.Hello, error) {
				return agentengine.Hello{Version: "dev", Instance: one.name, Now: clock.Real.Now(), Node: api.Node{
					Meta: api.Meta{Name: one.name}, Status: api.NodeStatus{Ready: true, BootID: one.boot, Status: joined.Status{Agent: &joined.AgentStatus{Forward: one.forward}}},
				}}, nil
			},
			Admit: func(*engine.Replica, string) error { return nil }, Forget: func(engine.Name) {}, Settle: func(agentengine.Settings) error { return nil }, Erase: func(string) error { return nil },
			Measure: func(ctx context.Context, to []agentengine.Reach) []agentengine.Trip {
				for _, r := range to {
					asked.Store(one.name+" "+r.Node, true)
				}
				return measure(ctx, to)
			},
		})
		begun := make(chan struct{})
		wg.Go(func() { _ = hand.Run(ctx, func() { close(begun) }) })
		wg.Go(func() {
			<-begun
			_ = m.Run(ctx, hand.Attend)
		})
	}
	pairs := map[string]bool{}
	for len(pairs) < 2 { // p-q and p-r; q and r are one machine, s is not reached, u has no port
		f := <-found
		if f.P50Ms <= 0 || f.P99Ms < f.P50Ms || f.Samples != tripsOf || f.At.IsZero() || !strings.HasPrefix(f.FromNode, f.from) || !strings.HasPrefix(f.ToNode, f.to) || f.Task != "" {
			t.Fatalf("%+v", f)
		}
		pairs[f.from+f.to] = true
	}
	if !pairs["pq"] || !pairs["pr"] {
		t.Error(pairs)
	}
	asked.Range(func(k, _ any) bool {
		if text := k.(string); strings.Contains(text, "u1") || text == "q1 r1" || text == "q2 r1" {
			t.Errorf("%s was asked for", text)
		}
		return true
	})
}
