package ckpt

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/fermi-cluster/fermi/internal/fault"
)

func rootAt(t *testing.T, dir string) *os.Root {
	t.Helper()
	root := must[*os.Root](t)(os.OpenRoot(dir))
	t.Cleanup(func() { root.Close() })
	return root
}

func writeAll(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	for name, raw := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFilesComeBack(t *testing.T) {
	w := newWorld(t, 7)
	ctx := context.Background()
	dir := t.TempDir()
	files := map[string][]byte{
		"ckpt-5/model.bin": noise(w.rng, 9<<20), "ckpt-5/a/empty": {}, "ckpt-5/a/empty2": {}, "ckpt-5/b/字.json": []byte("{}"), "ckpt-5/z": noise(w.rng, 64),
	}
	writeAll(t, dir, files)
	slot := must[*Slot](t)(FilesSlot(rootAt(t, dir), slices.Collect(maps.Keys(files)), Header{World: 1, Generation: 1, Step: 5}))
	defer slot.Close()
	s := must[*Save](t)(w.repo.Begin(ctx, 1, 5, 1, false))
	ref := must[PartRef](t)(s.Rank(ctx, slot))
	m := must[*Manifest](t)(w.repo.Commit(ctx, Proposal{Generation: 1, Step: 5, World: 1, Parts: []PartRef{ref}}))
	back := filepath.Join(t.TempDir(), "slot")
	if err := w.repo.Restore(ctx, m.Name(), Target{World: 1, Generation: 2, Path: back}); err != nil {
		t.Fatal(err)
	}
	restored := must[*Slot](t)(OpenSlot(back))
	defer restored.Close()
	out := t.TempDir()
	if err := WriteFiles(restored, rootAt(t, out)); err != nil {
		t.Fatal(err)
	}
	found := 0
	err := filepath.WalkDir(out, func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := must[string](t)(filepath.Rel(out, at))
		if raw, err := os.ReadFile(at); err != nil || !bytes.Equal(raw, files[name]) {
			return fmt.Errorf("%s is another: %v", name, err)
		}
		found++
		return nil
	})
	if err != nil || found != len(files) {
		t.Fatal(found, err)
	}
	if err := WriteFiles(restored, rootAt(t, out)); err == nil {
		t.Fatal("written over what was there")
	}
}

func TestFilesThatShrinkAreNotKept(t *testing.T) {
	w := newWorld(t, 8)
	ctx := context.Background()
	dir := t.TempDir()
	writeAll(t, dir, map[string][]byte{"a": noise(w.rng, 100_000)})
	slot := must[*Slot](t)(FilesSlot(rootAt(t, dir), []string{"a"}, Header{World: 1, Generation: 1, Step: 1}))
	defer slot.Close()
	if err := os.Truncate(filepath.Join(dir, "a"), 50_000); err != nil {
		t.Fatal(err)
	}
	s := must[*Save](t)(w.repo.Begin(ctx, 1, 1, 1, false))
	if _, err := s.Rank(ctx, slot); !fault.Is(err, fault.Invalid) {
		t.Fatal(err)
	}
}

func TestFilesElsewhereAreRefused(t *testing.T) {
	dir := t.TempDir()
	writeAll(t, dir, map[string][]byte{"good": []byte("x")})
	if err := os.Symlink("/etc/hostname", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "../x", "/etc/hostname", ".", "a/../good", ""} {
		if _, err := FilesSlot(rootAt(t, dir), []string{name}, Header{World: 1, Step: 1}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// FuzzFiles: a tree that somebody else made writes nothing outside of the folder.
func FuzzFiles(f *testing.F) {
	f.Add([]byte(`{"d":[["a/b",{"y":[0,3]}],["c",{"y":[64,0]}]]}`))
	f.Add([]byte(`{"d":[["../a",{"y":[0,3]}]]}`))
	f.Add([]byte(`{"d":[["a",{"y":[0,99]}]]}`))
	f.Fuzz(func(t *testing.T, tree []byte) {
		slot := &Slot{Header: Header{Data: 128, Tree: uint64(len(tree))}, Tree: tree, src: bytes.NewReader(make([]byte, slotData+128))}
		files, err := filesOf(slot)
		if err != nil {
			return
		}
		end := uint64(0)
		for _, file := range files {
			if !filepath.IsLocal(file.name) || file.at < end || file.at+file.size > 128 {
				t.Fatalf("%+v of %s", file, tree)
			}
			end = file.at + file.size
		}
	})
}
