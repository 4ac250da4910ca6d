package deed

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
	"time"
)

// TestImports: one import more and the process that serves waits for all that Go initialises before it (see inside).
func TestImports(t *testing.T) {
	allowed := []string{
		"encoding/json", "errors", "io", "io/fs", "os", "path", "strconv", "strings", "syscall", "time", "github.com/fermi-cluster/fermi/internal/launch/inside",
	}
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 3 {
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

// TestBeneath: nothing leads out of the base, and what is no regular file is not opened, and waited for by nobody.
func TestBeneath(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	put := func(path string) {
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(filepath.Join(outside, "secret"))
	put(filepath.Join(dir, "file"))
	for name, to := range map[string]string{"out": outside, "up": "..", "link": "file", "secret": filepath.Join(outside, "secret")} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600), os.Mkdir(filepath.Join(dir, "sub"), 0o700)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for name, want := range map[string]syscall.Errno{
		"file": 0, "sub/../file": 0, "link": 0, "secret": Escapes, "out/secret": Escapes, "up/x": Escapes, "../x": Escapes, "/etc/passwd": Escapes, "pipe": Special, "sub": Special, "none": syscall.ENOENT,
	} {
		a, files := Do(Request{Op: OpOpen, Base: dir, Names: [][]byte{[]byte(name)}, How: Read}, nil)
		closeAll(files)
		if len(a.Errnos) != 1 || a.Errnos[0] != want || (len(files) == 1) != (want == 0) {
			t.Errorf("%s: %+v, %d files", name, a, len(files))
		}
	}
	for name, r := range map[string]Request{
		"create through a link": {Op: OpCreate, Name: []byte("out/new"), Mode: 0o600}, "create over a link": {Op: OpCreate, Name: []byte("secret"), Mode: 0o600}, "mkdir": {Op: OpMkdir, Name: []byte("out/new"), Mode: 0o700},
		"rename to": {Op: OpRename, Name: []byte("file"), To: []byte("out/file")}, "rename from": {Op: OpRename, Name: []byte("out/secret"), To: []byte("mine")},
		"remove": {Op: OpRemove, Names: [][]byte{[]byte("out/secret")}}, "remove all": {Op: OpRemoveAll, Name: []byte("up/x/y")}, "list": {Op: OpList, Name: []byte("out"), Most: 10},
		"a sub that is a link": {Op: OpLstat, Sub: "out", Name: []byte("secret")}, "a sub that is a pipe": {Op: OpLstat, Sub: "pipe", Make: true, Name: []byte(".")}, "a base that is a pipe": {Op: OpList, Base: filepath.Join(dir, "pipe"), Name: []byte("."), Most: 1},
		"no base": {Op: OpRemove, Base: "relative"}, "no such thing": {Op: "chown", Name: []byte("file")}, "mode": {Op: OpCreate, Name: []byte("suid"), Mode: 0o4755},
	} {
		if r.Base == "" {
			r.Base = dir
		}
		if a, files := Do(r, nil); a.Errno == 0 || len(files) > 0 {
			t.Errorf("%s: %+v", name, a)
		}
	}
	if time.Since(began) > time.Minute {
		t.Error("something was waited for")
	}
	if list, err := os.ReadDir(outside); err != nil || len(list) != 1 {
		t.Error(list, err)
	}
	var told []string
	a := func() Answer {
		a, _ := Do(Request{Op: OpWalk, Base: dir, Name: []byte("."), Most: 100}, func(Answer) error { return nil })
		return a
	}()
	for _, e := range a.Entries {
		told = append(told, string(e.Name))
	}
	slices.Sort(told)
	if want := []string{"file", "link", "out", "pipe", "secret", "up"}; !slices.Equal(told, want) {
		t.Errorf("a walk tells %v", told)
	}
	if a, _ := Do(Request{Op: OpWalk, Base: dir, Most: 2}, func(Answer) error { return nil }); !a.Full || len(a.Entries) != 2 {
		t.Errorf("%+v", a)
	}
}
