package devenv

import (
	"context"

	api "github.com/fermi-cluster/fermi/api/v1"
	kind "github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/internal/control/work"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/quota"
	"github.com/fermi-cluster/fermi/internal/store"
)

// New makes the controller of environments of what all controllers have, and of what their operator says.
func New(cfg work.Config, policy kind.Policy) *work.Controller {
	erase := cfg.EraseBytes
	room := quota.Environments{
		Find: func(ctx context.Context, key api.Key) (api.Object, error) { return cfg.Store.Get(ctx, key, 0) },
		List: func(ctx context.Context) (list []api.Object, err error) {
			all, err := cfg.Store.List(ctx, kind.Kind, "", 0)
			all.Ascend("", func(o api.Object) bool { list = append(list, o); return true })
			return list, err
		}, User: policy.User,
	}
	cfg.Rules = &rules{policy: policy, watch: newWatch(cfg.Hub, policy, room, cfg.Store, cfg.DropHome)}
	cfg.EraseBytes = func(ctx context.Context, id string) error {
		o, err := store.WorkByID(ctx, cfg.Store, id, 0)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		if e, is := o.(*kind.DevEnvironment); is {
			for _, home := range (kind.Moves{Of: e}).Homes() {
				if err := cfg.DropHome(ctx, home.Home, home.Zone); err != nil {
					return err
				}
			}
		}
		return erase(ctx, id)
	}
	return work.New(cfg)
}

// rules are what environments add to what all work has.
type rules struct {
	*watch
	policy kind.Policy
}

func (*rules) Kind() api.Kind { return kind.Kind }

// Fill names the home: it is the environment's, not the replica's. It may hold what quotas count it as.
func (*rules) Fill(w api.Work, _ *api.Role, r *engine.Replica) {
	e := w.(*kind.DevEnvironment)
	r.Home, r.HomeLimit, r.Resets = e.HomeName(), kind.Needs(e).Storage, e.Spec.Resets
	switch m := (kind.Moves{Of: e}); {
	case !e.Saves():
		r.HomeFrom, r.Layer = e.Begins(), m.BringsLayer()
	case m.TakesLayer():
		r.Images, r.Image = engine.ImageKeep, e.Spec.Image
	}
}
