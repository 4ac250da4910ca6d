package app

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/app/restore"
	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/embedded"
)

// TestArchivesOfAnOlderFolder: code of tasks that were there, running or long finished, belongs to their project.
func TestArchivesOfAnOlderFolder(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "f") // short: it holds unix sockets
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	etcd, err := embedded.Start(ctx, embedded.Config{Dir: filepath.Join(dir, "e"), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); wg.Wait(); etcd.Close(); _ = os.RemoveAll(dir) })
	p := &part{store: store.New(store.Config{Client: etcd.Client()})}
	wg.Go(func() { _ = p.store.Run(ctx) })
	<-p.store.Ready()
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
