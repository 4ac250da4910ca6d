package quota

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
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/history/sqlstore"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/storetest"
)

// What is there at the start is counted for its project, archived tasks' bytes too; then writes count as
// they come, and what goes over a limit is refused.
func TestStoredBytes(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	truth := storetest.Open(t)
	past, err := sqlstore.Open(ctx, sqlstore.Config{Path: filepath.Join(dir, "h.db"), Clock: clock.Real})
	if err != nil {
		t.Fatal(err)
	}
	defer past.Close()
	bytes, err := folder.Open(filepath.Join(dir, "b"))
	if err != nil {
		t.Fatal(err)
	}
	defer bytes.Close()
	shared, err := folder.Open(filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	live := &api.TrainingTask{Meta: api.Meta{ID: "task-live", Name: "live", Project: "lab"}}
	lab := &api.Project{Meta: api.Meta{ID: "proj-lab", Name: "lab"}, Spec: api.ProjectSpec{Limits: &api.ProjectLimits{Outputs: 1000, Logs: 100, Checkpoints: 50, Archives: 10, Images: 5000}}}
	revision, err := truth.Commit(ctx, store.Txn{Ops: []store.Op{store.Create(lab), store.Create(live)}})
	if err == nil {
		_, err = truth.Get(ctx, api.KeyOf(live), revision)
	}
	if err == nil {
		err = past.PutArchived(ctx, history.Archived{Object: &api.TrainingTask{Meta: api.Meta{ID: "task-old", Name: "old", Project: "lab"}}, Phase: "Completed"})
	}
	for key, size := range map[string]int{"outputs/task-live/worker-0/a": 300, "outputs/task-old/worker-0/b": 200, "outputs/task-gone/worker-0/c": 999, "logs/task-old/worker-0/0-1.zst": 40} {
		if err == nil {
			_, err = bytes.Put(ctx, key, strings.NewReader(strings.Repeat("x", size)))
		}
	}
	if err == nil {
		_, err = bytes.Put(ctx, grantsAt+"proj-lab/0000", strings.NewReader("7"))
	}
	if err == nil {
		_, err = shared.Put(ctx, "task-live/chunks/a", strings.NewReader(strings.Repeat("x", 30)))
	}
	s := New(Config{
		Store: truth, History: past, Blob: bytes, Shared: func() (ckpt.Store, error) { return shared, nil }, Ready: truth.Ready(), Log: slog.New(slog.DiscardHandler),
		Work: func(ctx context.Context, id string) (api.Work, error) {
			o, err := truth.GetByID(ctx, api.KindTrainingTask, id, 0)
			if err != nil {
				return nil, err
			}
			return o.(*api.TrainingTask), nil
		},
		Images: func(uid int) int64 { return int64(uid) + 1 },
	})
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
	if s.MostImages("lab") != 5000 || s.MostImages("nobody") != 1<<40 {
		t.Errorf("images: %d, %d", s.MostImages("lab"), s.MostImages("nobody"))
	}
	kept := store.Clone(lab)
	kept.Status.UID = 1233
	var u api.ProjectUsage
	if s.Used(kept, &u); u.Images != 1234 || used().Images != 0 {
		t.Errorf("%+v", u)
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
	must(s.Keep(ctx, "task-live", link.KeptOutputs, 500))
	refused(s.Keep(ctx, "task-live", link.KeptOutputs, 1), "outputs")
	must(s.Keep(ctx, "task-live", link.KeptOutputs, -1)) // it was not stored after all
	must(s.Keep(ctx, "task-live", link.KeptOutputs, 1))
	refused(s.Keep(ctx, "task-live", link.KeptLogs, 61), "logs")
	refused(s.KeepArchive(lab, 4), "archives")
	must(s.KeepArchive(lab, 3))
	refused(s.RoomForCheckpoint(lab, 21), "checkpoints")
	if !s.RoomForSave(ctx, live) {
		t.Error("there is room for a checkpoint")
	}
	if _, err := shared.Put(ctx, "task-live/chunks/b", strings.NewReader(strings.Repeat("x", 30))); err != nil {
		t.Fatal(err)
	}
	looking, end := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); s.lookUntil(looking, nil) }()
	for tries := 0; used().Checkpoints != 60; tries++ {
		if tries > 60_000 {
			t.Fatal("the checkpoints were not looked at again")
		}
		time.Sleep(time.Millisecond)
	}
	end()
	<-done
	if s.RoomForSave(ctx, live) {
		t.Error("there is no room for another checkpoint")
	}
	events, err := past.ListEvents(ctx, history.EventQuery{Kind: api.KindTrainingTask, ObjectID: "task-live"})
	if err != nil || len(events) != 1 || events[0].Reason != "ProjectLimit" {
		t.Errorf("%+v %v", events, err)
	}
	s.Forget("task-live")
	if got := used(); got.Outputs != 200 || got.Checkpoints != 0 {
		t.Errorf("%+v", got)
	}
}

