package app

import (
	"context"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/control/orphan"
	"github.com/fermi-cluster/fermi/internal/control/work"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Controller keeps one kind of work true.
type Controller interface {
	// Run works until ctx, which ends with the leadership, ends.
	Run(ctx context.Context, epoch store.Epoch) error
	// Notify says that something about a replica changed; false: its owner is not of this kind, or gone. It never
	// blocks.
	Notify(owner string, name engine.Name) bool
}

// Work is a kind of work as a program brings it: its row in the table of kinds, and who carries it out.
type Work struct {
	Row api.KindInfo
	// New makes its controller of what all have; it sets the rules.
	New func(work.Config) Controller
}

// further are kinds of work beside training tasks.
var further []Work

// Register adds a kind of work, before anything is served or asked.
func Register(w Work) {
	api.Register(w.Row)
	further = append(further, w)
}

// assembleWork makes the controllers of all kinds of work, and the sweep behind them.
func (p *part) assembleWork() {
	p.works = []Controller{p.train}
	for _, w := range further {
		p.works = append(p.works, w.New(work.Config{
			Store: p.store, History: p.history, Engine: (*current)(p), Hub: p.hub, Clock: clock.Real,
			Log: p.cfg.Log.With("part", strings.ToLower(string(w.Row.Kind))), EraseBytes: p.eraseBytes, UID: p.uid, Folders: p.tenants.Folders,
			ArchiveAfter: p.cfg.ArchiveAfter, Workers: 8,
		}))
	}
	p.orphans = orphan.New(orphan.Config{Store: p.store, Engine: (*current)(p), Clock: clock.Real, Log: p.cfg.Log.With("part", "orphan")})
}

// noticed hands a replica's news to whose it is; nobody's are swept.
func (p *part) noticed(owner string, name engine.Name) {
	for _, w := range p.works {
		if w.Notify(owner, name) {
			return
		}
	}
	p.orphans.Notify(owner)
}
