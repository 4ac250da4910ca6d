package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/agentengine"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/link/agency"
	"github.com/fermi-cluster/fermi/internal/link/endpoint"
)

// idleMachine is a machine's engine on which replicas run and nothing else happens.
type idleMachine struct {
	*engine.Board
	ready chan struct{}
}

func newIdleMachine(agent int) idleMachine {
	m := idleMachine{engine.NewBoard(), make(chan struct{})}
	for i := range launchersEach {
		m.Put(engine.Observation{Name: launcherName(agent, i), TaskID: "task-" + agentName(agent), State: engine.StateRunning, Node: agentName(agent)})
	}
	close(m.ready)
	return m
}

func (m idleMachine) Run(ctx context.Context) error { <-ctx.Done(); return nil }
func (m idleMachine) Ready() <-chan struct{}        { return m.ready }

var errStartsNothing = errors.New("nothing is started or stopped here")

func (idleMachine) Start(context.Context, engine.Replica) error { return errStartsNothing }
func (idleMachine) Stop(context.Context, engine.Name, time.Duration) error {
	return errStartsNothing
}
func (idleMachine) Remove(context.Context, engine.Name) error { return errStartsNothing }

// agentsClients is a process of agents "FROM-TO" and their launchers; it ends with its input.
func agentsClients(ctx context.Context, role string) error {
	var from, to int
	if _, err := fmt.Sscanf(role, "%d-%d", &from, &to); err != nil {
		return fmt.Errorf("%q: %w", role, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	var targets []string
	for _, at := range agentServers() {
		target, err := endpoint.Target(at, []byte(agentsKey))
		if err != nil {
			return err
		}
		targets = append(targets, target)
	}
	endpoints, err := filepath.Abs("endpoints." + role)
	if err != nil {
		return err
	}
	if err := os.WriteFile(endpoints, []byte(strings.Join(targets, "\n")+"\n"), 0o600); err != nil {
		return err
	}
	_, pin, _ := strings.Cut(targets[0], "#")
	for i := from; i < to; i++ {
		if err := beginAgent(ctx, &wg, i, pin); err != nil {
			return err
		}
		for j := range launchersEach {
			if err := beginLauncher(ctx, &wg, i, j, endpoints); err != nil {
				return err
			}
		}
	}
	untilOrphaned()
	return nil
}

// beginAgent joins as a machine and keeps attached.
func beginAgent(ctx context.Context, wg *sync.WaitGroup, i int, pin string) error {
	name := agentName(i)
	if err := os.Mkdir(name, 0o700); err != nil {
		return err
	}
	m, err := agency.Join(ctx, name, agentServers(), agency.Token{Secret: "s", Pin: pin}, agency.Wish{Name: name, Version: "dev"}, nil)
	if err != nil {
		return err
	}
	hand := agentengine.NewHand(agentengine.HandConfig{
		Open: func(int64) (engine.Adapter, error) { return newIdleMachine(i), nil }, Last: func() (int64, error) { return 0, nil },
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
	return nil
}

// beginLauncher is a launcher of that machine whose rank runs.
func beginLauncher(ctx context.Context, wg *sync.WaitGroup, agent, i int, endpoints string) error {
	name := launcherName(agent, i)
	l := &idleLauncher{index: i, said: link.Ranks{Port: 20000 + i}}
	var err error
	if l.client, err = link.NewClient(link.ClientConfig{
		Name: name, Token: link.NewTokens([]byte(agentsKey)).Mint(name), Endpoints: endpoints, State: engine.StateRunning, Spool: noSpool{}, Orders: l,
		Log: slog.New(slog.DiscardHandler), Clock: clock.Real,
	}); err != nil {
		return err
	}
	l.client.Ranks(l.said)
	wg.Go(func() { _ = l.client.Run(ctx) })
	return nil
}
