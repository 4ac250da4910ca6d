package cli

import (
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/clitest"
)

// TestDescribeNodeAfterAnUpdate: launchers that an update left as they are, by version.
func TestDescribeNodeAfterAnUpdate(t *testing.T) {
	f := clitest.New(t)
	f.Add(&api.Node{Meta: api.Meta{Name: "n1"}, Spec: api.NodeSpec{Number: 1, Zone: "z"}, Status: api.NodeStatus{
		Ready: true, Launchers: []api.LauncherVersion{{Count: 2}, {Version: "v1.2", Count: 1}},
	}})
	for lang, words := range map[string][]string{
		"en": {"Launchers:", "2 of an older version still run: they keep what they were started with until their replicas end.", "1 of version v1.2 still runs: it keeps"},
		"zh": {"启动器:", "2 个旧版本启动器仍在运行：在各自副本结束前沿用启动时的行为。", "1 个 v1.2 版本的启动器仍在运行"},
	} {
		got := fermi(f, t, "", "describe", "node", "n1", "--lang", lang).out
		for _, want := range words {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in\n%s", want, got)
			}
		}
	}
}
