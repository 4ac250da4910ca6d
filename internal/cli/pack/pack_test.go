package pack

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermi-cluster/fermi/internal/cli/pack/packtest"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// save keeps a file, as the command line does.
func save(file string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}

func TestPackDeterministic(t *testing.T) {
	files := map[string]string{"b.py": strings.Repeat("x = 1\n", 10000), "a/z.txt": "z", "a/b/c": "c", "模型.py": "m", "a-b": "", strings.Repeat("long/", 40) + "f": "deep"}
	var first Packed
	var names []string
	for i := range 3 {
		dir := t.TempDir()
		packtest.Write(t, dir, files)
		stamp := time.Unix(1_700_000_000, 0).Add(time.Duration(i) * time.Hour)
		for name := range files {
			if err := os.Chtimes(filepath.Join(dir, name), stamp, stamp); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(filepath.Join(dir, "b.py"), []os.FileMode{0o644, 0o600, 0o664}[i]); err != nil {
			t.Fatal(err)
		}
		var buf bytes.Buffer
		p, err := Folder(t.Context(), dir, &buf, func(int64) {})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first, names = p, packtest.Names(t, buf.Bytes())
		} else if p.Digest != first.Digest {
			t.Errorf("round %d: %s, then %s", i, first.Digest, p.Digest)
		}
		if p.Size != int64(buf.Len()) {
			t.Errorf("size %d of %d", p.Size, buf.Len())
		}
	}
	if names[0] != "a/" || names[1] != "a/b/" || names[len(names)-1] != "模型.py" {
		t.Errorf("order: %q", names)
	}
}

func TestPackSafe(t *testing.T) {
	dir := t.TempDir()
	packtest.Write(t, dir, map[string]string{"run.sh": "x", "sub/f": "f", ".git/HEAD": "x", "sub/.git": "gitdir: x"})
	if err := os.Chmod(filepath.Join(dir, "run.sh"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"in": "sub/f", "sub/up": "../run.sh", "out": "../secret", "abs": "/etc/passwd", "sub/out": "../../x", "loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	p, err := Folder(t.Context(), dir, &buf, func(int64) {})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"in", "loop", "run.sh", "sub/", "sub/f", "sub/up"}, packtest.Names(t, buf.Bytes())); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"abs", "fifo", "out", "sub/out"}, p.Left); diff != "" {
		t.Error(diff)
	}
	// The keys of a server stay at home wherever its folder is; so does what git leaves out, unless the user says otherwise.
	packtest.Write(t, dir, map[string]string{"sub/data/format": "{}", "sub/data/link.key": "k", "sub/data/admin.token": "t", ".gitignore": "*.bin\n", "big.bin": "x"})
	for _, c := range []struct {
		rules string
		want  []string
	}{{"", []string{".gitignore", "in", "loop", "run.sh", "sub/", "sub/f", "sub/up"}}, {"run.sh\n", []string{".fermiignore", ".gitignore", "big.bin", "in", "loop", "sub/", "sub/f", "sub/up"}}} {
		if c.rules != "" {
			packtest.Write(t, dir, map[string]string{".fermiignore": c.rules})
		}
		buf.Reset()
		if p, err = Folder(t.Context(), dir, &buf, func(int64) {}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, packtest.Names(t, buf.Bytes())); diff != "" {
			t.Error(diff)
		}
		if !slices.Contains(p.Left, "sub/data") {
			t.Errorf("left out %v", p.Left)
		}
	}
	if _, err := Folder(t.Context(), filepath.Join(dir, "sub/data"), io.Discard, func(int64) {}); fault.ReasonOf(err) != "ServerData" {
		t.Errorf("a server's data was packed: %v", err)
	}
	if _, err := Folder(t.Context(), filepath.Join(dir, "none"), io.Discard, func(int64) {}); err == nil {
		t.Error("an absent folder was packed")
	}
}

func TestPackTooLarge(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "huge"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(most + 1); err != nil { // sparse: takes no room
		t.Fatal(err)
	}
	f.Close()
	_, err = Folder(t.Context(), dir, io.Discard, func(int64) {})
	if err == nil || !strings.Contains(err.Error(), "huge") {
		t.Errorf("got %v", err)
	}
}
