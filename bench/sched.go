package main

import (
	"context"
	"fmt"
)

// schedParts of `bench sched`, in this order: rates go first, its peak of memory is the process's.
var schedParts = []benchmark{{"rates", benchRates}, {"backlog", benchBacklog}, {"chronus", benchChronus}, {"openb", benchOpenB}}

// benchSched is all that must hold of the planner in one go. A part that can't run is a check that
// failed: the others still tell what they measured.
func benchSched(ctx context.Context, r *report) error {
	r.Seeds, r.SeedsOf = nil, map[string][]int{}
	for _, part := range schedParts {
		sub := r.part(part.name)
		fmt.Printf("==== %s, %s, load %s\n", part.name, machine(), load())
		if err := part.run(ctx, sub); err != nil {
			fmt.Printf("%s: %v\n", part.name, err)
			sub.atLeast("ran to its end", 0, 1)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for _, c := range sub.Checks {
			c.Name = part.name + ": " + c.Name
			r.Checks = append(r.Checks, c)
		}
		r.SeedsOf[part.name] = sub.Seeds
	}
	return nil
}
