package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/fermi-cluster/fermi/test/harness"
)

// stops: SIGSTOP of one of four ranks, FERMI_STOPS (10) times → it is found and named, and the training goes on.
func stops(ctx context.Context, r *report, x *contender, rnd *rand.Rand) error {
	trials, named := harness.EnvInt("FERMI_STOPS", 10), 0
	if trials <= 0 {
		return nil // nothing was tried, so there is nothing to say
	}
	var found, stepped sample
	for range trials {
		rank := rnd.IntN(x.size)
		then, step, err := x.strike(ctx, rank, time.Duration(rnd.IntN(300))*time.Millisecond, syscall.SIGSTOP)
		if err != nil {
			return fmt.Errorf("SIGSTOP of rank %d: %w", rank, err)
		}
		task, err := x.get(ctx)
		if err != nil {
			return err
		}
		stepped = append(stepped, step.at.Sub(then))
		f := task.Status.Failure
		if f == nil || f.At.Before(then) {
			fmt.Printf("SIGSTOP of rank %d was not found\n", rank)
			continue
		}
		found = append(found, f.At.Sub(then))
		if f.Cause == "process-stopped" && f.Rank != nil && *f.Rank == rank {
			named++
		} else {
			fmt.Printf("SIGSTOP of rank %d was taken for %s\n", rank, f.Message.EN)
		}
	}
	fmt.Printf("%-22s found %v\n%-22s next step %v\n", "SIGSTOP", found, "", stepped)
	r.atLeast("SIGSTOP, named right, of all", float64(named)/float64(trials), 1)
	r.atMost("SIGSTOP → found, worst [s]", found.quantile(1).Seconds(), 10).Among(found.seconds())
	r.atMost("SIGSTOP → next step, worst [s]", stepped.quantile(1).Seconds(), 10).Among(stepped.seconds())
	return nil
}
