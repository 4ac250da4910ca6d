package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/clitest"
)

// submitted is the newest task that the server made.
func submitted(t *testing.T, f *clitest.Fake) *api.TrainingTask {
	t.Helper()
	list := f.Objects[api.KindTrainingTask]
	if len(list) == 0 {
		t.Fatal("there is no task")
	}
	return list[len(list)-1].(*api.TrainingTask)
}

// TestRunFromManifest: the manifest is the base, and only what flags say is changed.
func TestRunFromManifest(t *testing.T) {
	f := clitest.New(t)
	file := filepath.Join(t.TempDir(), "task.yaml")
	if err := os.WriteFile(file, []byte(`kind: TrainingTask
metadata: {displayName: 基线}
spec:
  framework: pytorch-ddp
  queue: nlp
  hyperParameters: {lr: 0.1, steps: 5}
  roles:
  - name: worker
    replicas: 4
    command: [python, train.py]
    env: [{name: A, value: "1"}, {name: B, value: "2"}]
    resources: {memory: 2Gi, accelerators: {type: A100, count: 8}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	got := fermi(f, t, "", "train", "run", "-d", "--no-code", "-f", file)
	if got.code != 0 {
		t.Fatalf("%+v", got)
	}
	task := submitted(t, f)
	role := task.Spec.Roles[0]
	if task.Spec.Framework != "pytorch-ddp" || task.Spec.Queue != "nlp" || role.Replicas != 4 || role.Resources.Accelerators.Count != 8 || !slices.Equal(role.Command, []string{"python", "train.py"}) {
		t.Errorf("%+v", task.Spec)
	}
	got = fermi(f, t, "", "train", "run", "-d", "--no-code", "-f", file, "--replicas", "2", "--hp", "lr=0.2", "--env", "B=3", "--framework", "plain", "--name", "mine", "--", "python", "other.py", "--x")
	if got.code != 0 {
		t.Fatalf("%+v", got)
	}
	task = submitted(t, f)
	role = task.Spec.Roles[0]
	if task.Meta.Name != "mine" || task.Meta.DisplayName != "基线" || task.Spec.Framework != "plain" || role.Replicas != 2 || role.Resources.Accelerators.Type != "A100" || role.Resources.Memory != 2<<30 ||
		len(role.Env) != 2 || role.Env[1].Value != "3" || !slices.Equal(append(role.Command, role.Args...), []string{"python", "other.py", "--x"}) {
		t.Errorf("%+v %+v", task.Meta, task.Spec)
	}
	if got := fermi(f, t, "", "train", "run"); got.code != 2 || !strings.Contains(got.err, "Missing: -- COMMAND") {
		t.Errorf("%+v", got)
	}
}

// TestRerun: the same work again, with what the flags change, whatever became of the first.
func TestRerun(t *testing.T) {
	f := clitest.New(t)
	old := &api.TrainingTask{
		Meta: api.Meta{Name: "old", ID: "task-old", DisplayName: "旧任务", Project: "default"},
		Spec: api.TrainingTaskSpec{Stop: true, Code: &api.Code{Archive: "sha256:" + strings.Repeat("a", 64)}, HyperParameters: map[string]any{"lr": 0.1},
			Roles: []api.Role{{Name: "worker", Replicas: 2, Command: []string{"python", "a.py"}}}},
		Status: api.TrainingTaskStatus{Phase: api.PhaseFailed},
	}
	f.Add(old)
	if got := fermi(f, t, "", "train", "rerun", "task/old", "-d", "--hp", "lr=0.5", "--gpus", "1"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	task := submitted(t, f)
	if task.Meta.Name == "old" || task.Meta.DisplayName != "旧任务" || task.Spec.Stop || task.Spec.Code.Archive != old.Spec.Code.Archive ||
		task.Spec.Roles[0].Replicas != 2 || task.Spec.Roles[0].Resources.Accelerators.Count != 1 || task.Status.Phase == api.PhaseFailed {
		t.Errorf("%+v", task)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.py"), []byte("pass\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := fermi(f, t, "", "train", "rerun", "old", "-d", "--code", dir, "--", "python", "b.py"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	if task := submitted(t, f); task.Spec.Code.Archive == old.Spec.Code.Archive || task.Spec.Roles[0].Args[0] != "b.py" {
		t.Errorf("%+v", task.Spec)
	}
}

// TestAllMistakesAtOnce: what can't be read and what contradicts itself is said together, in the words of the command line.
func TestAllMistakesAtOnce(t *testing.T) {
	f := clitest.New(t)
	got := fermi(f, t, "", "train", "run", "--cpu", "lots", "--env", "X", "--replicas", "0", "--timeout", "soon", "--code", ".", "--no-code", "--gpus", "200", "--priority", "20000", "--", "a")
	for _, part := range []string{"7 mistakes", "--cpu: ", "--env: ", "--replicas: ", "--timeout: ", "--no-code: ", "--gpus: ", "--priority: "} {
		if got.code != 2 || !strings.Contains(got.err, part) {
			t.Errorf("no %q in %+v", part, got)
		}
	}
	if len(f.Objects[api.KindTrainingTask]) != 0 {
		t.Error("a task was made")
	}
	got = fermi(f, t, "", "train", "run", "--no-code", "--gpus", "200", "--", "a")
	check(t, got, result{code: 2, err: "error: --gpus: 200 is out of range: 0 to 64 are allowed.\n"})
}
