package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/internal/store/embedded"
)

const (
	agentsMeasured    = 200
	launchersEach     = 8
	agentProcesses    = 2
	agentServerDeaths = 5
	etcdLease         = 5 // seconds until a server that was killed leads no more
)

// benchAgents: 200 agents and the launchers of their machines lose the leading server. Servers have the real link, the real desk and
// engine of agents and the real election; agents and launchers are real clients over TLS, in processes of many, whose machines' engines start nothing.
func benchAgents(ctx context.Context, r *report) error {
	switch role := os.Getenv(childRole); {
	case role == "":
		if err := measureAgents(ctx, r); err != nil {
			return err
		}
		return measureIdle(ctx, r)
	case strings.HasPrefix(role, "server"):
		return agentsServer(ctx, role)
	default:
		return agentsClients(ctx, role)
	}
}

func measureAgents(ctx context.Context, r *report) error {
	if err := raiseFiles(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("/tmp", "agents")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	etcd, err := embedded.Start(ctx, embedded.Config{Dir: filepath.Join(dir, "e")})
	if err != nil {
		return err
	}
	defer etcd.Close()
	if err := os.WriteFile(filepath.Join(dir, fileEtcd), []byte(etcd.Endpoint()), 0o600); err != nil {
		return err
	}
	servers := make([]*child, 2)
	start := func(i int) error {
		c, err := startChild(ctx, "agents", dir, fmt.Sprint("server-", i))
		if err == nil {
			servers[i] = c
			_, err = c.await("listening")
		}
		return err
	}
	defer func() {
		for _, s := range servers {
			if s != nil {
				s.kill()
			}
		}
	}()
	if err := start(0); err != nil {
		return err
	}
	if _, err := servers[0].await("leading"); err != nil {
		return err
	}
	if err := start(1); err != nil {
		return err
	}
	for i := range agentProcesses {
		share := agentsMeasured / agentProcesses
		c, err := startChild(ctx, "agents", dir, fmt.Sprintf("%d-%d", i*share, (i+1)*share))
		if err != nil {
			return err
		}
		defer c.kill()
	}
	if _, err := servers[0].await("whole"); err != nil {
		return err
	}
	var whole, after, elected []float64
	for n := range agentServerDeaths {
		dies, next := n%2, 1-n%2
		begin := time.Now()
		servers[dies].kill()
		if _, err := servers[next].await("leading"); err != nil {
			return err
		}
		led := time.Since(begin).Seconds()
		if _, err := servers[next].await("whole"); err != nil {
			return err
		}
		took := time.Since(begin).Seconds()
		whole, elected, after = append(whole, took), append(elected, led), append(after, took-led)
		fmt.Printf("death %d: another leads after %.2f s; all %d agents and %d launchers are attached after %.2f s\n", n+1, led, agentsMeasured, agentsMeasured*launchersEach, took)
		if err := start(dies); err != nil {
			return err
		}
	}
	r.tell("agents", agentsMeasured)
	r.tell("launchers", agentsMeasured*launchersEach)
	r.atMost("leading server killed → all attached at the next, worst [s]", slices.Max(whole), 10).Among(whole)
	r.tell(fmt.Sprintf("of that until another leads (etcd's lease is %d s), median [s]", etcdLease), median(elected)).Among(elected)
	r.tell("of that from then on, median [s]", median(after)).Among(after)
	r.Notes = append(r.Notes, "Agents and launchers are goroutines in two processes, with real certificates, tokens and TLS; their machines' engines start nothing.")
	return nil
}

// measureIdle is of a real agent on a host of its own.
func measureIdle(ctx context.Context, r *report) error {
	dir, err := os.MkdirTemp("", "fermi-idle")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "report.json")
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-timeout", "10m", "-run", "TestIdle", "./test/hosts")
	cmd.Env = append(os.Environ(), "FERMI_IDLE_REPORT="+path)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("test/hosts: %w", err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var of map[string]float64
	if err := json.Unmarshal(data, &of); err != nil {
		return err
	}
	r.atMost("an idle agent's own memory [MiB]", of["ownMiB"], 40)
	r.tell("with the pages of the program [MiB]", of["allMiB"])
	r.atMost("an idle agent's share of a core, 30 s [%]", of["percent"], 0.5)
	return nil
}

// untilOrphaned waits for the end of our input.
func untilOrphaned() {
	for s := bufio.NewScanner(os.Stdin); s.Scan(); {
	}
}
