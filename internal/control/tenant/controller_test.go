package tenant

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine/hostengine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/storetest"
)

const first, last = 5000, 5009

type world struct {
	t     *testing.T
	store *store.Store
	dir   string
	id    int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{t: t, store: storetest.Open(t), dir: t.TempDir()}
}

// register is a leader's, on the machine with this folder.
func (w *world) register(machine string) *Register {
	w.t.Helper()
	dir := filepath.Join(w.dir, machine)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	return New(Config{Store: w.store, First: first, Last: last, Burn: hostengine.UIDs{Dir: dir}.Burn})
}

func (w *world) project(name string) {
	w.t.Helper()
	w.id++
	p := &api.Project{Meta: api.Meta{Name: name, ID: fmt.Sprintf("proj-%03d", w.id)}}
	revision, err := w.store.Commit(w.t.Context(), store.Txn{Ops: []store.Op{store.Create(p)}})
	if err == nil {
		_, err = w.store.Get(w.t.Context(), api.KeyOf(p), revision)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) remove(name string) {
	w.t.Helper()
	revision, err := w.store.Commit(w.t.Context(), store.Txn{Ops: []store.Op{store.Delete(api.Key{Kind: api.KindProject, Name: name}, 0)}})
	if err == nil {
		_, err = w.store.List(w.t.Context(), api.KindProject, "", revision)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) uid(r *Register, project string, want int) {
	w.t.Helper()
	if got, err := r.UID(w.t.Context(), project, store.Epoch{}); err != nil || got != want {
		w.t.Errorf("%s: %d, %v; want %d", project, got, err, want)
	}
}

// TestUIDs: one each, kept, never given twice, whoever leads and whatever was lost.
func TestUIDs(t *testing.T) {
	w := newWorld(t)
	r := w.register("m")
	w.project("a")
	w.project("b")
	w.uid(r, "a", first)
	w.uid(r, "b", first+1)
	w.uid(r, "a", first)
	w.remove("b")
	w.project("b")
	w.uid(r, "b", first+2)             // the old b's files may be anywhere
	w.uid(w.register("m"), "a", first) // the next leader
	w.project("c")
	w.uid(w.register("other"), "c", first+3) // restored on a machine that burnt nothing
	w.project("d")
	w.uid(r, "d", first+4)
	if _, err := r.UID(t.Context(), "nobody", store.Epoch{}); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
	if _, err := r.UID(t.Context(), "nobody", store.Epoch{Key: "x", Revision: 1}); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
	w.project("e")
	if _, err := r.UID(t.Context(), "e", store.Epoch{Key: "leader/x", Revision: 1}); fault.ReasonOf(err) != "NotLeader" {
		t.Error("one who leads no more:", err)
	}
	w.uid(r, "e", first+5)
	for i := range 4 {
		name := fmt.Sprintf("f%d", i)
		w.project(name)
		w.uid(r, name, first+6+i)
	}
	w.project("g")
	if _, err := r.UID(t.Context(), "g", store.Epoch{}); !fault.Is(err, fault.Full) || fault.ReasonOf(err) != "UIDsUsedUp" {
		t.Error("more than there are:", err)
	}
}

// TestUIDsAtOnce: many replicas of many projects start together, under two servers of one machine.
func TestUIDsAtOnce(t *testing.T) {
	w := newWorld(t)
	registers := []*Register{w.register("m"), w.register("m")}
	var wg sync.WaitGroup
	var mu sync.Mutex
	owner := map[int]string{}
	for i := range 4 {
		w.project(fmt.Sprintf("p%d", i))
	}
	for i := range 32 {
		name := fmt.Sprintf("p%d", i%4)
		wg.Go(func() {
			uid, err := registers[i/4%2].UID(t.Context(), name, store.Epoch{})
			mu.Lock()
			defer mu.Unlock()
			if had, taken := owner[uid]; err != nil || taken && had != name {
				t.Errorf("%s: %d of %q, %v", name, uid, had, err)
			}
			owner[uid] = name
		})
	}
	wg.Wait()
	if len(owner) != 4 {
		t.Errorf("%v", owner)
	}
}

// TestGarbledRecord: better no uid than somebody's.
func TestGarbledRecord(t *testing.T) {
	w := newWorld(t)
	r := w.register("m")
	w.project("a")
	if err := os.WriteFile(filepath.Join(w.dir, "m", "uids.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.UID(t.Context(), "a", store.Epoch{}); !fault.Is(err, fault.Unavailable) {
		t.Error(err)
	}
}

// TestUIDsFromTheBook: two instances of one machine give different numbers, and what older ones gave stays.
func TestUIDsFromTheBook(t *testing.T) {
	dir := t.TempDir()
	seen := map[int]string{}
	for _, instance := range []string{"a", "b"} {
		w := newWorld(t)
		old := &api.Project{Meta: api.Meta{Name: "old", ID: "proj-old"}, Status: api.ProjectStatus{UID: first}}
		if _, err := w.store.Commit(t.Context(), store.Txn{Ops: []store.Op{store.Create(old)}}); err != nil {
			t.Fatal(err)
		}
		book := hostengine.UIDBook{Dir: filepath.Join(dir, "book"), Data: filepath.Join(dir, instance)}
		r := New(Config{Store: w.store, Take: book.Take})
		for i := range 3 {
			name := fmt.Sprintf("p%d", i)
			w.project(name)
			uid, err := r.UID(t.Context(), name, store.Epoch{})
			if err != nil || uid%hostengine.UIDsEach != 0 || seen[uid] != "" {
				t.Errorf("%s of %s: %d, which is %q's, %v", name, instance, uid, seen[uid], err)
			}
			seen[uid] = instance
			w.uid(r, name, uid)
		}
		w.uid(r, "old", first)
	}
}
