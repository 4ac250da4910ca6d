package sim

import (
	"context"
	"errors"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Recorded reads what a live server remembers: the tasks that ended within span as a trace, and
// its zones, nodes and queues as they are now.
func Recorded(ctx context.Context, c *client.Client, span time.Duration, now time.Time) (Config, error) {
	cfg := Config{Begin: now.Add(-span), Trace: Trace{Name: "history"}}
	err := c.Walk(ctx, api.KindTrainingTask, client.ListOptions{Limit: 500, Sort: "-createdAt", Phase: []string{string(api.PhaseCompleted), string(api.PhaseFailed), string(api.PhaseStopped)}},
		func(o api.Object) bool {
			t := o.(*api.TrainingTask)
			if t.Meta.CreatedAt.Before(cfg.Begin) {
				return false
			}
			if s := t.Status; s.StartedAt != nil && s.FinishedAt != nil {
				waiting := *t
				waiting.Status = api.TrainingTaskStatus{Phase: api.PhasePending}
				waiting.Spec.Stop = false
				cfg.Trace.Jobs = append(cfg.Trace.Jobs, Job{Task: &waiting, At: t.Meta.CreatedAt.Sub(cfg.Begin), Length: s.FinishedAt.Sub(*s.StartedAt)})
			}
			return len(cfg.Trace.Jobs) < maxRows
		})
	if err != nil {
		return Config{}, err
	}
	if len(cfg.Trace.Jobs) == 0 {
		return Config{}, fault.New(fault.NotFound, "NoHistory", fault.T("No task started and ended in the last %v.", "最近 %v 内没有任务运行结束。", span))
	}
	cfg.Trace.Jobs = arrange(cfg.Trace.Jobs)
	return cfg, errors.Join(
		walk(ctx, c, api.KindZone, &cfg.Zones), walk(ctx, c, api.KindNode, &cfg.Nodes), walk(ctx, c, api.KindQueue, &cfg.Queues))
}

func walk[T api.Object](ctx context.Context, c *client.Client, kind api.Kind, into *[]T) error {
	return c.Walk(ctx, kind, client.ListOptions{Limit: 500}, func(o api.Object) bool {
		*into = append(*into, o.(T))
		return true
	})
}
