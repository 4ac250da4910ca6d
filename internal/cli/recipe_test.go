package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/clitest"
)

const recipeTask = "kind: TrainingTask\nmetadata: {name: a}\nspec: {framework: mpi, roles: [{command: [x]}]}\n"

func TestTrainRecipe(t *testing.T) {
	f := clitest.New(t)
	f.Recipe = api.Recipe{
		Framework: "mpi", Strategy: "ddp", RankCount: 9, Sizes: api.RecipeSizes{World: 9, Nodes: 1, Data: 9, Tensor: 1, Pipeline: 1},
		Warnings: []api.Text{api.T("mind the step", "小心台阶")},
		Ranks:    []api.RecipeRank{{Role: "worker", Backend: "gloo", Env: []api.EnvVar{{Name: "A", Value: "1\x1b[2J"}}, Command: []string{"mpirun", "x"}}},
		Files:    []api.RecipeFile{{Name: "hostfile", Text: "a slots=9\n"}},
	}
	got := fermi(f, t, recipeTask, "train", "recipe", "-f", "-")
	want := `mpi: 9 processes in 1 replica
strategy ddp: data 9 × pipeline 1 × tensor 1
warning: mind the step

worker-0, process 0, gloo
`
	if got.code != 0 || !strings.HasPrefix(got.out, want) || strings.Contains(got.out, "\x1b") || !strings.HasSuffix(got.out, "… and 8 more\n\n── hostfile\na slots=9\n") {
		t.Errorf("%+v", got)
	}
	if got := fermi(f, t, recipeTask, "train", "recipe", "-f", "-", "-o", "json"); got.code != 0 || !strings.Contains(got.out, `"rankCount": 9`) {
		t.Errorf("%+v", got)
	}
	if got := fermi(f, t, recipeTask, "--lang", "zh", "train", "recipe", "-f", "-"); !strings.Contains(got.out, "警告：小心台阶") {
		t.Errorf("%+v", got)
	}
}

func TestTrainRecipeDownload(t *testing.T) {
	f, dir := clitest.New(t), filepath.Join(t.TempDir(), "new", "folder")
	f.Recipe.Files = []api.RecipeFile{{Name: "hostfile", Text: "a slots=9\n"}}
	check(t, fermi(f, t, recipeTask, "train", "recipe", "-f", "-", "--download", dir), result{out: filepath.Join(dir, "hostfile") + "\n"})
	if data, err := os.ReadFile(filepath.Join(dir, "hostfile")); err != nil || string(data) != "a slots=9\n" {
		t.Errorf("%q %v", data, err)
	}
	f.Recipe.Files[0].Name = "../hostfile"
	if got := fermi(f, t, recipeTask, "train", "recipe", "-f", "-", "--download", dir); got.code == 0 {
		t.Errorf("%+v", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "..", "hostfile")); err == nil {
		t.Error("written outside the folder")
	}
}

func TestTrainRecipeNeedsOneTask(t *testing.T) {
	f := clitest.New(t)
	for _, in := range []string{"", recipeTask + "---\n" + recipeTask, "kind: Queue\nmetadata: {name: q}\n", "kind: TrainingTask\nspec: {frame: 1}\n"} {
		if got := fermi(f, t, in, "train", "recipe", "-f", "-"); got.code != 2 {
			t.Errorf("%q: %+v", in, got)
		}
	}
	if got := fermi(f, t, "", "train", "recipe"); got.code != 2 {
		t.Errorf("%+v", got)
	}
}
