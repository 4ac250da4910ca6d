package inside

import (
	"errors"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestImports: one import more (path/filepath, golang.org/x/sys) and process 1 waits for all that
// Go initialises before it.
func TestImports(t *testing.T) {
	allowed := []string{"encoding/binary", "encoding/json", "errors", "fmt", "io", "io/fs", "os", "os/signal", "path", "runtime", "slices", "strconv", "strings", "sync", "syscall", "time", "unsafe"} // os needs the same
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range parsed.Imports {
			if name, _ := strconv.Unquote(i.Path.Value); !slices.Contains(allowed, name) {
				t.Errorf("%s imports %s", file, name)
			}
		}
	}
}

// TestFindPython: where there is no python, python3 is one, under its own name.
func TestFindPython(t *testing.T) {
	dir := t.TempDir()
	if _, err := Find("python", dir, dir); !errors.Is(err, syscall.ENOENT) {
		t.Error(err)
	}
	for _, name := range []string{"python3", "python"} { // the second is preferred once it is there
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
		file, err := Find("python", dir, dir)
		if args := Args(file, []string{"python", "a.py"}); err != nil || file != filepath.Join(dir, name) || !slices.Equal(args, []string{name, "a.py"}) {
			t.Errorf("%q %v %v", file, args, err)
		}
	}
	if _, err := Find("./python", dir+"/x", dir); !errors.Is(err, syscall.ENOENT) {
		t.Error("a path is what it says")
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"run": 0o755, "text": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, search string
		want         error
	}{
		{"run", "/nowhere:.", nil}, {"./run", "", nil}, {dir + "/run", "", nil}, {"run", "", nil},
		{"run", "/nowhere", syscall.ENOENT}, {"text", dir, syscall.EACCES}, {"sub", dir, syscall.EISDIR}, {"run/x", "", syscall.ENOENT},
	} {
		if file, err := Find(c.name, dir, c.search); !errors.Is(err, c.want) || err == nil && file != dir+"/run" {
			t.Errorf("%+v: %q %v", c, file, err)
		}
	}
}

// TestFirstClosed: a cover begins where the user can't enter.
func TestFirstClosed(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "f")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	deep := filepath.Join(dir, "a", "b")
	if err := errors.Join(os.MkdirAll(deep, 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	w := Wall{UID: 64991, GID: 64991}
	if got := w.firstClosed(deep); got != deep {
		t.Errorf("all open: %q", got)
	}
	for _, at := range []string{deep, filepath.Dir(deep), dir} {
		if err := os.Chmod(at, 0o700); err != nil {
			t.Fatal(err)
		}
		if got := w.firstClosed(deep); got != at {
			t.Errorf("%q closed: %q", at, got)
		}
	}
}

// TestBelow: a folder in a named one is opened with the tenant's rights, and no link leads out.
func TestBelow(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root has rights to give up")
	}
	dir := t.TempDir()
	for _, folder := range []string{"open/deep", "shut/deep"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	err := errors.Join(os.Chmod(filepath.Join(dir, "shut"), 0o700), os.WriteFile(filepath.Join(dir, "file"), nil, 0o644),
		os.Symlink("open", filepath.Join(dir, "in")), os.Symlink("/etc", filepath.Join(dir, "out")), os.Symlink("../..", filepath.Join(dir, "up")))
	if err != nil {
		t.Fatal(err)
	}
	top, err := openReal(dir)
	if err != nil {
		t.Fatal(err)
	}
	w := Wall{UID: 64991, GID: 64991}
	for file, want := range map[string]error{
		"open/deep": nil, "in/deep": nil, "shut/deep": syscall.EACCES, "out": syscall.EXDEV, "up": syscall.EXDEV, "file": syscall.ENOTDIR, "nothing": syscall.ENOENT,
	} {
		fd, err := w.below(top.handle, file)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v", file, err)
		}
		if err != nil {
			continue
		}
		at, _ := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
		if !strings.HasSuffix(at, "/open/deep") {
			t.Errorf("%s is %s", file, at)
		}
		if err := syscall.Close(fd); err != nil {
			t.Error(err)
		}
	}
	if os.Geteuid() != 0 || os.WriteFile(filepath.Join(dir, "shut", "mine"), nil, 0o600) != nil {
		t.Error("we gave up our own rights")
	}
}

// TestProbe: as root in a system that permits it a wall can be built; otherwise it says why not.
func TestProbe(t *testing.T) {
	dir := t.TempDir()
	_, err := Probe(64991, []string{dir}, dir, 0)
	if os.Geteuid() != 0 {
		if !errors.Is(err, ErrNotRoot) {
			t.Error(err)
		}
		return
	}
	if err != nil {
		t.Skip("no walls here:", err)
	}
	if _, err := Probe(64991, []string{dir}, dir+"/nowhere", 0); !errors.Is(err, syscall.ENOENT) {
		t.Error("a folder that is not there:", err)
	}
}
