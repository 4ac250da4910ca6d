package workbench

import (
	"strings"
	"testing"

	"github.com/fermi-cluster/fermi/test/harness"
)

// TestFailedStart: what failed to start, or ended with an error, says the line that decided: when it is made, when it is shown, and when somebody asks why.
func TestFailedStart(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		want    string
		command []string
	}{
		"missing": {"no-such-program", []string{"no-such-program"}},
		"words":   {"the license server is away", []string{"sh", "-c", "echo starting; echo the license server is away >&2; exit 126"}},
	} {
		args := append([]string{"env", "create", name, "--cpu", "500m", "--memory", "256Mi", "--"}, c.command...)
		if out, code := w.fermi("ann", "", args...); code == 0 && name == "missing" || strings.Contains(out, "Exited") {
			t.Errorf("%s: exit code %d\n%s", name, code, out)
		}
		harness.Eventually(t, name+" says why", func() bool { return strings.Contains(w.must("ann", "env", "show", name), c.want) })
		if out, _ := w.fermi("ann", "", "why", name); !strings.Contains(out, c.want) {
			t.Errorf("why %s says\n%s", name, out)
		}
	}
}
