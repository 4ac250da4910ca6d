package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// TestLiveWhatIf: all V100 are taken for about two hours; with more of them the one that waits
// starts at once, and the live cluster is as it was.
func TestLiveWhatIf(t *testing.T) {
	w := up(t, "--demo")
	first := waiter("first", 4, 8, 500)
	first.Spec.ExpectedTime = api.Duration(2 * time.Hour)
	w.submit(first)
	w.phase("first", api.PhaseRunning)
	w.submit(waiter("second", 1, 8, 500))
	w.phase("second", api.PhasePending)
	page := filepath.Join(t.TempDir(), "what-if.html")
	out := w.must("sim", "--live", "--lang", "en", "--add", "1x8:V100@北京-1", "--weight", "default=2x", "--html", page)
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "second") {
			if f := strings.Join(strings.Fields(line), " "); !strings.Contains(f, "default 8 +") || !strings.HasSuffix(f, "at once") {
				t.Error(line)
			}
		}
	}
	contains(t, out, "second")
	contains(t, out, "91 nodes")
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	contains(t, string(html), "second")
	if got := w.task("second").Status.Phase; got != api.PhasePending {
		t.Error("a what-if let it start:", got)
	}
	if bad := w.fermi("sim", "--live", "--remove", "1 nodes in nowhere"); bad.code == 0 {
		t.Error("a zone that is not there lost a node")
	}
	w.must("train", "stop", "first", "second")
	w.phase("first", api.PhaseStopped)
	w.phase("second", api.PhaseStopped)
}
