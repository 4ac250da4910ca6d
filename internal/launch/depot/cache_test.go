package depot

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestKeep: a version is fetched once for all that see it, an empty folder in its place is none, it stays while it is seen and goes when it is not.
func TestKeep(t *testing.T) {
	s := newShelf(t, map[string][]byte{"a": []byte("first"), "b/run.sh": []byte("second")})
	s.v.UID = 0
	other := newShelf(t, map[string][]byte{"c": []byte("the third is as long")})
	other.v.UID = 0
	d := &Depot{Dir: t.TempDir(), Most: 20, Drop: func(_ context.Context, _ int, place, digest string) error { return Drop(place, digest) }}
	place := filepath.Join(d.Dir, PlaceOf(s.v))
	seen := t.TempDir() // as a pod does: by mounts
	if err := errors.Join(os.Symlink(place, filepath.Join(seen, s.v.Digest)), os.Symlink(filepath.Join(d.Dir, LockOf(s.v)), filepath.Join(seen, s.v.Digest+LockExt))); err != nil {
		t.Fatal(err)
	}
	quiet := func(int64, int64) {}
	missing := func(what string) {
		t.Helper()
		if h, err := See(seen, s.v.Digest); err == nil {
			t.Errorf("%s: it is seen at %s", what, h.Root)
		} else if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", what, err)
		}
	}
	missing("before anybody brought it")
	if err := errors.Join(os.MkdirAll(place, 0o700), os.MkdirAll(filepath.Join(d.Dir, dirLocks), 0o700), os.WriteFile(filepath.Join(d.Dir, LockOf(s.v)), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	missing("an empty folder")
	broken := func(context.Context, int, int, io.Writer) error { return errors.New("no server") }
	if err := d.Keep(t.Context(), s.v, broken, quiet); err == nil || err.Error() != "no server" {
		t.Errorf("without a server: %v", err)
	}
	for range 2 {
		if err := d.Keep(t.Context(), s.v, s.fetch, quiet); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.asked) != len(s.m.Chunks) {
		t.Errorf("%d chunks, asked for %v", len(s.m.Chunks), s.asked)
	}
	if info, err := os.Stat(filepath.Join(d.Dir, LockOf(s.v))); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("its lock, which pods of any user hold: %v %v", info.Mode(), err)
	}
	held, err := See(seen, s.v.Digest)
	if err != nil {
		t.Fatal(err)
	}
	s.check(held.Root)
	if err := d.Keep(t.Context(), other.v, other.fetch, quiet); err == nil {
		t.Error("what is seen was removed to make room")
	}
	s.check(held.Root)
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Keep(t.Context(), other.v, other.fetch, quiet); err != nil {
		t.Error(err)
	}
	missing("after it made room")
}
