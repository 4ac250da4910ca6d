package agent

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/joined"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/agentengine"
	"github.com/fermi-cluster/fermi/internal/link/agency"
)

// TestLostServer: an agent that lost its server asks the others first, and does not wait for one that takes connections and says nothing.
func TestLostServer(t *testing.T) {
	key := []byte(strings.Repeat("l", 32))
	nodes := []api.Node{{Meta: api.Meta{Name: "n"}, Spec: api.NodeSpec{Zone: "z", Spec: joined.Spec{Agent: &joined.Agent{ID: "id-n"}}}}}
	first, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	second, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	one, other := first.Addr().String(), second.Addr().String()
	e, end := stormServer(t, first, key, 1, nodes)
	defer end()
	pin := pinOf(t, key)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	m, err := agency.Join(ctx, t.TempDir(), []string{one}, agency.Token{Secret: "s", Pin: pin}, agency.Wish{Name: "n", Version: "dev"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Reach([]string{one, other}); err != nil {
		t.Fatal(err)
	}
	next, endNext := stormServer(t, second, key, 2, nodes)
	defer endNext()
	hand := agentengine.NewHand(agentengine.HandConfig{
		Open: func(int64) (engine.Adapter, error) { return newStill("n", 1), nil }, Last: func() (int64, error) { return 0, nil },
		Hello: func(context.Context) (agentengine.Hello, error) {
			return agentengine.Hello{Version: "dev", Instance: "n", Now: clock.Real.Now(), Node: api.Node{Meta: api.Meta{Name: "n"}}}, nil
		},
		Admit: func(*engine.Replica, string) error { return nil }, Forget: func(engine.Name) {}, Settle: func(agentengine.Settings) error { return nil }, Erase: func(string) error { return nil },
	})
	begun := make(chan struct{})
	wg.Go(func() { _ = hand.Run(ctx, func() { close(begun) }) })
	wg.Go(func() {
		<-begun
		_ = m.Run(ctx, hand.Attend)
	})
	attached := func(e *agentengine.Engine) {
		for len(e.Attached()) == 0 {
			<-clock.Real.After(1e6)
		}
	}
	attached(e)
	// The server dies, and its machine hangs: whoever connects hears nothing.
	var asked atomic.Int32
	end()
	hung, err := net.Listen("tcp", one)
	if err != nil {
		t.Fatal(err)
	}
	defer hung.Close()
	go func() { // ends with the listener
		for {
			if _, err := hung.Accept(); err != nil {
				return
			}
			asked.Add(1)
		}
	}()
	attached(next)
	if n := asked.Load(); n > 0 {
		t.Errorf("the hung machine was asked %d times first", n)
	}
}
