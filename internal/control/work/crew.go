package work

import (
	"context"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/run"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Keeper keeps one kind of work true.
type Keeper interface {
	// Run works until ctx, which ends with the leadership, ends.
	Run(ctx context.Context, epoch store.Epoch) error
	// Notify says that something about a replica changed; false: its owner is not of this kind, or gone. It never
	// blocks.
	Notify(owner string, name engine.Name) bool
}

// Sweeper ends what has no owner.
type Sweeper interface {
	Run(ctx context.Context, epoch store.Epoch) error
	// Notify says that something about a replica changed whose owner no keeper knows. It never blocks.
	Notify(owner string)
}

// Crew are the keepers of all kinds, and who sweeps behind them.
type Crew struct {
	keepers []Keeper
	sweeper Sweeper
}

// NewCrew starts nothing.
func NewCrew(s Sweeper, keepers ...Keeper) *Crew { return &Crew{keepers, s} }

// Run works until ctx, which ends with the leadership, ends.
func (c *Crew) Run(ctx context.Context, epoch store.Epoch) error {
	var g run.Group
	for _, k := range c.keepers {
		g.Add("keeper", func(ctx context.Context) error { return k.Run(ctx, epoch) })
	}
	g.Add("sweeper", func(ctx context.Context) error { return c.sweeper.Run(ctx, epoch) })
	return g.Run(ctx)
}

// Notify hands a replica's news to whose it is; nobody's are swept. It never blocks.
func (c *Crew) Notify(owner string, name engine.Name) {
	for _, k := range c.keepers {
		if k.Notify(owner, name) {
			return
		}
	}
	c.sweeper.Notify(owner)
}
