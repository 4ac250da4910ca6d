// Package run starts the long-running parts of a process and ends them together.
//
// Place: foundation. Promise: Group.Run returns only when every actor has returned; the first
// failure ends all and is the one reported, by name. Enemies: goroutines without an owner.
package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Group is a set of named actors. The zero value is ready.
type Group struct {
	actors []actor
}

type actor struct {
	name string
	run  func(context.Context) error
}

// Add names an actor: it blocks until ctx ends or it fails. Not after Run.
func (g *Group) Add(name string, run func(context.Context) error) {
	g.actors = append(g.actors, actor{name, run})
}

// Run starts all actors and waits for all. An actor that returns nil early does not end the
// others; one that returns an error does. Ending because ctx ended is no error.
func (g *Group) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for _, a := range g.actors {
		wg.Go(func() {
			if err := a.run(ctx); err != nil && !(ctx.Err() != nil && errors.Is(err, context.Canceled)) {
				cancel(fmt.Errorf("%s: %w", a.name, err))
			}
		})
	}
	wg.Wait()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}
