package deed

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestLink: a second place that outlives the first; small files are copies, for they are written over in place.
func TestLink(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	long := strings.Repeat("x", copyMost+1)
	put := func(at, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(filepath.Join(dir, "from/a/long"), long)
	put(filepath.Join(dir, "from/short"), "short")
	put(filepath.Join(outside, "secret"), "s")
	if err := os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, "from/link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	ask := func(to string, names ...string) Answer {
		r := Request{Op: OpLink, Base: dir, Name: []byte("from"), To: []byte(to)}
		for _, n := range names {
			r.Names = append(r.Names, []byte(n))
		}
		a, _ := Do(r, nil)
		return a
	}
	a := ask("to/1", "a/long", "short", "link", "none")
	if a.Errno != 0 || len(a.Errnos) != 4 || a.Errnos[0] != 0 || a.Errnos[1] != 0 || a.Errnos[2] == 0 || a.Errnos[3] != syscall.ENOENT {
		t.Fatalf("%+v", a)
	}
	put(filepath.Join(dir, "from/short"), "other")
	if err := os.RemoveAll(filepath.Join(dir, "from")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"to/1/a/long": long, "to/1/short": "short"} {
		if raw, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(raw) != want {
			t.Error(name, len(raw), err)
		}
	}
	put(filepath.Join(dir, "from/short"), "short")
	if a := ask("out/x", "short"); a.Errnos[0] != Escapes {
		t.Errorf("%+v", a)
	}
	if list, err := os.ReadDir(outside); err != nil || len(list) != 1 {
		t.Error(list, err)
	}
}
