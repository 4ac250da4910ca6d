package main

import (
	"context"
	"fmt"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
)

const (
	preflightNodes  = 64
	preflightRounds = 5
)

// benchPreflight: how long the checks before the first start of a gang take, 64 nodes with a replica
// on each, which all run on this one machine. From the order to check until the last report is judged.
func benchPreflight(ctx context.Context, r *report) error {
	c, cl, err := demo(ctx)
	if err != nil {
		return err
	}
	defer c.Cleanup()
	var took sample
	for i := range preflightRounds {
		pairs, d, err := preflight(ctx, cl, fmt.Sprintf("check-%d", i))
		if err != nil {
			return err
		}
		fmt.Printf("%d connections between %d nodes checked in %s\n", pairs, preflightNodes, d.Round(time.Millisecond))
		took = append(took, d)
	}
	r.atMost(fmt.Sprintf("preflight of %d nodes, worst of %d [s]", preflightNodes, preflightRounds), took.quantile(1).Seconds(), 5).Among(took.seconds())
	return nil
}

func preflight(ctx context.Context, cl *client.Client, name string) (pairs int, took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	_, err = cl.Submit(ctx, &api.TrainingTask{Meta: api.Meta{Name: name}, Spec: api.TrainingTaskSpec{
		Preflight: api.PreflightRequire, Zones: &api.ZoneRules{MaxLatency: api.Duration(time.Second)}, // any of them
		Roles: []api.Role{{
			Name: "worker", Replicas: preflightNodes, Command: []string{"/bin/true"}, Resources: api.Resources{CPU: 65000, Memory: 1 << 28},
		}},
	}}, false)
	if err != nil {
		return 0, 0, err
	}
	for {
		o, err := cl.Get(ctx, api.KindTrainingTask, api.DefaultProject, name)
		if err != nil {
			return 0, 0, err
		}
		t := o.(*api.TrainingTask)
		if t.Status.Phase.Finished() {
			p := t.Status.Preflight
			if t.Status.Phase != api.PhaseCompleted || p == nil || p.FinishedAt == nil {
				return 0, 0, fmt.Errorf("%s ended %s: %s", name, t.Status.Phase, t.Status.Message.EN)
			}
			return p.Pairs, p.FinishedAt.Sub(p.StartedAt), nil
		}
		select {
		case <-ctx.Done():
			return 0, 0, fmt.Errorf("%s is %s: %s", name, t.Status.Phase, t.Status.Message.EN)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
