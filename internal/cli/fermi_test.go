package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/clitest"
)

// result is what a command left behind.
type result struct {
	out, err string
	code     int
}

// fermi runs a command line as the binary would.
func fermi(f *clitest.Fake, t *testing.T, stdin string, args ...string) result {
	t.Helper()
	var out, err bytes.Buffer
	root := newRoot(&call.Shell{Build: call.BuildInfo{Version: "v1"}, Clock: clitest.FixedClock{}})
	root.SetArgs(args)
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&out)
	root.SetErr(&err)
	code := Execute(t.Context(), root)
	return result{out.String(), err.String(), code}
}
