package app

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/seal"
	"github.com/fermi-cluster/fermi/internal/server/door"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/embedded"
)

// keyWorld is a part with a store and keys, and nothing else.
func keyWorld(t *testing.T) *part {
	t.Helper()
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
	p := &part{cfg: Config{Data: dir, Shared: dir, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}, secretWait: time.Hour}
	p.store = store.New(store.Config{Client: etcd.Client()})
	wg.Go(func() { _ = p.store.Run(ctx) })
	<-p.store.Ready()
	if err := p.loadKeys(); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *part) mustPut(t *testing.T, o api.Object) {
	t.Helper()
	revision, err := p.store.Commit(t.Context(), store.Txn{Ops: []store.Op{store.Create(o)}})
	if err == nil {
		_, err = p.store.Get(t.Context(), api.KeyOf(o), revision)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (p *part) plain(t *testing.T, name string) string {
	t.Helper()
	now, err := p.store.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.store.List(t.Context(), api.KindSecret, "", now); err != nil {
		t.Fatal(err)
	}
	_, values, err := p.openSecret(t.Context(), "lab", name)
	if err != nil {
		t.Fatal(err)
	}
	return values["k"]
}

// TestSecretKeyIsReplaced: at every moment, and after a crash at any of them, every secret opens; in the end only
// with the new key.
func TestSecretKeyIsReplaced(t *testing.T) {
	p := keyWorld(t)
	put := func(name string, box *seal.Box) {
		p.mustPut(t, &api.Secret{Meta: api.Meta{ID: "sec-" + name, Name: name, Project: "lab"}, Spec: api.SecretSpec{Sealed: map[string]string{"k": box.Seal("value of "+name, api.SealContext("lab", name, "k"))}}})
	}
	for _, name := range []string{"a", "b", "c"} {
		put(name, p.box)
	}
	stranger, err := seal.New(seal.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	put("broken", stranger)
	path := filepath.Join(p.cfg.Shared, secretKeyFile)
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	oldBox, err := seal.New(old)
	if err != nil {
		t.Fatal(err)
	}
	text, err := p.rotate(t.Context(), "secret-key")
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
	if _, err := p.rotate(t.Context(), "secret-key"); fault.ReasonOf(err) != "RotationUnderWay" {
		t.Errorf("a second one before the first has ended: %v", err)
	}
	// The server is killed here; the next one finds two keys.
	p.box = nil
	if err := p.loadKeys(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c", "late"} {
		if got := p.plain(t, name); got != "value of "+name {
			t.Errorf("%s: %q", name, got)
		}
	}
	if err := p.endRotation(t.Context()); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != 64 {
		t.Fatal("the old key went too early")
	}
	p.secretWait = 0
	if err := p.endRotation(t.Context()); err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(path); err != nil || len(raw) != 32 || bytes.Equal(raw, old) {
		t.Fatalf("%d bytes, %v", len(raw), err)
	}
	for _, name := range []string{"a", "b", "c", "late"} {
		if got := p.plain(t, name); got != "value of "+name {
			t.Errorf("%s: %q", name, got)
		}
		o, err := p.store.Get(t.Context(), api.Key{Kind: api.KindSecret, Project: "lab", Name: name}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := oldBox.Open(o.(*api.Secret).Spec.Sealed["k"], api.SealContext("lab", name, "k")); err == nil {
			t.Errorf("%s still opens with the old key", name)
		}
	}
}

// TestLinkKeyIsReplaced: who runs keeps its token, who comes gets one of the new key, also on another server.
func TestLinkKeyIsReplaced(t *testing.T) {
	p := keyWorld(t)
	before := time.Now().Add(-time.Minute)
	p.mustPut(t, &api.TrainingTask{Meta: api.Meta{ID: "task-runs", Name: "runs", Project: "lab"}, Status: api.TrainingTaskStatus{Phase: api.PhaseRunning, Attempt: 1, PlacedAt: &before}})
	other := &part{cfg: p.cfg, store: p.store}
	if err := other.loadKeys(); err != nil {
		t.Fatal(err)
	}
	name, spare, fresh := engine.NameOf("task-runs", "worker", 0, 1), engine.NameOf("task-runs", "worker", 1, 1), engine.NameOf("task-new", "worker", 0, 1)
	token, key, unborn := p.tokens.Mint(name), p.tokens.MintTask("task-runs", 1), p.tokens.Mint(fresh)
	if _, err := p.rotate(t.Context(), "link-key"); err != nil {
		t.Fatal(err)
	}
	if !other.keys.changed(filepath.Join(p.cfg.Shared, linkKeyFile)) {
		t.Error("the other server does not notice")
	}
	if err := other.loadKeys(); err != nil {
		t.Fatal(err)
	}
	restarted := &part{cfg: p.cfg, store: p.store}
	if err := restarted.loadKeys(); err != nil {
		t.Fatal(err)
	}
	for who, x := range map[string]*part{"itself": p, "another": other, "the next": restarted} {
		if !x.tokens.Check(name, token) || x.tokens.MintTask("task-runs", 1) != key || !x.tokens.Check(spare, x.tokens.Mint(spare)) {
			t.Errorf("%s: the running task lost its keys", who)
		}
		if x.tokens.Mint(fresh) == unborn {
			t.Errorf("%s: a new replica gets a token of the old key", who)
		}
	}
}

// TestAdminTokenIsReplaced: the file always holds a token that works, and a crash does not leave the old one.
func TestAdminTokenIsReplaced(t *testing.T) {
	p := keyWorld(t)
	meta := func(prefix, name, display string) api.Meta {
		return api.Meta{ID: prefix + "-" + name, Name: name, DisplayName: display}
	}
	if err := p.adminToken(t.Context(), meta); err != nil {
		t.Fatal(err)
	}
	read := func() (name, secret string) {
		secret, err := readToken(filepath.Join(p.cfg.Data, tokenFile))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(secret, "_")[1], secret
	}
	works := func(name, secret string) bool {
		now, err := p.store.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		o, err := p.store.Get(t.Context(), api.Key{Kind: api.KindToken, Name: name}, now)
		return err == nil && o.(*api.Token).Spec.Hash == door.HashSecret(secret)
	}
	first, firstSecret := read()
	if _, err := p.rotate(t.Context(), "admin-token"); err != nil {
		t.Fatal(err)
	}
	second, secondSecret := read()
	if first == second || works(first, firstSecret) || !works(second, secondSecret) {
		t.Errorf("%s and %s: %v, %v", first, second, works(first, firstSecret), works(second, secondSecret))
	}
	// Killed between the two files, and between the files and the store.
	if err := os.WriteFile(filepath.Join(p.cfg.Data, tokenOldFile), []byte(second+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.adminToken(t.Context(), meta); err != nil || !works(second, secondSecret) {
		t.Errorf("the only token is gone: %v", err)
	}
	third, _, err := door.NewSecret("admin-third", bytes.NewReader(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	if err := replace(filepath.Join(p.cfg.Data, tokenFile), []byte(third+"\n")); err != nil {
		t.Fatal(err)
	}
	if err := p.adminToken(t.Context(), meta); err != nil || works(second, secondSecret) || !works("admin-third", third) {
		t.Errorf("after a crash: %v, old %v, new %v", err, works(second, secondSecret), works("admin-third", third))
	}
}

// TestKeyInUseIsPutBack: a key whose file goes away while the server runs is not changed for another one.
func TestKeyInUseIsPutBack(t *testing.T) {
	p := keyWorld(t)
	for _, name := range []string{linkKeyFile, secretKeyFile} {
		path := filepath.Join(p.cfg.Shared, name)
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := p.loadKeys(); err != nil {
			t.Fatal(err)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s: another key was made: %v", name, err)
		}
	}
}
