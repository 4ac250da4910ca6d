package rotation

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/seal"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/storetest"
)

// world is a folder with keys, and a store.
type world struct {
	dir   string
	store *store.Store
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{t.TempDir(), storetest.Open(t)}
}

// open is one more server on the folder.
func (w *world) open(t *testing.T, wait time.Duration) *Keys {
	t.Helper()
	r, err := Open(Config{Dir: w.dir, Log: slog.New(slog.DiscardHandler), Wait: wait})
	if err != nil {
		t.Fatal(err)
	}
	r.Begin(Truth{Store: w.store, Replicas: func() ([]engine.Observation, bool) { return nil, false }})
	return r
}

func (w *world) mustPut(t *testing.T, o api.Object) {
	t.Helper()
	revision, err := w.store.Commit(t.Context(), store.Txn{Ops: []store.Op{store.Create(o)}})
	if err == nil {
		_, err = w.store.Get(t.Context(), api.KeyOf(o), revision)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) sealed(t *testing.T, name string) string {
	t.Helper()
	now, err := w.store.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o, err := w.store.Get(t.Context(), api.Key{Kind: api.KindSecret, Project: "lab", Name: name}, now)
	if err != nil {
		t.Fatal(err)
	}
	return o.(*api.Secret).Spec.Sealed["k"]
}

func (w *world) plain(t *testing.T, r *Keys, name string) string {
	t.Helper()
	value, err := r.Box.Open(w.sealed(t, name), api.SealContext("lab", name, "k"))
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// TestSecretKeyIsReplaced: at every moment, and after a crash at any of them, every secret opens; in the end only
// with the new key.
func TestSecretKeyIsReplaced(t *testing.T) {
	w := newWorld(t)
	r := w.open(t, time.Hour)
	put := func(name string, box *seal.Box) {
		w.mustPut(t, &api.Secret{Meta: api.Meta{ID: "sec-" + name, Name: name, Project: "lab"}, Spec: api.SecretSpec{Sealed: map[string]string{"k": box.Seal("value of "+name, api.SealContext("lab", name, "k"))}}})
	}
	for _, name := range []string{"a", "b", "c"} {
		put(name, r.Box)
	}
	stranger, err := seal.New(seal.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	put("broken", stranger)
	path := filepath.Join(w.dir, Secret)
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	oldBox, err := seal.New(old)
	if err != nil {
		t.Fatal(err)
	}
	text, err := r.Rotate(t.Context(), "secret-key")
	if err != nil || !strings.Contains(text.EN, "Secrets sealed anew: 3.") || !strings.Contains(text.EN, "Secrets that no key opens, before or now: 1") {
		t.Fatalf("%s, %v", text.EN, err)
	}
	kept, err := filepath.Glob(path + ".until-*")
	if err != nil || len(kept) != 1 {
		t.Fatalf("%v, %v", kept, err)
	}
	if raw, err := os.ReadFile(kept[0]); err != nil || !bytes.Equal(raw, old) {
		t.Error("the old key was not kept for old backups")
	}
	if raw, err := os.ReadFile(path); err != nil || len(raw) != 64 || !bytes.Equal(raw[32:], old) {
		t.Fatalf("%d bytes, %v", len(raw), err)
	}
	put("late", oldBox) // a request that sealed before, and commits now
	if _, err := r.Rotate(t.Context(), "secret-key"); fault.ReasonOf(err) != "RotationUnderWay" {
		t.Errorf("a second one before the first has ended: %v", err)
	}
	// The server is killed here; the next one finds two keys.
	r = w.open(t, time.Hour)
	for _, name := range []string{"a", "b", "c", "late"} {
		if got := w.plain(t, r, name); got != "value of "+name {
			t.Errorf("%s: %q", name, got)
		}
	}
	if err := r.endRotation(t.Context()); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != 64 {
		t.Fatal("the old key went too early")
	}
	r.cfg.Wait = 0
	if err := r.endRotation(t.Context()); err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(path); err != nil || len(raw) != 32 || bytes.Equal(raw, old) {
		t.Fatalf("%d bytes, %v", len(raw), err)
	}
	for _, name := range []string{"a", "b", "c", "late"} {
		if got := w.plain(t, r, name); got != "value of "+name {
			t.Errorf("%s: %q", name, got)
		}
		if _, err := oldBox.Open(w.sealed(t, name), api.SealContext("lab", name, "k")); err == nil {
			t.Errorf("%s still opens with the old key", name)
		}
	}
}

// TestLinkKeyIsReplaced: who runs keeps its token, who comes gets one of the new key, also on another server.
func TestLinkKeyIsReplaced(t *testing.T) {
	w := newWorld(t)
	r, other := w.open(t, 0), w.open(t, 0)
	before := time.Now().Add(-time.Minute)
	w.mustPut(t, &api.TrainingTask{Meta: api.Meta{ID: "task-runs", Name: "runs", Project: "lab"}, Status: api.TrainingTaskStatus{Phase: api.PhaseRunning, Attempt: 1, PlacedAt: &before}})
	name, spare, fresh := engine.NameOf("task-runs", "worker", 0, 1), engine.NameOf("task-runs", "worker", 1, 1), engine.NameOf("task-new", "worker", 0, 1)
	token, key, unborn := r.Tokens.Mint(name), r.Tokens.MintTask("task-runs", 1), r.Tokens.Mint(fresh)
	if _, err := r.Rotate(t.Context(), "link-key"); err != nil {
		t.Fatal(err)
	}
	if !other.files.changed(filepath.Join(w.dir, Link)) {
		t.Error("the other server does not notice")
	}
	if err := other.load(); err != nil {
		t.Fatal(err)
	}
	restarted := w.open(t, 0)
	for who, x := range map[string]*Keys{"itself": r, "another": other, "the next": restarted} {
		if !x.Tokens.Check(name, token) || x.Tokens.MintTask("task-runs", 1) != key || !x.Tokens.Check(spare, x.Tokens.Mint(spare)) {
			t.Errorf("%s: the running task lost its keys", who)
		}
		if x.Tokens.Mint(fresh) == unborn {
			t.Errorf("%s: a new replica gets a token of the old key", who)
		}
	}
}

// TestKeyInUseIsPutBack: a key whose file goes away while the server runs is not changed for another one.
func TestKeyInUseIsPutBack(t *testing.T) {
	w := newWorld(t)
	r := w.open(t, 0)
	for _, name := range []string{Link, Secret} {
		path := filepath.Join(w.dir, name)
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := r.load(); err != nil {
			t.Fatal(err)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s: another key was made: %v", name, err)
		}
	}
}
