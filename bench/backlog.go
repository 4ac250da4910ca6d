package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/fermi-cluster/fermi/sched"
)

const (
	backlogTasks  = 100000
	backlogShapes = 100
	backlogRounds = 40
	backlogTurns  = 5000
)

// benchBacklog: what 100,000 tasks that can't start add to the cost of those that can, and what a turn
// costs before 100,000 that could (mindBacklog). For the first two processes,
// alike but for the backlog, take turns, each first as often as the other. Processor time is compared,
// since the machine has others to serve, and all of it: the collector runs once in several turns.
func benchBacklog(ctx context.Context, r *report) error {
	if n := os.Getenv("FERMI_BACKLOG"); n != "" {
		return backlogged(n)
	}
	var minds [2]*waiter
	for i, n := range []string{"0", fmt.Sprint(backlogTasks)} {
		var err error
		if minds[i], err = startWaiter(ctx, n); err != nil {
			return err
		}
		defer minds[i].stop()
	}
	var cost [2][]float64
	for round := range backlogRounds {
		for k := range minds {
			i := (k + round) % 2
			used, err := minds[i].round()
			if err != nil {
				return err
			}
			cost[i] = append(cost[i], used/(backlogTurns*batch)*1e6)
		}
	}
	fmt.Printf("one decision without a backlog: mean %.2f, %s µs\n", mean(cost[0]), spread(cost[0]))
	fmt.Printf("with %d that can't start:   mean %.2f, %s µs\n", backlogTasks, mean(cost[1]), spread(cost[1]))
	r.atMost("a backlog of 100,000 unschedulable tasks adds [%]", 100*(mean(cost[1])/mean(cost[0])-1), 10)
	return mindBacklog(ctx, r)
}

// waiter is one of the two processes: a round for each line.
type waiter struct {
	cmd     *exec.Cmd
	ask     io.WriteCloser
	answers *bufio.Scanner
}

func startWaiter(ctx context.Context, backlog string) (*waiter, error) {
	w := &waiter{cmd: exec.CommandContext(ctx, os.Args[0], "backlog")}
	w.cmd.Env, w.cmd.Stderr = append(os.Environ(), "FERMI_BACKLOG="+backlog), os.Stderr
	ask, err := w.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.ask, w.answers = ask, bufio.NewScanner(out)
	return w, w.cmd.Start()
}

// round returns the processor seconds of one.
func (w *waiter) round() (float64, error) {
	if _, err := fmt.Fprintln(w.ask); err != nil {
		return 0, err
	}
	if !w.answers.Scan() {
		return 0, fmt.Errorf("a process ended early: %w", w.cmd.Wait())
	}
	return strconv.ParseFloat(w.answers.Text(), 64)
}

func (w *waiter) stop() {
	w.ask.Close()
	_ = w.cmd.Wait()
}

// backlogged serves rounds beside n tasks that can't start.
func backlogged(n string) error {
	count, err := strconv.Atoi(n)
	if err != nil {
		return err
	}
	m := newMind(1)
	if err := m.halfFull(); err != nil {
		return err
	}
	for i := range count { // more devices a node than there are, or a type that is not there
		roles := worker(1+i%4, schedDevices+1+i/4%(backlogShapes/8), 0)
		if i/4%2 == 0 {
			roles[0].Need.DeviceType = "not here"
		}
		m.submit(roles)
	}
	begin := time.Now()
	for asks := bufio.NewScanner(os.Stdin); asks.Scan(); {
		used := cpuSeconds()
		if err := m.turns(begin); err != nil {
			return err
		}
		if m.q.Len() != count {
			return fmt.Errorf("%d of %d wait: the backlog is not one", m.q.Len(), count)
		}
		fmt.Println(cpuSeconds() - used)
	}
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
