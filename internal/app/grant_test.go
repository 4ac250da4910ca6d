package app

import (
	"path/filepath"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/app/restore"
	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/store"
)

// TestArchivesOfAnOlderFolder: code of tasks that were there, running or long finished, belongs to their project.
func TestArchivesOfAnOlderFolder(t *testing.T) {
	dir, truth := worldWithStore(t)
	ctx, p := t.Context(), &part{store: truth}
	var err error
	if p.history, err = (restore.Past{}).Open(ctx, filepath.Join(dir, "h.db"), nil); err != nil {
		t.Fatal(err)
	}
	defer p.history.Close()
	if p.blob, err = folder.Open(filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}
	task := func(name, code string) *api.TrainingTask {
		digest, _, err := blob.PutContent(ctx, p.blob, "archives", strings.NewReader(code), 100)
		if err != nil {
			t.Fatal(err)
		}
		return &api.TrainingTask{Meta: api.Meta{ID: "task-" + name, Name: name, Project: "lab"}, Spec: api.TrainingTaskSpec{Code: &api.Code{Archive: digest}}}
	}
	live, old := task("live", "live code"), task("old", "old code")
	lab := &api.Project{Meta: api.Meta{Name: "lab", ID: "proj-lab"}}
	revision, err := p.store.Commit(ctx, store.Txn{Ops: []store.Op{store.Create(lab), store.Create(live)}})
	if err == nil {
		_, err = p.store.Get(ctx, api.KeyOf(live), revision)
	}
	if err == nil {
		err = p.history.PutArchived(ctx, history.Archived{Object: old, Phase: "Completed"})
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := p.grantArchives(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []*api.TrainingTask{live, old} {
		key := "granted/archives/projects/proj-lab/" + strings.TrimPrefix(x.Spec.Code.Archive, "sha256:")
		if r, _, err := p.blob.Open(ctx, key); err != nil {
			t.Errorf("%s: %v", x.Meta.Name, err)
		} else {
			r.Close()
		}
	}
}