// Several servers of one store hold a limit together, and one that starts knows the last count before it has made its own.
func TestSeveralServers(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	truth := storetest.Open(t)
	kept, err := folder.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	lab := &api.Project{Meta: api.Meta{ID: "proj-lab", Name: "lab"}, Spec: api.ProjectSpec{Limits: &api.ProjectLimits{Outputs: 1000}}}
	task := &api.TrainingTask{Meta: api.Meta{ID: "task-1", Name: "one", Project: "lab"}}
	made, err := truth.Commit(ctx, store.Txn{Ops: []store.Op{store.Create(lab), store.Create(task)}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := truth.Get(ctx, api.KeyOf(lab), made); err != nil { // a store that has just begun hears of it a little later
		t.Fatal(err)
	}
	server := func(name string) *Book {
		return New(Config{
			Store: truth, Blob: kept, Shared: func() (ckpt.Store, error) { return nil, nil }, Ready: truth.Ready(), Log: slog.New(slog.DiscardHandler), Server: name,
			Work: func(context.Context, string) (api.Work, error) { return task, nil },
		})
	}
	used := func(b *Book) api.Bytes { var u api.ProjectUsage; b.Used(lab, &u); return u.Outputs }
	// write stores outputs as the hub does.
	write := func(b *Book, name string, size int) error {
		t.Helper()
		err := b.Keep(ctx, "task-1", link.KeptOutputs, int64(size))
		if err == nil {
			_, err = kept.Put(ctx, "outputs/task-1/worker-0/"+name, strings.NewReader(strings.Repeat("x", size)))
		}
		return err
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	a, b := server("a"), server("b")
	must(a.count(ctx))
	must(write(a, "1", 300))
	must(a.exchange(ctx))
	must(b.count(ctx)) // finds the 300, and knows that a has told of them
	must(b.exchange(ctx))
	if used(b) != 300 {
		t.Errorf("counted twice, or not: %v", used(b))
	}
	must(write(a, "2", 400))
	must(write(b, "3", 100))
	for range 2 {
		must(a.exchange(ctx))
		must(b.exchange(ctx))
	}
	if used(a) != 800 || used(b) != 800 {
		t.Errorf("%v and %v, want 800", used(a), used(b))
	}
	if err := write(b, "4", 201); fault.ReasonOf(err) != "ProjectLimit" {
		t.Errorf("together they go over the limit: %v", err)
	}
	must(a.count(ctx))
	must(a.exchange(ctx))
	if used(a) != 800 {
		t.Errorf("after a count: %v", used(a))
	}
	c := server("c") // has counted nothing yet
	c.recall(ctx)
	if err := write(c, "5", 201); fault.ReasonOf(err) != "ProjectLimit" || used(c) != 800 {
		t.Errorf("before its first count a server lets everything in: %v, %v", used(c), err)
	}
	must(write(c, "6", 50))
	must(c.count(ctx))
	if used(c) != 850 {
		t.Errorf("%v, want 850", used(c))
	}
	a.Forget("task-1")
	must(kept.Delete(ctx, "outputs/task-1/"))
	must(a.exchange(ctx))
	must(b.exchange(ctx))
	if used(a) != 0 || used(b) > 100 {
		t.Errorf("after a delete %v and %v", used(a), used(b))
	}
}
