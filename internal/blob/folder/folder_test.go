package folder

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/blob/blobtest"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func open(t testing.TB) (*Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "blobs")
	st, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st, dir
}

func TestConformance(t *testing.T) {
	blobtest.Run(t, func(t *testing.T) blob.Store {
		st, _ := open(t)
		return st
	})
}

// TestConformanceOnASharedFolder: what holds on a disk holds on the mount that a person names.
func TestConformanceOnASharedFolder(t *testing.T) {
	dir := blobtest.SharedFolder(t)
	blobtest.Run(t, func(t *testing.T) blob.Store {
		st, err := Open(filepath.Join(dir, rand.Text()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { st.Close() })
		return st
	})
}

func TestObjectAndFolderOfOneName(t *testing.T) {
	st, _ := open(t)
	ctx := context.Background()
	if _, err := st.Put(ctx, "a", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Put(ctx, "a/b", strings.NewReader("x")); !fault.Is(err, fault.Conflict) {
		t.Fatalf("a/b over a: %v", err)
	}
	if _, err := st.Put(ctx, "d/e", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Put(ctx, "d", strings.NewReader("x")); !fault.Is(err, fault.Conflict) {
		t.Fatalf("d over d/e: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(st.dir, temps, "*", "*"))
	if err != nil || len(left) != 0 {
		t.Fatalf("temporary files left: %v, %v", left, err)
	}
}

func TestLinksLeadNowhere(t *testing.T) {
	st, dir := open(t)
	ctx := context.Background()
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"file": secret, "dir": outside, "up": "../../.."} {
		if err := os.Symlink(target, filepath.Join(dir, objects, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, objects, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"file", "dir/secret", "up", "pipe"} {
		if r, _, err := st.Open(ctx, key); err == nil {
			b, _ := io.ReadAll(r)
			t.Errorf("Open(%q) read %q", key, b)
		}
	}
	if _, err := st.Put(ctx, "dir/new", strings.NewReader("x")); err == nil {
		t.Error("Put went through a link")
	}
	if err := st.Delete(ctx, "dir/"); err != nil {
		t.Fatal(err)
	}
	if err := st.Delete(ctx, "dir/secret"); err == nil {
		if _, err := os.Stat(secret); err != nil {
			t.Error("Delete went through a link")
		}
	}
	if got, err := st.List(ctx, "", "", 10); err != nil || len(got) != 0 {
		t.Errorf("List = %v, %v", got, err)
	}
}

// TestOpenSweepsOldTemporaryFiles: also those of a store that kept them all in one folder; one opener a day looks for them.
func TestOpenSweepsOldTemporaryFiles(t *testing.T) {
	st, dir := open(t)
	st.Close()
	at := func(name string) string { return filepath.Join(dir, temps, name) }
	if err := os.Mkdir(at("ab"), 0o700); err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-2 * staleTemp)
	for _, name := range []string{"old", "young", "ab/old", "ab/young"} {
		if err := os.WriteFile(at(name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "old") {
			if err := os.Chtimes(at(name), past, past); err != nil {
				t.Fatal(err)
			}
		}
	}
	left := func() (names []string) {
		t.Helper()
		again, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		for _, name := range []string{"old", "young", "ab/old", "ab/young"} {
			if _, err := os.Stat(at(name)); err == nil {
				names = append(names, name)
			}
		}
		return names
	}
	if got := left(); len(got) != 4 {
		t.Errorf("somebody looked a moment ago: %v", got)
	}
	if err := os.Chtimes(filepath.Join(dir, swept), past, past); err != nil {
		t.Fatal(err)
	}
	if got := left(); len(got) != 2 || got[0] != "young" || got[1] != "ab/young" {
		t.Errorf("%v", got)
	}
	if info, err := os.Stat(filepath.Join(dir, swept)); err != nil || time.Since(info.ModTime()) > staleTemp {
		t.Errorf("%v, %v", info, err)
	}
}

// TestWritersShareNoFolder: temporary files of many objects are spread, and so are objects whose folder empties.
func TestWritersShareNoFolder(t *testing.T) {
	st, dir := open(t)
	ctx := context.Background()
	for i := range 64 {
		key := fmt.Sprintf("leases/%02x/x", i)
		if _, err := st.Put(ctx, key, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
		if err := st.Delete(ctx, key); err != nil {
			t.Fatal(err)
		}
	}
	for _, place := range []string{temps, objects + "/leases"} {
		entries, err := os.ReadDir(filepath.Join(dir, place))
		if err != nil {
			t.Fatal(err)
		}
		entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return !e.IsDir() })
		if len(entries) < 32 {
			t.Errorf("%s has %d folders", place, len(entries))
		}
	}
	if err := st.Delete(ctx, "leases/"); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(filepath.Join(dir, objects)); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

// TestFull writes to a file system of 256 KiB, where we may mount one.
func TestFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("cannot mount: %v", err)
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	st, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	ctx := context.Background()
	if _, err := st.Put(ctx, "small", strings.NewReader("kept")); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Put(ctx, "big", bytes.NewReader(make([]byte, 1<<20))); !fault.Is(err, fault.Full) {
		t.Fatalf("err = %v", err)
	}
	if _, err := st.Put(ctx, "small2", bytes.NewReader(make([]byte, 100<<10))); err != nil {
		t.Fatalf("the failed write kept its space: %v", err)
	}
}
