package sim

import (
	"context"
	"time"

	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Recorded reads what a live server remembers: the tasks that ended within span as a trace, and
// its zones, nodes and queues as they are now.
func Recorded(ctx context.Context, c *client.Client, span time.Duration, now time.Time) (Config, error) {
	cfg := Config{Begin: now.Add(-span), Trace: Trace{Name: "history"}, AsSpecified: true}
	jobs, err := pastJobs(ctx, c, cfg.Begin, maxRows)
	if err != nil {
		return Config{}, err
	}
	if len(jobs) == 0 {
		return Config{}, fault.New(fault.NotFound, "NoHistory", fault.T("No task started and ended in the last %v.", "最近 %v 内没有任务运行结束。", span))
	}
	cfg.Trace.Jobs = arrange(jobs)
	return cfg, cfg.readCluster(ctx, c)
}
