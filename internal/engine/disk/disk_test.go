package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/clock"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path string, n int) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, bytes.Repeat([]byte("x"), n), 0o600))
}

func noPause(context.Context) error { return nil }

func count(t *testing.T, root string, pids ...int) int64 {
	t.Helper()
	n, err := Count(t.Context(), root, pids, 0, noPause)
	must(t, err)
	return n
}

const mib = 1 << 20

// near says that got is about want: folders and file systems take a little of their own.
func near(t *testing.T, what string, got, want int64) {
	t.Helper()
	if got < want || got > want+mib/4 {
		t.Errorf("%s: %d bytes, want about %d", what, got, want)
	}
}

func TestCount(t *testing.T) {
	dir := t.TempDir()
	root, away := filepath.Join(dir, "root"), filepath.Join(dir, "away")
	write(t, filepath.Join(away, "large"), 8*mib)
	write(t, filepath.Join(root, "a"), mib)
	write(t, filepath.Join(root, "b/c/d"), mib)
	near(t, "files", count(t, root), 2*mib)
	must(t, os.Link(filepath.Join(root, "a"), filepath.Join(root, "again")))
	near(t, "with a second name", count(t, root), 2*mib)
	must(t, os.Symlink(away, filepath.Join(root, "to-folder")))
	must(t, os.Symlink(filepath.Join(away, "large"), filepath.Join(root, "to-file")))
	must(t, os.Symlink("/proc/self/root", filepath.Join(root, "to-all")))
	must(t, os.Symlink(".", filepath.Join(root, "round")))
	must(t, unix.Mkfifo(filepath.Join(root, "fifo"), 0o600))
	near(t, "links and a fifo", count(t, root), 2*mib)
	f, err := os.Create(filepath.Join(root, "sparse"))
	must(t, err)
	must(t, f.Truncate(1<<40))
	must(t, f.Close())
	near(t, "a sparse file", count(t, root), 2*mib)
	if n, err := Count(t.Context(), root, nil, mib/2, noPause); err != nil || n <= mib/2 || n > 3*mib {
		t.Errorf("it did not end early: %d, %v", n, err)
	}
	if _, err := Count(t.Context(), filepath.Join(root, "to-folder"), nil, 0, noPause); err == nil {
		t.Error("a link was taken for the folder")
	}
}

func TestDeletedFilesCount(t *testing.T) {
	root := t.TempDir()
	f, err := os.Create(filepath.Join(root, "gone"))
	must(t, err)
	defer f.Close()
	_, err = f.Write(make([]byte, 4*mib))
	must(t, err)
	must(t, f.Sync())
	must(t, os.Remove(f.Name()))
	near(t, "without its process", count(t, root), 0)
	near(t, "with its process", count(t, root, os.Getpid()), 4*mib)
	mapped, err := unix.Mmap(int(f.Fd()), 0, 4*mib, unix.PROT_READ, unix.MAP_SHARED)
	must(t, err)
	defer unix.Munmap(mapped)
	must(t, f.Close())
	near(t, "mapped only", count(t, root, os.Getpid()), 4*mib)
}

// Nobody hides files by nesting folders: the walk neither fails for want of descriptors nor passes over them.
func TestTooDeep(t *testing.T) {
	root := t.TempDir()
	script := `cd "$0"; i=0; while [ $i -lt 400 ]; do mkdir d && cd d || exit 1; i=$((i+1)); done; head -c 1000000 /dev/zero > hidden`
	if out, err := exec.Command("sh", "-c", script, root).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	if _, err := Count(t.Context(), root, nil, 0, noPause); !errors.Is(err, ErrTooDeep) {
		t.Errorf("%v", err)
	}
}

// A tree that somebody changes all the time: a folder becomes a link and a folder again.
func TestSwappedLinks(t *testing.T) {
	dir := t.TempDir()
	root, away := filepath.Join(dir, "root"), filepath.Join(dir, "away")
	for i := range 50 {
		write(t, filepath.Join(away, fmt.Sprint("f", i)), mib)
	}
	write(t, filepath.Join(root, "real/f"), mib)
	must(t, os.Symlink(away, filepath.Join(root, "link")))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(root, "real"), unix.AT_FDCWD, filepath.Join(root, "link"), unix.RENAME_EXCHANGE)
		}
	}()
	for range 2000 {
		if n := count(t, root); n > 3*mib {
			t.Fatalf("%d bytes: a link was followed", n)
		}
	}
	cancel()
	<-done
}

func TestSlicesPause(t *testing.T) {
	root := t.TempDir()
	for i := range 3 * slice {
		must(t, os.WriteFile(filepath.Join(root, fmt.Sprint(i)), nil, 0o600))
	}
	pauses := 0
	_, err := Count(t.Context(), root, nil, 0, func(context.Context) error { pauses++; return nil })
	must(t, err)
	if pauses < 2 {
		t.Errorf("%d pauses in %d entries", pauses, 3*slice)
	}
	ended := errors.New("ended")
	if _, err := Count(t.Context(), root, nil, 0, func(context.Context) error { return ended }); !errors.Is(err, ended) {
		t.Error(err)
	}
}

func TestWatch(t *testing.T) {
	root := t.TempDir()
	w := New(root, 2*mib, clock.Real, func() []int { return nil })
	defer w.Close()
	write(t, filepath.Join(root, "small"), mib)
	ctx, cancel := context.WithCancel(t.Context())
	type end struct {
		used int64
		err  error
	}
	over := make(chan end, 1)
	go func() { used, err := w.Run(ctx); over <- end{used, err} }()
	write(t, filepath.Join(root, "large"), 4*mib)
	if e := <-over; e.err != nil || e.used <= 2*mib {
		t.Errorf("%+v", e)
	}
	go func() { used, err := w.Run(ctx); over <- end{used, err} }()
	cancel()
	if e := <-over; e.err == nil {
		t.Errorf("%+v", e)
	}
}

// Where the file system keeps quotas the kernel refuses what goes far beyond the limit.
func TestKernelQuota(t *testing.T) {
	if unsafe.Sizeof(block{}) != 72 || unsafe.Sizeof(attributes{}) != 28 || unsafe.Sizeof(info{}) != 24 {
		t.Fatal("the kernel's structures have other sizes")
	}
	root := os.Getenv("FERMI_TEST_PRJQUOTA")
	if root == "" {
		root = t.TempDir()
	}
	root, err := os.MkdirTemp(root, "quota")
	must(t, err)
	defer os.RemoveAll(root)
	w := New(root, mib, clock.Real, func() []int { return nil })
	defer w.Close()
	if !w.ByKernel() {
		t.Skip("no project quotas here; name a folder on ext4 or XFS mounted with prjquota in FERMI_TEST_PRJQUOTA")
	}
	err = os.WriteFile(filepath.Join(root, "f"), make([]byte, mib+2*headroom), 0o600)
	if !errors.Is(err, unix.EDQUOT) {
		t.Errorf("the kernel let it through: %v", err)
	}
	if used, err := w.look(t.Context()); err != nil || used <= mib {
		t.Errorf("%d %v", used, err)
	}
}
