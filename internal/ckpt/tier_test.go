package ckpt

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/blob/blobtest"
	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/blob/s3"
	"github.com/fermi-cluster/fermi/internal/blob/s3/s3test"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// TestNearestTier: each rank takes the first tier that has its state whole.
func TestNearestTier(t *testing.T) {
	near, far := newWorld(t, 1), newWorld(t, 2)
	ctx := context.Background()
	slots := near.state(1, 1, 2)
	m := must[*Manifest](t)(save(ctx, near.repo, slots, nil))
	must[*Manifest](t)(save(ctx, far.repo, slots, nil))
	both := []*Repo{near.repo, far.repo}
	targets := []Target{{Rank: 0, World: 2, Generation: 9, Path: filepath.Join(near.dir, "0")}, {Rank: 1, World: 2, Generation: 9, Path: filepath.Join(near.dir, "1")}}
	check := func(what string) {
		t.Helper()
		got, err := RestoreNewest(ctx, both, targets)
		if err != nil || len(got.Refused) != 0 {
			t.Fatalf("%s: %+v, %v", what, got, err)
		}
		for i, target := range targets {
			slot := must[*Slot](t)(OpenSlot(target.Path))
			near.same([]*Slot{slot}, slots[i:i+1])
			slot.Close()
		}
	}
	check("both whole")
	near.fs.Content("objects/tasks/t1/"+m.Parts[1].Key, func([]byte) []byte { return nil })
	check("rank 1 is only far")
	near.fs.Content("objects/tasks/t1/manifests/"+m.Name(), func(raw []byte) []byte { return raw[1:] })
	check("a torn manifest near")
	for _, name := range far.fs.Files("objects/tasks/t1/packs") {
		far.fs.Content(name, func(raw []byte) []byte { raw[0] ^= 1; return raw })
	}
	if _, err := RestoreNewest(ctx, both, targets); !fault.Is(err, fault.NotFound) {
		t.Fatalf("both damaged: %v", err)
	}
	// A store that is away is no reason to go back to an older state, or to none.
	both[1] = far.on(away{far.repo.cfg.Store})
	if _, err := RestoreNewest(ctx, both, targets); !fault.Is(err, fault.Unavailable) {
		t.Fatalf("away: %v", err)
	}
}

// away is a store that lists and gives nothing.
type away struct{ Store }

func (away) Open(context.Context, string) (io.ReadSeekCloser, blob.Info, error) {
	return nil, blob.Info{}, fault.New(fault.Unavailable, "Away", fault.T("The store is away.", "存储不可用。"))
}

// tierLife is what any tier must do: save, save again, restore on other worlds, find damage, collect.
func tierLife(t *testing.T, st Store) {
	w := newWorld(t, 1)
	repo, err := New(Config{Store: st, Prefix: "tasks/t1", PackBytes: 4096, ChunkBytes: 1024})
	if err != nil {
		t.Fatal(err)
	}
	w.repo = repo
	ctx := context.Background()
	if err := repo.Fence(ctx, 1); err != nil {
		t.Fatal(err)
	}
	first := w.state(1, 1, 2)
	must[*Manifest](t)(save(ctx, repo, first, nil))
	second := w.state(1, 2, 2)
	m := must[*Manifest](t)(saveAs(ctx, repo, second, nil, true))
	_, back, err := w.restored(2)
	if err != nil {
		t.Fatal(err)
	}
	w.same(back, second)
	if _, back, err = w.restored(3); err != nil || len(back) != 3 {
		t.Fatalf("on three: %v", err)
	}
	part, err := repo.part(ctx, m, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Delete(ctx, repo.key(part.Packs[0])); err != nil {
		t.Fatal(err)
	}
	got, back, err := w.restored(2)
	if err != nil || got.Step != 1 || len(got.Refused) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	w.same(back, first)
	if err := repo.Drop(ctx, got.Refused[0].Name); err != nil {
		t.Fatal(err)
	}
	// Nobody saves any more: now whatever is nobody's may go at once.
	repo.cfg.Grace = time.Nanosecond
	deleted := 0
	for end := time.Now().Add(5 * time.Minute); deleted == 0 && time.Now().Before(end); {
		did, err := repo.Collect(ctx, Retention{Last: 1})
		if err != nil {
			t.Fatal(err)
		}
		deleted += did.Deleted
	}
	if deleted == 0 {
		t.Fatal("nothing was collected")
	}
	if _, back, err = w.restored(2); err != nil {
		t.Fatal(err)
	}
	w.same(back, first)
}

func TestOverFolder(t *testing.T) {
	st := must[*folder.Store](t)(folder.Open(t.TempDir()))
	defer st.Close()
	tierLife(t, st)
}

// TestOverASharedFolder: on the mount that a person names.
func TestOverASharedFolder(t *testing.T) {
	st := must[*folder.Store](t)(folder.Open(blobtest.SharedFolder(t)))
	defer st.Close()
	tierLife(t, st)
}

func TestOverS3(t *testing.T) {
	st, err := s3.Open(s3test.Server(t))
	if err != nil {
		t.Fatal(err)
	}
	tierLife(t, st)
}

// TestOverS3ThatFails: through a server that now and then fails or goes silent, the newest state comes back.
func TestOverS3ThatFails(t *testing.T) {
	var sick atomic.Bool
	var mu sync.Mutex
	asked := map[string]int{}
	st, err := s3.Open(s3test.Behind(t, s3test.Server(t), func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		mu.Lock()
		n := asked[r.Method+r.URL.String()]
		asked[r.Method+r.URL.String()]++
		mu.Unlock()
		switch {
		case sick.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case n%5 == 0:
			w.WriteHeader(http.StatusInternalServerError)
		case n%5 == 1:
			panic(http.ErrAbortHandler)
		default:
			pass.ServeHTTP(w, r)
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, 1)
	w.repo = must[*Repo](t)(New(Config{Store: st, Prefix: "t", PackBytes: 512, ChunkBytes: 256}))
	ctx := context.Background()
	var slots [][]byte
	for step := uint64(1); step <= 3; step++ {
		slots = w.state(1, step, 2)
		if step == 2 {
			must[*Manifest](t)(saveOn(ctx, w.repo, slots, 1, false))
		} else {
			must[*Manifest](t)(save(ctx, w.repo, slots, nil))
		}
	}
	got, back, err := w.restored(2)
	if err != nil || got.Step != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	w.same(back, slots)
	sick.Store(true)
	if _, _, err := w.restored(2); !fault.Is(err, fault.Unavailable) {
		t.Fatalf("a server that is away: %v", err)
	}
	if _, err := save(ctx, w.repo, w.state(1, 4, 2), nil); !fault.Is(err, fault.Unavailable) {
		t.Fatalf("a server that is away: %v", err)
	}
	sick.Store(false)
	if got, _, err = w.restored(2); err != nil || got.Step != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
}
