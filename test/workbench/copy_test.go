package workbench

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCopy: `fermi cp` both ways, a folder with a big file, and again; what another's environment has, and what the project may not see, stays there.
func TestCopy(t *testing.T) {
	w := newWorld(t)
	w.must("ann", "env", "create", "box", "--cpu", "500m", "--memory", "512Mi")
	here, back := t.TempDir(), t.TempDir()
	big := make([]byte, 9<<20+77)
	rand.Read(big)
	if err := os.MkdirAll(filepath.Join(here, "src", "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"src/deep/big": big, "src/one.txt": []byte("one\n")} {
		if err := os.WriteFile(filepath.Join(here, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out := w.must("ann", "cp", filepath.Join(here, "src"), "box:"); !strings.Contains(out, "2 files copied") {
		t.Error(out)
	}
	if got := w.must("ann", "env", "shell", "box", "--", "sh", "-c", "cat src/one.txt; stat -c %s src/deep/big"); got != "one\n9437261\n" {
		t.Errorf("there: %q", got)
	}
	if out := w.must("ann", "cp", filepath.Join(here, "src"), "box:"); !strings.Contains(out, "0 files copied, 0 B") || !strings.Contains(out, "2 there already") {
		t.Errorf("again: %s", out)
	}
	w.must("ann", "cp", "box:src", filepath.Join(back, "mine"))
	if got, err := os.ReadFile(filepath.Join(back, "mine", "deep", "big")); err != nil || !bytes.Equal(got, big) {
		t.Errorf("back: %d bytes, %v", len(got), err)
	}
	for _, args := range [][]string{
		{"cp", "box:" + filepath.Join(w.Dir, "admin.token"), back}, {"cp", "box:nothing", back}, {"cp", filepath.Join(here, "src/one.txt"), "nobox:"}, {"cp", "box:a", "box:b"}, {"cp", here, back},
	} {
		if out, code := w.fermi("ann", "", args...); code == 0 {
			t.Errorf("%v: %s", args, out)
		}
	}
	if out, code := w.fermi("bob", "", "cp", "box:src", back); code == 0 {
		t.Errorf("bob copies ann's: %s", out)
	}
}
