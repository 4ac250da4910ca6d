package kinds

import (
	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/internal/control/orphan"
	"github.com/fermi-cluster/fermi/internal/control/save"
	"github.com/fermi-cluster/fermi/internal/control/serve"
	"github.com/fermi-cluster/fermi/internal/control/train"
	"github.com/fermi-cluster/fermi/internal/control/work"
	"github.com/fermi-cluster/fermi/internal/server"
)

// Work is a kind of work as a program brings it: its row in the table of kinds, its door, and who carries it out.
type Work struct {
	Row  api.KindInfo
	Door server.WorkRow
	// New makes its controller of what all have, and of the operator's word about environments; it sets the rules.
	New func(work.Config, devenv.Policy) work.Keeper
}

// further are kinds of work beside training tasks.
var further []Work

// Register adds a kind of work, before anything is served or asked.
func Register(w Work) {
	w.Door.Kind = w.Row.Kind
	api.Register(w.Row)
	server.Register(w.Door)
	further = append(further, w)
}

// Crew are the controllers of all kinds of work; training is asked for more than its turns.
type Crew struct {
	*work.Crew
	Train *train.Controller
	Save  *save.Controller  // of training tasks' checkpoints
	Serve *serve.Controller // nil: the program has no services
}

// Assemble adds the further kinds to training, and the sweep behind all. far dials replicas of services on machines that joined.
func (c *Crew) Assemble(cfg work.Config, policy devenv.Policy, far serve.Far) {
	all, log := []work.Keeper{c.Train}, cfg.Log
	all = append(all, c.services(cfg, far)...)
	for _, w := range further {
		cfg.Log = log.With("part", w.Row.Singular)
		all = append(all, w.New(cfg, policy))
	}
	c.Crew = work.NewCrew(orphan.New(orphan.Config{Store: cfg.Store, Engine: cfg.Engine, Clock: cfg.Clock, Log: log.With("part", "orphan")}), all...)
}
