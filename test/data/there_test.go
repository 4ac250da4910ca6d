package data

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fermi-cluster/fermi/test/harness"
)

// TestThereAlready: work that reads what a node has already goes there, and says so.
func TestThereAlready(t *testing.T) {
	w := newWorld(t)
	src := t.TempDir()
	w.must(os.WriteFile(filepath.Join(src, "names.txt"), []byte("ann\n"), 0o644))
	w.fermi("data", "upload", "faces", src)
	run := func(name string) {
		w.fermi("train", "run", "-d", "--name", name, "--no-code", "--cpu", "100m", "--dataset", "faces", "--", "sh", "-c", "cat /data/faces/names.txt; exec sleep 1000")
	}
	run("first")
	harness.Eventually(t, "it runs", func() bool { return strings.Contains(w.fermi("why", "first"), "[Started]") })
	if why := w.fermi("why", "first"); strings.Contains(why, "there already") {
		t.Errorf("nobody had read it before: %s", why)
	}
	run("second")
	harness.Eventually(t, "it runs where its data is", func() bool {
		why := w.fermi("why", "second")
		return strings.Contains(why, "[Started]") && strings.Contains(why, "its data was there already") && strings.Contains(why, "faces@1")
	})
	w.fermi("train", "stop", "first")
	w.fermi("train", "stop", "second")
}
