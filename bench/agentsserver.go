package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/joined"
	"github.com/fermi-cluster/fermi/internal/app"
	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/blob/logbook"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/agentengine"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/link/agency"
	"github.com/fermi-cluster/fermi/internal/link/endpoint"
	"github.com/fermi-cluster/fermi/internal/run"
	"github.com/fermi-cluster/fermi/internal/store"
)

// The files of the agents' benchmark.
const (
	fileEtcd = "etcd.endpoint"
	fileAt   = ".at" // of a server, behind its role
)

const agentsKey = "a key of the bench, that nobody else has"

func agentKeys() [][]byte { return [][]byte{[]byte(agentsKey)} }

func agentName(i int) string { return fmt.Sprint("n", i) }

// launcherName is of a replica of the one task that a machine has.
func launcherName(agent, i int) engine.Name {
	return engine.NameOf("task-"+agentName(agent), "worker", i, 1)
}

// agentsServer is one server; whoever was elected says when all are attached.
func agentsServer(ctx context.Context, role string) error {
	app.CollectSeldom()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	at, err := os.ReadFile(fileEtcd)
	if err != nil {
		return err
	}
	client, err := store.Dial(store.Outside{Endpoints: []string{string(at)}})
	if err != nil {
		return err
	}
	st := store.New(store.Config{Client: client, Log: log, Clock: clock.Real})
	blobs, err := folder.Open(role)
	if err != nil {
		return err
	}
	book := logbook.New(logbook.Config{Blob: blobs, Log: log, Clock: clock.Real})
	var heard atomic.Int64 // launchers that said how their ranks stand
	hub := link.NewHub(link.HubConfig{
		Blob: blobs, Logs: book, Tokens: link.NewTokens([]byte(agentsKey)), Log: log, Clock: clock.Real, Peered: true,
		Notify: func(string, engine.Name) { heard.Add(1) }, Saved: func(string, bool) {},
		Fetched: link.Fetched{ArchiveOf: func(context.Context, string) (string, error) { return "", nil }},
	})
	desk := agency.NewDesk(agency.DeskConfig{
		Keys: agentKeys, Version: "dev", Log: log, Known: func(context.Context, agency.Identity) error { return nil },
		Join: func(_ context.Context, w agency.Wish) (agency.Joined, error) {
			return agency.Joined{Node: w.Name, ID: "id-" + w.Name, Zone: "z"}, nil
		},
	})
	l, err := listenAgain(role)
	if err != nil {
		return err
	}
	var g run.Group
	g.Add("store", st.Run)
	g.Add("logbook", book.Run)
	g.Add("link", func(ctx context.Context) error {
		return hub.Serve(ctx, tls.NewListener(l, endpoint.ServerTLS(agentKeys)), func(r grpc.ServiceRegistrar) { desk.Register(r) })
	})
	g.Add("leader", func(ctx context.Context) error {
		<-st.Ready()
		fmt.Println("listening")
		return st.Campaign(ctx, role, func(ctx context.Context, epoch store.Epoch) error {
			return leadAgents(ctx, epoch, hub, desk, log)
		})
	})
	return g.Run(ctx)
}

// listenAgain listens where this server did before, or anywhere the first time, and writes it down.
func listenAgain(role string) (net.Listener, error) {
	address := "127.0.0.1:0"
	if was, err := os.ReadFile(role + fileAt); err == nil {
		address = string(was)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	return l, os.WriteFile(role+fileAt, []byte(l.Addr().String()), 0o600)
}

func leadAgents(ctx context.Context, epoch store.Epoch, hub *link.Hub, desk *agency.Desk, log *slog.Logger) error {
	var nodes []api.Node
	for i := range agentsMeasured {
		name := agentName(i)
		nodes = append(nodes, api.Node{Meta: api.Meta{Name: name}, Spec: api.NodeSpec{Zone: "z", Spec: joined.Spec{Agent: &joined.Agent{ID: "id-" + name}}}})
	}
	e := agentengine.New(agentengine.Config{
		Epoch: epoch.Revision, Mint: func(n engine.Name) string { return string(n) }, Log: log,
		Joined: func(context.Context) ([]api.Node, error) { return nodes, nil },
	})
	hub.Lead(epoch.Revision)
	defer hub.Lead(0)
	defer desk.Take(e)()
	fmt.Println("leading")
	var g run.Group
	g.Add("engine", e.Run)
	g.Add("watch", func(ctx context.Context) error {
		for !allAttached(e, hub) {
			select {
			case <-ctx.Done():
				return nil
			case <-clock.Real.After(10 * time.Millisecond):
			}
		}
		fmt.Println("whole")
		<-ctx.Done()
		return nil
	})
	return g.Run(ctx)
}

// allAttached says that all agents have said all that they have, and all launchers how their ranks stand.
func allAttached(e *agentengine.Engine, hub *link.Hub) bool {
	if len(e.Attached()) < agentsMeasured || len(e.Replicas("")) < agentsMeasured*launchersEach {
		return false
	}
	for a := range agentsMeasured {
		for i := range launchersEach {
			if _, ok := hub.Ranks(launcherName(a, i)); !ok {
				return false
			}
		}
	}
	return true
}

// agentServers are the addresses of the servers, as far as they were written down.
func agentServers() (out []string) {
	for i := range 2 {
		if raw, err := os.ReadFile(fmt.Sprint("server-", i, fileAt)); err == nil {
			out = append(out, strings.TrimSpace(string(raw)))
		}
	}
	return out
}
