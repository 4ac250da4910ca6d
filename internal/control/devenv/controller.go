package devenv

import (
	"context"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	kind "github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/internal/control/work"
	"github.com/fermi-cluster/fermi/internal/engine"
)

// New makes the controller of environments of what all controllers have.
func New(cfg work.Config) *work.Controller {
	erase := cfg.EraseBytes
	cfg.Rules = rules{}
	cfg.EraseBytes = func(ctx context.Context, id string) error {
		if err := cfg.DropHome(ctx, id); err != nil {
			return err
		}
		return erase(ctx, id)
	}
	return work.New(cfg)
}

// rules are what environments add to what all work has.
type rules struct{}

func (rules) Kind() api.Kind { return kind.Kind }

func (rules) Decide(s *work.Seen, now time.Time) work.Plan { return decide(s, now) }

// Fill names the home: it is the environment's, not the replica's.
func (rules) Fill(w api.Work, _ *api.Role, r *engine.Replica) {
	e := w.(*kind.DevEnvironment)
	r.Home, r.HomeLimit = e.Meta.ID, e.Spec.Storage
}
