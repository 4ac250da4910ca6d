package cli

import (
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/clitest"
)

// TestSpares: they are shown beside the replicas, and a check says what they are.
func TestSpares(t *testing.T) {
	f := clitest.New(t)
	task := clitest.SomeTask("gpt-1", "", api.PhaseRunning)
	task.Spec.Roles[0].Spares = 1
	task.Status.Spares = []api.SpareStatus{{Index: 2, Node: "n3", State: api.SpareWarm}}
	f.Add(task)
	for lang, words := range map[string][]string{"en": {"2 + 1", "worker-2 @ n3: ready to take a place, its imports done"}, "zh": {"备用副本", "导入已完成"}} {
		got := fermi(f, t, "", "describe", "task", "gpt-1", "--lang", lang).out
		for _, want := range words {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in\n%s", want, got)
			}
		}
	}
	if got := fermi(f, t, "", "get", "tasks").out; !strings.Contains(got, "2/2 +1") || !strings.Contains(got, "24×A100") {
		t.Error(got)
	}
	f.Planned = &api.Preview{Fits: true, StartBasis: "now"}
	if got := fermi(f, t, "", "train", "run", "--dry-run", "--name", "x", "--spares", "1", "--restarts", "1", "--", "sleep", "9"); !strings.Contains(got.out, "1 of its replicas are spares") {
		t.Errorf("%+v", got)
	}
}
