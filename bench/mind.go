package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// mindParts of `bench mind`: the planner on data nobody tuned it on, beside its rivals.
var mindParts = []benchmark{
	{"overload", mindOverload},
	{"backlog", mindBacklog},
	{"topology", mindTopology},
	{"churn", mindChurn},
	{"zones", mindZones},
	{"deadlines", mindDeadlines},
}

// benchMind runs the parts that FERMI_MIND names, all without it. FERMI_SIZE=small takes a small
// version of each, which runs in a minute or two; the whole takes an hour.
func benchMind(ctx context.Context, r *report) error {
	r.Seeds, r.SeedsOf = nil, map[string][]int{}
	only := strings.FieldsFunc(os.Getenv("FERMI_MIND"), func(c rune) bool { return c == ',' })
	for _, part := range mindParts {
		if len(only) > 0 && !slices.Contains(only, part.name) {
			continue
		}
		sub := r.part("mind-" + part.name)
		begin := time.Now()
		fmt.Printf("==== %s\n", part.name)
		if err := part.run(ctx, sub); err != nil {
			fmt.Printf("%s: %v\n", part.name, err)
			sub.atLeast("ran to its end", 0, 1)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		fmt.Printf("     %s in %s\n", part.name, time.Since(begin).Round(time.Millisecond))
		for _, c := range sub.Checks {
			c.Name = part.name + ": " + c.Name
			r.Checks = append(r.Checks, c)
		}
		r.SeedsOf[part.name] = sub.Seeds
	}
	return nil
}

// small says that a short version of the benchmark is wanted.
func small() bool { return os.Getenv("FERMI_SIZE") == "small" }
