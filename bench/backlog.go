package main

import (
	"context"
	"fmt"
	"time"

	"github.com/fermi-cluster/fermi/sched"
)

const (
	backlogTasks  = 100000
	backlogShapes = 100
	backlogRounds = 21
	backlogTurns  = 2500
)

// benchBacklog: what 100,000 tasks that can't start add to the cost of those that can. Two clusters
// alike but for the backlog take turns, each first as often as the other; processor time is compared, since the machine has others
// to serve.
func benchBacklog(ctx context.Context, r *report) error {
	minds := [2]*mind{newMind(1), newMind(1)}
	for _, m := range minds {
		if err := m.halfFull(); err != nil {
			return err
		}
	}
	full := minds[1]
	for i := range backlogTasks { // more devices a node than there are, or a type that is not there
		roles := worker(1+i%4, schedDevices+1+i/4%(backlogShapes/8), 0)
		if i/4%2 == 0 {
			roles[0].Need.DeviceType = "not here"
		}
		full.submit(roles)
	}
	begin := time.Now()
	var cost [2][]float64
	for round := range backlogRounds {
		for k := range minds {
			i := (k + round) % 2
			m := minds[i]
			if ctx.Err() != nil {
				return ctx.Err()
			}
			used := cpuSeconds()
			if err := m.turns(begin); err != nil {
				return err
			}
			cost[i] = append(cost[i], (cpuSeconds()-used)/(backlogTurns*batch)*1e6)
		}
	}
	if n := full.q.Len(); n != backlogTasks {
		return fmt.Errorf("%d of %d wait: the backlog is not one", n, backlogTasks)
	}
	fmt.Printf("one decision without a backlog: %s µs\n", spread(cost[0]))
	fmt.Printf("with %d that can't start:   %s µs\n", backlogTasks, spread(cost[1]))
	r.atMost("a backlog of 100,000 unschedulable tasks adds [%]", 100*(median(cost[1])/median(cost[0])-1), 10)
	return nil
}

// turns lets single-device tasks come and go while real time passes.
func (m *mind) turns(begin time.Time) error {
	for range backlogTurns {
		var ids []string
		for range batch {
			ids = append(ids, m.submit(worker(1, 1, 0)))
		}
		now, started := benchTime.Add(time.Since(begin)), 0
		for more := true; more; {
			res := sched.Plan(now, m.c, m.q, sched.Policy{})
			started += len(res.Decisions)
			more = res.More
		}
		if started != batch {
			return fmt.Errorf("%d of %d started", started, batch)
		}
		m.end(ids)
	}
	return nil
}
