package simulate

import (
	"io"
	"strings"
	"testing"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// TestBadFlags: what does not go together is refused by name, before anything is played.
func TestBadFlags(t *testing.T) {
	for args, names := range map[string][]string{
		"--scenario services --nodes 3x8:A100 --moves jobs.csv": {"--nodes", "--moves", "jobs.csv"},
		"--scenario none":              {"none", "services", "overload"},
		"--scenario overload jobs.csv": {"--scenario"},
	} {
		cmd := Command()
		cmd.SetArgs(strings.Fields(args))
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		err := cmd.Execute()
		if fault.ReasonOf(err) != "BadFlag" {
			t.Errorf("%s: %v", args, err)
			continue
		}
		for _, name := range names {
			if !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v does not name %s", args, err, name)
			}
		}
	}
}
