package embedded

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermi-cluster/fermi/internal/fault"
)

func TestDataDirLife(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	d, err := OpenDataDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	if free, err := d.Free(); err != nil || free == 0 {
		t.Errorf("free: %d, %v", free, err)
	}
	_, err = OpenDataDir(dir)
	f := fault.From(err)
	if f == nil || f.Code != fault.Conflict || f.Reason != "FolderInUse" || !strings.Contains(f.Message.EN, strconv.Itoa(os.Getpid())) {
		t.Fatalf("second open: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d, err = OpenDataDir(dir)
	if err != nil {
		t.Fatalf("after the first went: %v", err)
	}
	d.Close()
}

// TestLockOfAKilledServer: the child it was forking holds the lock for a moment longer.
func TestLockOfAKilledServer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	d, err := OpenDataDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("cat") // until its input ends
	child.ExtraFiles = []*os.File{d.lock}
	input, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	dead := exec.Command("true")
	if err := errors.Join(child.Start(), dead.Run(), writeAt(d.lock, strconv.Itoa(dead.Process.Pid)+"\n      "), d.Close()); err != nil {
		t.Fatal(err)
	}
	opened := make(chan error, 1)
	go func() {
		d, err := OpenDataDir(dir)
		if err == nil {
			d.Close()
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		t.Fatalf("opened while the lock was held: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	if err := errors.Join(input.Close(), child.Wait(), <-opened); err != nil {
		t.Fatal(err)
	}
}

func TestDataDirRefusals(t *testing.T) {
	cases := map[string]struct {
		files  map[string]string
		reason string
		says   string
	}{
		"newer":         {map[string]string{"format": `{"format":99,"version":"v9.1.0"}`, "etcd/x": "y"}, "NewerFormat", "v9.1.0"},
		"unreadable":    {map[string]string{"format": `no`}, "FormatUnreadable", "format"},
		"format zero":   {map[string]string{"format": `{}`}, "FormatUnreadable", "format"},
		"someone's":     {map[string]string{"thesis.tex": "..."}, "NotADataFolder", ""},
		"without note":  {map[string]string{"etcd/x": "y"}, "", ""},
		"only a lock":   {map[string]string{"lock": "123"}, "", ""},
		"this version":  {map[string]string{"format": `{"format":3,"version":"v0"}`, "other": ""}, "", ""},
		"older":         {map[string]string{"format": `{"format":1,"version":"v0"}`, "other": ""}, "", ""},
		"unknown field": {map[string]string{"format": `{"format":1,"more":true}`}, "", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for path, text := range c.files {
				path = filepath.Join(dir, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			before := digest(t, dir)
			d, err := OpenDataDir(dir)
			if err == nil {
				d.Close()
			}
			if fault.ReasonOf(err) != c.reason {
				t.Fatalf("got %v", err)
			}
			if err == nil {
				return
			}
			if f := fault.From(err); !strings.Contains(f.Message.EN, c.says) || !strings.Contains(f.Message.ZH, c.says) || f.Code != fault.Invalid {
				t.Errorf("message %v", f.Message)
			}
			after := digest(t, dir)
			delete(after, filepath.Join(dir, "lock"))
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("changed: %s", diff)
			}
		})
	}
}

// TestRaise: a folder of an older format stays one until everything in it could be opened; then
// older versions refuse it.
func TestRaise(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "format")
	was := []byte(`{"format":1,"version":"v0"}`)
	if err := os.WriteFile(path, was, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"", "v1", "v1", "v2"} {
		d, err := OpenDataDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		want := string(was) // as a version that could not open the rest leaves it
		if version != "" {
			if err := d.Raise(version); err != nil {
				t.Fatal(err)
			}
			want = fmt.Sprintf("{\"format\":%d,\"version\":%q}\n", Format, version)
		}
		d.Close()
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
}

func TestDataDirUnderAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenDataDir(filepath.Join(file, "x")); fault.CodeOf(err) != fault.Invalid {
		t.Fatal(err)
	}
}

func FuzzParseFormat(f *testing.F) {
	f.Add([]byte(`{"format":1,"version":"v1"}`))
	f.Add([]byte(`{"format":1e9}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		note, err := parseFormat(raw)
		if err == nil && (note.Format < 1 || len(note.Version) > 64) {
			t.Errorf("accepted %+v", note)
		}
	})
}
