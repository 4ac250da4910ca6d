package app

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/server/archive"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/storetest"
)

// What is there at the start is counted for its project, archived tasks' bytes too; then writes count as
// they come, and what goes over a limit is refused.
func TestStoredBytes(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	p := &part{store: storetest.Open(t)}
	p.cfg.Log = slog.New(slog.DiscardHandler)
	var err error
	if p.history, err = (Past{}).open(ctx, filepath.Join(dir, "h.db"), nil); err != nil {
		t.Fatal(err)
	}
	defer p.history.Close()
	if p.blob, err = folder.Open(filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}
	defer p.blob.Close()
	shared, err := folder.Open(filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	p.shared = func() (ckpt.Store, error) { return shared, nil }
	live := &api.TrainingTask{Meta: api.Meta{ID: "task-live", Name: "live", Project: "lab"}}
	lab := &api.Project{Meta: api.Meta{ID: "proj-lab", Name: "lab"}, Spec: api.ProjectSpec{Limits: &api.ProjectLimits{Outputs: 1000, Logs: 100, Checkpoints: 50, Archives: 10}}}
	revision, err := p.store.Commit(ctx, store.Txn{Ops: []store.Op{store.Create(lab), store.Create(live)}})
	if err == nil {
		_, err = p.store.Get(ctx, api.KeyOf(live), revision)
	}
	if err == nil {
		err = p.history.PutArchived(ctx, history.Archived{Object: &api.TrainingTask{Meta: api.Meta{ID: "task-old", Name: "old", Project: "lab"}}, Phase: "Completed"})
	}
	for key, size := range map[string]int{"outputs/task-live/worker-0/a": 300, "outputs/task-old/worker-0/b": 200, "outputs/task-gone/worker-0/c": 999, "logs/task-old/worker-0/0-1.zst": 40} {
		if err == nil {
			_, err = p.blob.Put(ctx, key, strings.NewReader(strings.Repeat("x", size)))
		}
	}
	if err == nil {
		err = archive.Grant(ctx, p.blob, "proj-lab", "sha256:"+strings.Repeat("0", 64), 7)
	}
	if err == nil {
		_, err = shared.Put(ctx, "task-live/chunks/a", strings.NewReader(strings.Repeat("x", 30)))
	}
	s := newStored(p)
	if err == nil {
		err = s.count(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	used := func() (u api.ProjectUsage) { s.Used(lab, &u); return u }
	if got, want := used(), (api.ProjectUsage{Outputs: 500, Logs: 40, Archives: 7, Checkpoints: 30}); got != want {
		t.Fatalf("%+v, want %+v", got, want)
	}
	refused := func(err error, limit string) {
		t.Helper()
		if f := fault.From(err); err == nil || f.Code != fault.Full || f.Reason != "ProjectLimit" || f.Fields[0].Path != "project.spec.limits."+limit || f.Hint.ZH == "" {
			t.Errorf("%v", err)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	must(s.keep(ctx, "task-live", link.KeptOutputs, 500))
	refused(s.keep(ctx, "task-live", link.KeptOutputs, 1), "outputs")
	must(s.keep(ctx, "task-live", link.KeptOutputs, -1)) // it was not stored after all
	must(s.keep(ctx, "task-live", link.KeptOutputs, 1))
	refused(s.keep(ctx, "task-live", link.KeptLogs, 61), "logs")
	refused(s.KeepArchive(lab, 4), "archives")
	must(s.KeepArchive(lab, 3))
	refused(s.RoomForCheckpoint(lab, 21), "checkpoints")
	if !s.roomForSave(ctx, live) {
		t.Error("there is room for a checkpoint")
	}
	if _, err := shared.Put(ctx, "task-live/chunks/b", strings.NewReader(strings.Repeat("x", 30))); err != nil {
		t.Fatal(err)
	}
	looking, end := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); s.lookUntil(looking, nil) }()
	for tries := 0; used().Checkpoints != 60; tries++ {
		if tries > 10_000 {
			t.Fatal("the checkpoints were not looked at again")
		}
		time.Sleep(time.Millisecond)
	}
	end()
	<-done
	if s.roomForSave(ctx, live) {
		t.Error("there is no room for another checkpoint")
	}
	events, err := p.history.ListEvents(ctx, history.EventQuery{Kind: api.KindTrainingTask, ObjectID: "task-live"})
	if err != nil || len(events) != 1 || events[0].Reason != "ProjectLimit" {
		t.Errorf("%+v %v", events, err)
	}
	s.Forget("task-live")
	if got := used(); got.Outputs != 200 || got.Checkpoints != 0 {
		t.Errorf("%+v", got)
	}
}
