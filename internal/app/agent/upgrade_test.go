package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/joined"
	"github.com/fermi-cluster/fermi/internal/app/agent/program"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/agentengine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/link/agency"
	"github.com/fermi-cluster/fermi/internal/link/endpoint"
)

// depot is a server that has a program.
type depot struct {
	address, pin string
	gone         atomic.Bool // the node was removed
}

func newDepot(t *testing.T, text []byte) *depot {
	t.Helper()
	key := []byte(strings.Repeat("d", 32))
	keys := func() [][]byte { return [][]byte{key} }
	log := slog.New(slog.DiscardHandler)
	d := &depot{}
	desk := agency.NewDesk(agency.DeskConfig{
		Keys: keys, Version: "dev", Log: log,
		Known: func(context.Context, agency.Identity) error {
			if d.gone.Load() {
				return agency.ErrRemoved
			}
			return nil
		},
		Join: func(_ context.Context, w agency.Wish) (agency.Joined, error) {
			return agency.Joined{Node: w.Name, ID: "id", Zone: "z"}, nil
		},
		Program: func(digest string) (io.Reader, error) {
			if digest != digestOf(text) {
				return nil, errors.New("another one")
			}
			return bytes.NewReader(text), nil
		},
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		hub := link.NewHub(link.HubConfig{Tokens: link.NewTokens(key), Log: log, Clock: clock.Real})
		_ = hub.Serve(ctx, tls.NewListener(l, endpoint.ServerTLS(keys)), func(r grpc.ServiceRegistrar) { desk.Register(r) })
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	target, err := endpoint.Target("host:1", key)
	if err != nil {
		t.Fatal(err)
	}
	_, d.pin, _ = strings.Cut(target, "#")
	d.address = l.Addr().String()
	return d
}

func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// upgradable is what upgrades an agent, of a program that is a file.
func upgradable(t *testing.T, d *depot) *upgrades {
	t.Helper()
	dir := t.TempDir()
	m, err := agency.Join(t.Context(), dir, []string{d.address}, agency.Token{Secret: "s", Pin: d.pin}, agency.Wish{Name: "n", Version: "dev"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(t.TempDir(), "fermi")
	if err := os.WriteFile(exe, []byte("old"), 0o755); err != nil {
		t.Fatal(err)
	}
	return newUpgrades(Config{Member: m, Data: dir, Exe: exe, Log: slog.New(slog.DiscardHandler)})
}

func wanted(text []byte) agentengine.Program {
	return agentengine.Program{ID: "up-1", Version: "v2", Platform: program.Platform, Digest: digestOf(text), Size: int64(len(text))}
}

// TestUpgradeFetches: a program comes over the link of agents, whole, beside the one that runs; one that does not come up replaces nothing.
func TestUpgradeFetches(t *testing.T) {
	text := []byte("#!/bin/sh\necho 'it is broken' >&2\nexit 1\n" + strings.Repeat("#", 1<<20))
	d := newDepot(t, text)
	a := upgradable(t, d)
	other := wanted(text)
	other.Platform = "plan9/mips"
	if err := a.begin(other); fault.ReasonOf(err) != "OtherPlatform" {
		t.Error(err)
	}
	if err := a.begin(wanted(text)); err != nil {
		t.Fatal(err)
	}
	if err := a.begin(wanted(text)); fault.ReasonOf(err) != "UpgradeRuns" {
		t.Error(err)
	}
	var s *Successor
	if err := a.run(t.Context()); !errors.As(err, &s) || s.up.State != joined.UpgradeTrying {
		t.Fatalf("%v %+v", err, s)
	}
	if got, err := os.ReadFile(s.next); err != nil || !bytes.Equal(got, text) {
		t.Fatalf("%d of %d bytes: %v", len(got), len(text), err)
	}
	// What is cut off now has failed, unless we are that program.
	if u := lastUpgrade(a.cfg); u == nil || u.State != joined.UpgradeFetching || ended(u).State != joined.UpgradeFailed {
		t.Errorf("%+v", u)
	}
	own, err := program.Running()
	if err != nil {
		t.Fatal(err)
	}
	if u := ended(&joined.Upgrade{ID: "up", Digest: own.Digest, State: joined.UpgradeTrying}); u.State != joined.UpgradeDone {
		t.Errorf("%+v", u)
	}
	s.succeed(t.Context(), a.cfg, io.Discard)
	if u := lastUpgrade(a.cfg); u == nil || u.State != joined.UpgradeFailed || u.ID != "up-1" || !strings.Contains(u.Message.EN, "it is broken") {
		t.Errorf("%+v", u)
	}
	if old, _ := os.ReadFile(a.cfg.Exe); string(old) != "old" {
		t.Error("it was replaced")
	}
	if _, err := os.Lstat(s.next); !os.IsNotExist(err) {
		t.Error("it is left there:", err)
	}
}

// TestUpgradeNotFetched: without a program nothing is tried.
func TestUpgradeNotFetched(t *testing.T) {
	text := []byte("a program")
	for what, spoil := range map[string]func(*depot, *agentengine.Program){
		"a program that no server has":   func(_ *depot, p *agentengine.Program) { p.Digest = digestOf([]byte("other")) },
		"a machine that was removed":     func(d *depot, _ *agentengine.Program) { d.gone.Store(true) },
		"one that is longer than it was": func(_ *depot, p *agentengine.Program) { p.Size-- },
	} {
		d := newDepot(t, text)
		a := upgradable(t, d)
		p := wanted(text)
		spoil(d, &p)
		if err := a.begin(p); err != nil {
			t.Fatal(err)
		}
		var s *Successor
		if err := a.run(t.Context()); !errors.As(err, &s) || s.up.State != joined.UpgradeFailed || s.up.Message.EN == "" || s.next != "" {
			t.Errorf("%s: %v %+v", what, err, s)
		}
	}
}

// TestUpgradeOrder: what a server hears of agents that can be upgraded, that are up to date, that are too old to know the order, and that are away.
func TestUpgradeOrder(t *testing.T) {
	key := []byte(strings.Repeat("u", 32))
	names := []string{"new", "same", "old", "away"}
	var nodes []api.Node
	for _, name := range names[:3] {
		nodes = append(nodes, api.Node{Meta: api.Meta{Name: name}, Spec: api.NodeSpec{Zone: "z", Spec: joined.Spec{Agent: &joined.Agent{ID: "id-" + name}}}})
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	e, end := stormServer(t, l, key, 1, nodes)
	defer end()
	pin := pinOf(t, key)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	can := map[string]func(agentengine.Program) error{
		"new": func(agentengine.Program) error { return nil },
		"same": func(agentengine.Program) error {
			return fault.New(fault.Conflict, agentengine.ReasonUpToDate, fault.T("Same.", "相同。"))
		},
	}
	for _, name := range names[:3] {
		m, err := agency.Join(ctx, t.TempDir(), []string{address}, agency.Token{Secret: "s", Pin: pin}, agency.Wish{Name: name, Version: "dev"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		hand := agentengine.NewHand(agentengine.HandConfig{
			Open: func(int64) (engine.Adapter, error) { return newStill(name, 1), nil }, Last: func() (int64, error) { return 0, nil },
			Hello: func(context.Context) (agentengine.Hello, error) {
				return agentengine.Hello{Version: "dev", Instance: name, Now: clock.Real.Now(), Node: api.Node{Meta: api.Meta{Name: name}, Status: api.NodeStatus{Ready: true}}}, nil
			},
			Admit: func(*engine.Replica, string) error { return nil }, Forget: func(engine.Name) {}, Settle: func(agentengine.Settings) error { return nil }, Erase: func(string) error { return nil },
			Upgrade: can[name],
		})
		begun := make(chan struct{})
		wg.Go(func() { _ = hand.Run(ctx, func() { close(begun) }) })
		wg.Go(func() {
			<-begun
			_ = m.Run(ctx, hand.Attend)
		})
	}
	for len(e.Attached()) < 3 {
		<-clock.Real.After(1e6)
	}
	p := agentengine.Program{ID: "up-1", Version: "v2", Digest: "d"}
	for name, want := range map[string]struct {
		state  joined.UpgradeState
		reason string
	}{
		"new": {joined.UpgradeFetching, ""}, "same": {joined.UpgradeDone, ""}, "old": {"", "AgentTooOldToUpgrade"}, "away": {"", "AgentAway"},
	} {
		u, err := agentengine.Upgrade(ctx, e, name, p)
		if fault.ReasonOf(err) != want.reason || err == nil && (u.State != want.state || u.ID != "up-1") {
			t.Errorf("%s: %+v %v", name, u, err)
		}
	}
	told := func() bool {
		list, _ := e.Nodes()
		return slices.ContainsFunc(list, func(n api.Node) bool {
			return n.Meta.Name == "new" && n.Status.Agent.Upgrade != nil && n.Status.Agent.Upgrade.State == joined.UpgradeFetching
		})
	}
	for !told() {
		<-clock.Real.After(1e6)
	}
}
