package pack

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/cli/pack/packtest"
)

// TestUnchangedCode: a folder that is as it was is not packed again; whatever changes in it is seen, also where size and
// time of modification stay, and what was changed as it was packed is not trusted.
func TestUnchangedCode(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := t.TempDir()
	packtest.Write(t, dir, map[string]string{"a.py": "one", "sub/b.py": "two", ".venv/pyvenv.cfg": "x", ".gitignore": "*.bin\n", "c.bin": "x"})
	if err := os.Symlink("a.py", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	packIt := func(began time.Time) Packed {
		p, err := Folder(t.Context(), dir, &bytes.Buffer{}, func(int64) {})
		if err != nil {
			t.Fatal(err)
		}
		p.Remember(dir, began, save)
		return p
	}
	later := func() time.Time { return time.Now().Add(time.Hour) } // as if the files were old by then
	packIt(time.Now())
	if _, ok := Unchanged(t.Context(), dir); ok {
		t.Error("files that were written a moment ago are trusted")
	}
	first := packIt(later())
	p, ok := Unchanged(t.Context(), dir)
	if !ok || p.Digest != first.Digest || p.Size != first.Size || !slices.Equal(p.Environments, []string{".venv"}) {
		t.Fatalf("%v %+v", ok, p)
	}
	file := filepath.Join(dir, "a.py")
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func() error{
		"content": func() error { return os.WriteFile(file, []byte("longer"), 0o600) },
		"same size and time": func() error {
			if err := os.WriteFile(file, []byte("eno"), 0o600); err != nil {
				return err
			}
			return os.Chtimes(file, info.ModTime(), info.ModTime())
		},
		"executable": func() error { return os.Chmod(file, 0o755) },
		"new file":   func() error { return os.WriteFile(filepath.Join(dir, "new.py"), nil, 0o600) },
		"gone":       func() error { return os.Remove(filepath.Join(dir, "sub", "b.py")) },
		"link": func() error {
			return os.Rename(filepath.Join(dir, "link"), filepath.Join(dir, "link2"))
		},
		"rules": func() error { return os.WriteFile(filepath.Join(dir, ".fermiignore"), []byte(".gitignore\n"), 0o600) },
	} {
		packIt(later())
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if _, ok := Unchanged(t.Context(), dir); ok {
			t.Errorf("%s: nothing is seen", name)
		}
	}
	packIt(later())
	if err := os.WriteFile(filepath.Join(dir, ".venv", "more"), nil, 0o600); err != nil { // of no interest
		t.Fatal(err)
	}
	if _, ok := Unchanged(t.Context(), dir); !ok {
		t.Error("a file that is left out counts")
	}
}

// TestEnvironmentsStayAtHome: virtual environments and what tools make are left out, unless a rule puts them back in.
func TestEnvironmentsStayAtHome(t *testing.T) {
	for name, c := range map[string]struct {
		files     map[string]string
		want, env []string
	}{
		"by their mark": {map[string]string{"train.py": "", ".venv/pyvenv.cfg": "", ".venv/bin/python": "", "sub/env/pyvenv.cfg": "", "conda/conda-meta/history": "", "venv/notes.txt": ""},
			[]string{"sub/", "train.py", "venv/", "venv/notes.txt"}, []string{".venv", "conda", "sub/env"}},
		"made":        {map[string]string{"train.py": "", "__pycache__/x.pyc": "", "a/__pycache__/x": "", "node_modules/x/y.js": ""}, []string{"a/", "train.py"}, nil},
		"put back in": {map[string]string{"train.py": "", "node_modules/x.js": "", ".fermiignore": "!node_modules/\n"}, []string{".fermiignore", "node_modules/", "node_modules/x.js", "train.py"}, nil},
		"code within": {map[string]string{"pyvenv.cfg": "", "bin/python": "", "lib/x": "", "train.py": ""}, []string{"pyvenv.cfg", "train.py"}, []string{"bin", "lib"}},
	} {
		dir := t.TempDir()
		packtest.Write(t, dir, c.files)
		var buf bytes.Buffer
		p, err := Folder(t.Context(), dir, &buf, func(int64) {})
		if err != nil {
			t.Fatal(err)
		}
		if got := packtest.Names(t, buf.Bytes()); !slices.Equal(got, c.want) || !slices.Equal(p.Environments, c.env) {
			t.Errorf("%s: %v, left out %v", name, got, p.Environments)
		}
	}
}
