package app

import (
	"context"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/server/archive"
)

// archivesGranted stands where every archive of an older folder is open to the projects whose tasks have it.
const archivesGranted = "granted/archives.complete"

// grantArchives opens archives that were uploaded before they belonged to projects to those whose tasks have
// them, once: tasks of such a folder can be run again. It may be said again, and by several servers.
func (p *part) grantArchives(ctx context.Context) error {
	done, _, err := p.blob.Open(ctx, archivesGranted)
	if err == nil {
		return done.Close()
	}
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	projects, err := p.store.List(ctx, api.KindProject, "", 0)
	if err != nil {
		return err
	}
	ids := map[string]string{}
	projects.Ascend("", func(o api.Object) bool {
		ids[o.GetMeta().Name] = o.GetMeta().ID
		return true
	})
	open := func(o api.Object) error {
		t, ok := o.(*api.TrainingTask)
		if !ok || t.Spec.Code == nil || t.Spec.Code.Archive == "" || ids[t.Meta.Project] == "" {
			return nil
		}
		return archive.Grant(ctx, p.blob, ids[t.Meta.Project], t.Spec.Code.Archive, 0)
	}
	live, err := p.store.List(ctx, api.KindTrainingTask, "", 0)
	if err != nil {
		return err
	}
	live.Ascend("", func(o api.Object) bool {
		err = open(o)
		return err == nil
	})
	for q := (history.ListQuery{Kind: api.KindTrainingTask, Limit: 1000}); err == nil; {
		var page []history.Archived
		if page, err = p.history.ListArchived(ctx, q); err != nil {
			break
		}
		for _, row := range page {
			if err = open(row.Object); err != nil {
				break
			}
			q.After = &history.Cursor{ID: row.Object.GetMeta().ID}
		}
		if len(page) < q.Limit {
			break
		}
	}
	if err != nil {
		return err
	}
	_, err = p.blob.Put(ctx, archivesGranted, strings.NewReader(p.cfg.Version))
	return err
}
