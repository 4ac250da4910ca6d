package sim

import (
	"context"
	"errors"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/control/placement"
	"github.com/fermi-cluster/fermi/internal/fault"
)

const (
	// maxLive bounds the tasks of a snapshot.
	maxLive = 200_000
	// learnFrom is how many of the tasks that ended last teach how long tasks take.
	learnFrom = 5000
)

// Live is the cluster as it is now: who stands where, who waits, and how long each is expected to
// take still, from what its user said and what ended ones of its like took. Nobody comes later.
func Live(ctx context.Context, c *client.Client, now time.Time) (Config, error) {
	who, err := c.WhoAmI(ctx)
	if err != nil {
		return Config{}, err
	}
	if who.Role != api.RoleAdmin && who.Role != api.RoleOperator {
		return Config{}, fault.New(fault.Forbidden, "SeesTooLittle", fault.T("A what-if needs everybody's tasks; %s sees only some of them.", "假设分析需要看到所有任务；%s 只能看到部分任务。", who.User)).
			WithHint(fault.T("Ask an operator, or use an operator's token.", "请由运维人员执行，或使用其令牌。"))
	}
	cfg := Config{Begin: now, Trace: Trace{Name: "live"}, AsSpecified: true}
	if err := cfg.readCluster(ctx, c); err != nil {
		return Config{}, err
	}
	stands, tasks := map[string]*api.Placement{}, []*api.TrainingTask(nil)
	err = c.Walk(ctx, api.KindPlacement, client.ListOptions{Limit: 500}, func(o api.Object) bool {
		p := o.(*api.Placement)
		stands[p.Spec.TaskID] = p
		return len(stands) <= maxLive
	})
	if err != nil {
		return Config{}, err
	}
	phases := []string{string(api.PhasePending), string(api.PhaseInitializing), string(api.PhaseRunning), string(api.PhaseRecovering)}
	err = c.Walk(ctx, api.KindTrainingTask, client.ListOptions{Limit: 500, Sort: "createdAt", Phase: phases}, func(o api.Object) bool {
		tasks = append(tasks, o.(*api.TrainingTask))
		return len(tasks) <= maxLive
	})
	if err != nil {
		return Config{}, err
	}
	if len(tasks) > maxLive || len(stands) > maxLive {
		return Config{}, fault.New(fault.Invalid, "TooManyTasks", fault.T("More than %d tasks: too many for a what-if.", "任务超过 %d 个，无法进行假设分析。", maxLive))
	}
	if cfg.Learned, err = pastJobs(ctx, c, time.Time{}, learnFrom); err != nil {
		return Config{}, err
	}
	cfg.takeUp(tasks, stands)
	if len(cfg.Trace.Jobs) == 0 {
		return Config{}, fault.New(fault.NotFound, "NothingLive", fault.T("Nothing runs and nothing waits.", "当前没有运行或等待的任务。"))
	}
	return cfg, nil
}

func (cfg *Config) readCluster(ctx context.Context, c *client.Client) error {
	return errors.Join(walk(ctx, c, api.KindZone, &cfg.Zones), walk(ctx, c, api.KindNode, &cfg.Nodes), walk(ctx, c, api.KindQueue, &cfg.Queues))
}

// takeUp makes jobs of the tasks. One without a placement waits; its name stays its own.
func (cfg *Config) takeUp(tasks []*api.TrainingTask, stands map[string]*api.Placement) {
	known := map[uint32]bool{}
	for _, n := range cfg.Nodes {
		known[n.Spec.Number] = true
	}
	planner := placement.NewPlanner()
	for i := range cfg.Learned {
		planner.Learn(cfg.Learned[i].Task, cfg.Learned[i].Length)
	}
	for _, t := range tasks {
		if len(t.Spec.Inside) > 0 {
			continue // what it uses is its environments'
		}
		p := stands[t.Meta.ID]
		if p == nil && (t.Status.Phase != api.PhasePending || t.Spec.Stop) || p != nil && !fits(t, p, known) {
			continue // on its way out
		}
		j := asJob(t, cfg.Begin)
		already := time.Duration(0)
		if p != nil {
			j.Stands, j.Began = p, min(p.Spec.PlacedAt.Sub(cfg.Begin), 0)
			already = -j.Began
		}
		j.Length = already + planner.Expect(j.Task, already)
		cfg.Trace.Jobs = append(cfg.Trace.Jobs, j)
	}
}

// fits says whether a placement is of this task and on nodes that are there: both were read in turn.
func fits(t *api.TrainingTask, p *api.Placement, nodes map[uint32]bool) bool {
	if len(p.Spec.Roles) != len(t.Spec.Roles) {
		return false
	}
	for _, r := range p.Spec.Roles {
		for _, s := range r.Slots {
			if !nodes[s.Node] {
				return false
			}
		}
	}
	return true
}

// asJob is a task as it was when it was submitted.
func asJob(t *api.TrainingTask, begin time.Time) Job {
	waiting := *t
	waiting.Status = api.TrainingTaskStatus{Phase: api.PhasePending}
	waiting.Spec.Stop, waiting.Meta.DeletedAt = false, nil
	j := Job{Task: &waiting, At: t.Meta.CreatedAt.Sub(begin)}
	if t.Spec.Deadline != nil {
		j.Due = t.Spec.Deadline.Sub(begin)
	}
	return j
}

// pastJobs are the tasks that ran to an end, the latest first, until one that came before a time.
func pastJobs(ctx context.Context, c *client.Client, since time.Time, most int) ([]Job, error) {
	var out []Job
	phases := []string{string(api.PhaseCompleted), string(api.PhaseFailed), string(api.PhaseStopped)}
	err := c.Walk(ctx, api.KindTrainingTask, client.ListOptions{Limit: 500, Sort: "-createdAt", Phase: phases}, func(o api.Object) bool {
		t := o.(*api.TrainingTask)
		if t.Meta.CreatedAt.Before(since) {
			return false
		}
		if s := t.Status; s.StartedAt != nil && s.FinishedAt != nil {
			j := asJob(t, since)
			j.Length = s.FinishedAt.Sub(*s.StartedAt)
			out = append(out, j)
		}
		return len(out) < most
	})
	return out, err
}

func walk[T api.Object](ctx context.Context, c *client.Client, kind api.Kind, into *[]T) error {
	return c.Walk(ctx, kind, client.ListOptions{Limit: 500}, func(o api.Object) bool {
		*into = append(*into, o.(T))
		return true
	})
}
