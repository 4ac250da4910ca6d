package hosts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/test/parity"
)

// TestParity: the features that one host and a cluster have, on hosts that joined.
func TestParity(t *testing.T) {
	l := newLab(t, 3)
	l.join("a2")
	l.join("a3")
	token, err := os.ReadFile(filepath.Join(l.w.Host("a1").Disk(), "up", "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	parity.Run(t, parity.Place{
		Engine: "hosts", Zone: "local", Client: l.cl, Mine: func(n *api.Node) bool { return n.Spec.Agent != nil },
		Command: func(args ...string) *exec.Cmd {
			cmd := exec.CommandContext(t.Context(), l.bin, args...)
			cmd.Env = append(os.Environ(), "FERMI_SERVER=http://"+l.api, "FERMI_TOKEN="+strings.TrimSpace(string(token)), "FERMI_LANG=en")
			return cmd
		},
	})
}
