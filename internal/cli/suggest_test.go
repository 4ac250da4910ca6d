package cli

import (
	"strings"
	"testing"

	"github.com/fermi-cluster/fermi/internal/cli/clitest"
)

// TestSuggestions: what people know from elsewhere leads to what it is called here.
func TestSuggestions(t *testing.T) {
	f := clitest.New(t)
	for line, want := range map[string]string{
		"gpu":                               "fermi node list, fermi top",
		"run python train.py --lr 0.1":      "fermi train run -- python train.py …",
		"run --gpus 2 python train.py":      "fermi train run -- COMMAND",
		"python train.py":                   "fermi train run -- python train.py",
		"sbatch":                            "fermi train run -- COMMAND",
		"login":                             "fermi signin",
		"rm x":                              "fermi delete task x",
		"kill x":                            "fermi train stop x",
		"ps":                                "fermi train list",
		"NVIDIA-SMI":                        "fermi node list, fermi top",
		"train submit -- python a.py":       "fermi train run -- python a.py",
		"train kill x":                      "fermi train stop x",
		"train rm x":                        "fermi delete task x",
		"drain n1":                          "fermi node drain n1",
		"trian":                             "fermi train",
		"train run --nodes 2 -- a":          "--replicas? All are in `fermi train run --help`.",
		"train run --mem 2Gi -- a":          "--memory? All are in `fermi train run --help`.",
		"train run --gpuss 2 -- a":          "--gpus? All are in `fermi train run --help`.",
		"train run --nproc_per_node=4 -- a": "--ranks? All are in `fermi train run --help`.",
		"train list --state failed":         "--phase? All are in `fermi train list --help`.",
		"logs -w x":                         "--follow? All are in `fermi logs --help`.",
		"train run --namespace x -- python": "--project? All are in `fermi train run --help`.",
		"apply --file x":                    "--filename? All are in `fermi apply --help`.",
	} {
		got := fermi(f, t, "", strings.Fields(line)...)
		if !strings.HasSuffix(strings.TrimSuffix(want, "."), "help`") {
			want += "?"
		}
		if hint := "  hint: Did you mean: " + want + "\n"; got.code != 2 || !strings.HasSuffix(got.err, hint) || strings.Count(got.err, "\n") != 2 {
			t.Errorf("%s: %+v", line, got)
		}
	}
	if got := fermi(f, t, "", "train", "run", "--zzzzzz", "--", "a"); got.err != "error: `fermi train run` has no flag --zzzzzz.\n  hint: See `fermi train run --help`.\n" {
		t.Errorf("%+v", got)
	}
	if got := fermi(f, t, "", "--lang", "zh", "gpu"); got.err != "错误：`fermi` 中没有命令 \"gpu\"。\n  提示：是否想输入：fermi node list, fermi top？\n" {
		t.Errorf("%+v", got)
	}
}
