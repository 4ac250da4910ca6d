package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/clitest"
)

// TestVersionWithoutCards: a program that can't see NVIDIA cards says so, before anybody misses them.
func TestVersionWithoutCards(t *testing.T) {
	for _, none := range []bool{true, false} {
		for _, args := range [][]string{{"version", "--client"}, {"version", "--client", "-o", "json"}} {
			var out bytes.Buffer
			root := newRoot(&call.Shell{Build: call.BuildInfo{Version: "v1", NoCards: none}, Clock: clitest.FixedClock{}})
			root.SetArgs(args)
			root.SetOut(&out)
			if code := Execute(t.Context(), root); code != 0 || strings.Contains(strings.ToLower(out.String()), "nvidia") != none {
				t.Errorf("without cards %v, %v: %d %q", none, args, code, out.String())
			}
		}
	}
}
