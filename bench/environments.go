package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/app/kinds"
	"github.com/fermi-cluster/fermi/test/harness"
)

// memorySeconds is how long the server's memory is looked at: an idle server collects its garbage every two minutes.
const memorySeconds = 150

// benchEnvironments: what environments that run, each with its launcher attached, cost the server.
func benchEnvironments(ctx context.Context, r *report) error {
	kinds.Ship()
	many := 500
	if n, err := strconv.Atoi(os.Getenv("FERMI_ENVIRONMENTS")); err == nil && n > 0 {
		many = n
	}
	c, cl, err := stand(ctx, "--demo", "--env-user-running", "0", "--env-user-storage", "0", "--processes", strconv.Itoa(many+10))
	if err != nil {
		return err
	}
	defer c.Cleanup()
	empty, err := memoryOf(ctx, c)
	if err != nil {
		return err
	}
	fmt.Printf("with none: %.1f MB\n", empty)
	begin := time.Now()
	for i := range many {
		e := &devenv.DevEnvironment{Meta: api.Meta{Name: fmt.Sprintf("e%d", i)}}
		e.Spec.Resources.CPU, e.Spec.Resources.Memory, e.Spec.Storage = 100, 64<<20, 1<<30
		if _, err := client.Create(ctx, cl, e); err != nil {
			return err
		}
	}
	for running := 0; running < many; {
		if time.Since(begin) > 15*time.Minute {
			return fmt.Errorf("%d of %d environments run after %v", running, many, time.Since(begin))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
		running = 0
		if err := cl.Walk(ctx, devenv.Kind, client.ListOptions{Limit: 500}, func(o api.Object) bool {
			if o.(*devenv.DevEnvironment).Status.Phase == api.PhaseRunning {
				running++
			}
			return true
		}); err != nil {
			return err
		}
	}
	fmt.Printf("%d run after %v\n", many, time.Since(begin).Round(time.Second))
	full, err := memoryOf(ctx, c)
	if err != nil {
		return err
	}
	r.tell("memory of a server without environments [MB]", empty)
	r.atMost(fmt.Sprintf("what %d running environments add to the server's memory [MB]", many), full-empty, 200)
	r.tell("memory of the server with them [MB]", full)
	return nil
}

// memoryOf is the smallest that the server's own memory is within a while.
func memoryOf(ctx context.Context, c *harness.Cluster) (float64, error) {
	var seen []float64
	for range memorySeconds {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(time.Second):
		}
		mb, err := rssMB(c.PID())
		if err != nil {
			return 0, err
		}
		seen = append(seen, mb)
	}
	return slices.Min(seen), nil
}
