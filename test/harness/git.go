package harness

import (
	"testing"

	"github.com/fermi-cluster/fermi/test/foreign"
)

// NewGitServer starts a Git server outside.
func NewGitServer(t testing.TB, root string) foreign.GitServer {
	t.Helper()
	return foreign.Git(t, ListenOutside(t), root)
}
