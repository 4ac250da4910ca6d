package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/bench/openb"
	"github.com/fermi-cluster/fermi/sched"
)

// backlogCase is a full cluster with a backlog that could fit: whatever ends lets somebody start.
type backlogCase struct {
	nodes, waiting, turns int
	name                  string
	needs                 []sched.Need
}

// mindBacklog measures turns of the planner before 100,000 workloads of many shapes in 20 queues, with
// preemption. FERMI_WAITING sets another number, FERMI_NODES one size of the cluster.
func mindBacklog(ctx context.Context, r *report) error {
	waiting, turns, sizes := 100_000, 600, []int{2000, 12_500}
	if small() {
		waiting, turns, sizes = 5_000, 100, sizes[:1]
	}
	if n := os.Getenv("FERMI_WAITING"); n != "" {
		var err error
		if waiting, err = strconv.Atoi(n); err != nil {
			return err
		}
	}
	if n := os.Getenv("FERMI_NODES"); n != "" {
		one, err := strconv.Atoi(n)
		if err != nil {
			return err
		}
		sizes = []int{one}
	}
	trace, err := openb.Load(filepath.Join(traces(), "openb"), "default")
	if err != nil {
		return fmt.Errorf("the trace is needed (FERMI_TRACES names its folder): %w", err)
	}
	published, synthetic := openbNeeds(trace), syntheticNeeds(1400)
	for _, nodes := range sizes {
		for _, cs := range []backlogCase{{nodes, waiting, turns, "OpenB's shapes", published}, {nodes, waiting, turns, "1,400 shapes", synthetic}} {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err := cs.run(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func openbNeeds(t *openb.Trace) []sched.Need {
	var out []sched.Need
	seen := map[string]bool{}
	for i := range t.Pods {
		a := &t.Pods[i].Ask
		if a.Devices == 0 {
			continue
		}
		n := sched.Need{CPU: api.MilliCPU(a.CPU), Memory: api.Bytes(a.Memory), Devices: int(a.Devices), Share: a.Share}
		if key := fmt.Sprint(n); !seen[key] {
			seen[key] = true
			out = append(out, n)
		}
	}
	return out
}

func syntheticNeeds(count int) []sched.Need {
	rnd := rand.New(rand.NewPCG(7, 7))
	out := make([]sched.Need, count)
	for i := range out {
		d := []int{1, 1, 2, 4, 8}[rnd.IntN(5)]
		out[i] = sched.Need{CPU: api.MilliCPU(d * (1000 + 250*rnd.IntN(40))), Memory: api.Bytes(d) << 30 * api.Bytes(1+rnd.IntN(60)), Devices: d, Share: sched.WholeDevice}
	}
	return out
}

func (cs backlogCase) run(r *report) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	runtime.GC()
	rnd := rand.New(rand.NewPCG(1, uint64(cs.nodes)))
	c, q := sched.NewCluster(), sched.NewQueues()
	for i := range cs.nodes {
		n := sched.Node{
			Number: uint32(i + 1), Name: fmt.Sprintf("n%05d", i), Zone: "z", Rack: fmt.Sprintf("r%d", i/4), Leaf: fmt.Sprintf("l%d", i/32),
			CPU: 96_000, Memory: 512 << 30,
		}
		for range 8 {
			n.Devices = append(n.Devices, "A100")
		}
		if err := c.SetNode(n); err != nil {
			return err
		}
	}
	now, serial := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), 0
	work := map[string]*sched.Workload{}
	submit := func() string {
		serial++
		w := &sched.Workload{
			ID: fmt.Sprintf("t%08d", serial), Queue: fmt.Sprintf("q%02d", rnd.IntN(20)), Priority: rnd.IntN(3), User: fmt.Sprintf("u%d", rnd.IntN(200)),
			Name: fmt.Sprintf("m%d", rnd.IntN(4)), Submitted: now, Preemptible: true, RestartCost: restart,
			Roles: []sched.Role{{Name: "worker", Replicas: []int{1, 1, 1, 1, 2, 4}[rnd.IntN(6)], Need: cs.needs[rnd.IntN(len(cs.needs))]}},
		}
		work[w.ID] = w
		q.Add(w)
		return w.ID
	}
	var running []string
	var spent sample
	var arrivals sample
	carryOut := func(res sched.Result) {
		for _, d := range res.Decisions {
			running = append(running, d.Workload.ID)
		}
		for _, e := range res.Evictions {
			c.Release(e.ID)
			q.Stop(now, e.ID, false)
			q.Add(work[e.ID])
		}
	}
	policy := sched.Policy{NoPreemption: true} // while it is filled
	plan := func() (sched.Result, time.Duration) {
		begin := threadTime()
		res := sched.Plan(now, c, q, policy)
		return res, threadTime() - begin
	}
	begin := time.Now()
	for q.Len() < cs.waiting {
		for range cs.nodes {
			submit()
		}
		for more := true; more; {
			res, _ := plan()
			carryOut(res)
			more = res.More
		}
		now = now.Add(time.Second)
	}
	fill := time.Since(begin)
	policy = sched.Policy{}
	started, evicted := 0, 0
	for turn := range cs.turns {
		now = now.Add(5 * time.Second)
		for ends := 1 + cs.nodes/1000; ends > 0 && len(running) > 0; { // some end, and are learned from
			k := rnd.IntN(len(running))
			id := running[k]
			running[k] = running[len(running)-1]
			running = running[:len(running)-1]
			if _, runs := q.Running(id); runs { // it was not asked to go since
				c.Release(id)
				q.Stop(now, id, true)
				delete(work, id)
				submit()
				ends--
			}
		}
		res, took := plan()
		started += len(res.Decisions)
		evicted += len(res.Evictions)
		carryOut(res)
		spent = append(spent, took)
		if turn%4 == 0 { // one that fits, small and of the highest priority
			now = now.Add(time.Second)
			w := &sched.Workload{ID: fmt.Sprintf("s%08d", turn), Queue: "q00", Priority: 9, Submitted: now, Roles: []sched.Role{{Name: "w", Replicas: 1, Need: sched.Need{CPU: 1, Memory: 1}}}}
			work[w.ID] = w
			q.Add(w)
			res, took := plan()
			carryOut(res)
			if _, runs := q.Running(w.ID); !runs {
				took = time.Hour
			}
			arrivals = append(arrivals, took)
		}
	}
	title := fmt.Sprintf("%d nodes, %s", cs.nodes, cs.name)
	fmt.Printf("%-28s %d shapes, %d wait, %d run (filled in %s); turns: %s; %d started, %d evicted; arrivals that fit: %s\n", title, len(cs.needs), q.Len(), q.Runs(), fill.Round(time.Second), spent, started, evicted, arrivals)
	r.atMost(title+": turn p50 [ms]", ms(spent.quantile(.5)), 10).Among(spent.milliseconds())
	r.atMost(title+": turn p99 [ms]", ms(spent.quantile(.99)), 100)
	r.atMost(title+": turn worst [ms]", ms(spent.quantile(1)), 500)
	r.atMost(title+": an arrival that fits, p99 [ms]", ms(arrivals.quantile(.99)), 10).Among(arrivals.milliseconds())
	return nil
}
