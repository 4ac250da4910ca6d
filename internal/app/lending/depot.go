package lending

import (
	"context"
	"log/slog"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	words "github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/internal/asset"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Depot looks after the bytes of datasets and models, on the leader.
type Depot struct {
	Repo  *asset.Repo
	Store *store.Store
	Log   *slog.Logger
}

// collectEvery is how often what no version names is looked for.
const collectEvery = time.Hour

// Collect deletes what no version names any more, until ctx ends.
func (d Depot) Collect(ctx context.Context) error {
	for {
		snap, err := d.Store.List(ctx, api.KindProject, "", 0)
		if err != nil && ctx.Err() == nil {
			d.Log.Warn("datasets and models are not collected; trying again", "error", err)
		}
		if err == nil {
			var projects []api.Object
			snap.Ascend("", func(o api.Object) bool { projects = append(projects, o); return true })
			for _, p := range projects {
				d.project(ctx, p)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-clock.Real.After(collectEvery):
		}
	}
}

func (d Depot) project(ctx context.Context, p api.Object) {
	n, err := d.Repo.Collect(ctx, p.GetMeta().ID, func(ctx context.Context) ([]string, error) {
		rev, err := d.Store.Now(ctx) // nothing that was committed is missed
		if err != nil {
			return nil, err
		}
		snap, err := d.Store.List(ctx, words.VersionKind, p.GetMeta().Name, rev)
		if err != nil {
			return nil, err
		}
		var out []string
		snap.Ascend("", func(o api.Object) bool {
			out = append(out, o.(*words.AssetVersion).Spec.Manifest)
			return true
		})
		return out, nil
	})
	if err != nil && ctx.Err() == nil {
		d.Log.Warn("datasets and models of a project are not collected; trying again", "project", p.GetMeta().Name, "error", err)
	}
	if n > 0 {
		d.Log.Info("chunks that no version names were deleted", "project", p.GetMeta().Name, "chunks", n)
	}
}
