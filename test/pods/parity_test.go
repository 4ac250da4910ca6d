package pods

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/test/parity"
)

// TestParity: the same features on a cluster and on the server's own machine.
func TestParity(t *testing.T) {
	w := up(t)
	token, err := os.ReadFile(filepath.Join(w.Dir, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), w.bin, args...)
		cmd.Env = append(os.Environ(), "FERMI_SERVER=http://"+w.Addr, "FERMI_TOKEN="+strings.TrimSpace(string(token)), "FERMI_LANG=en")
		return cmd
	}
	for engine, zone := range map[string]string{"kubernetes": "k1", "host": "local"} {
		t.Run(engine, func(t *testing.T) {
			parity.Run(t, parity.Place{
				Engine: engine, Zone: zone, Client: w.cl, Command: command, Mine: func(n *api.Node) bool { return n.Spec.Zone == zone },
			})
		})
	}
}
