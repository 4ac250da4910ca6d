package keyring

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/seal"
	"github.com/fermi-cluster/fermi/internal/store/embedded"
	"github.com/fermi-cluster/fermi/internal/store/safe"
)

var files = []File{{"secret.key", 2}, {"link.key", 1}, {"link.old", 0}}

// newSafe is one in an etcd of its own.
func newSafe(t *testing.T) *safe.Safe {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "f") // short: sockets lie in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	e, err := embedded.Start(t.Context(), embedded.Config{Dir: filepath.Join(dir, "e"), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return safe.New(e.Client(), "/fermi/v1/")
}

// operators is a key file.
func operators(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, seal.NewKey(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t *testing.T, s *safe.Safe, key, dir string) *Ring {
	t.Helper()
	r, err := New(s, key, dir, files)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func file(t *testing.T, dir, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestOneSet: servers that begin at once have the same keys, and what one changes all have.
func TestOneSet(t *testing.T) {
	s, key := newSafe(t), operators(t)
	var rings []*Ring
	var dirs []string
	var wg sync.WaitGroup
	for range 4 {
		dir := t.TempDir()
		r := open(t, s, key, dir)
		rings, dirs = append(rings, r), append(dirs, dir)
		wg.Go(func() {
			if err := r.Pull(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	same := func(name string) []byte {
		t.Helper()
		first := file(t, dirs[0], name)
		for _, dir := range dirs[1:] {
			if !bytes.Equal(first, file(t, dir, name)) {
				t.Errorf("%s is not everywhere the same", name)
			}
		}
		return first
	}
	secret, was := same("secret.key"), same("link.key")
	now := seal.NewKey()
	if err := rings[1].Replace(t.Context(), "link.old", was); err != nil {
		t.Fatal(err)
	}
	if err := rings[1].Replace(t.Context(), "link.key", now); err != nil {
		t.Fatal(err)
	}
	if err := rings[2].Replace(t.Context(), "secret.key", seal.NewKey()); !fault.Is(err, fault.Conflict) {
		t.Error("a change on top of what was not seen:", err)
	}
	if !bytes.Equal(file(t, dirs[2], "secret.key"), secret) {
		t.Error("a refused change is in the folder")
	}
	if err := os.Remove(filepath.Join(dirs[3], "secret.key")); err != nil { // somebody tidied up
		t.Fatal(err)
	}
	for _, r := range rings {
		if err := r.Pull(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(same("link.key"), now) || !bytes.Equal(same("link.old"), was) || !bytes.Equal(same("secret.key"), secret) {
		t.Error("not what was written")
	}
	if err := rings[0].Replace(t.Context(), "link.old", nil); err != nil {
		t.Fatal(err)
	}
	if err := rings[3].Pull(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dirs[3], "link.old")); err == nil {
		t.Error("a key that is gone is still there")
	}
}

// TestOperatorsKey: nothing is in etcd in clear, a server with another key is told so and changes nothing, and one with none gets no further.
func TestOperatorsKey(t *testing.T) {
	s, key, dir := newSafe(t), operators(t), t.TempDir()
	if err := open(t, s, key, dir).Pull(t.Context()); err != nil {
		t.Fatal(err)
	}
	raw, revision, err := s.Read(t.Context(), entry)
	if err != nil || bytes.Contains(raw, file(t, dir, "link.key")) || bytes.Contains(raw, []byte("link.key")) {
		t.Errorf("%q %v", raw, err)
	}
	other := t.TempDir()
	if err := open(t, s, operators(t), other).Pull(t.Context()); fault.ReasonOf(err) != "OtherStoreKey" {
		t.Error("another key:", err)
	}
	if left, _ := os.ReadDir(other); len(left) != 0 {
		t.Error("it made files:", left)
	}
	if _, now, _ := s.Read(t.Context(), entry); now != revision {
		t.Error("it wrote")
	}
	short := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(short, []byte(rand.Text()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{short, short + ".none"} {
		if _, err := New(s, path, dir, files); fault.ReasonOf(err) != "BadStoreKey" {
			t.Error(path, err)
		}
	}
}
