package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// TestRecipe: what the preview shows is what the processes find.
func TestRecipe(t *testing.T) {
	w := up(t, "--demo")
	dir := t.TempDir()
	file := filepath.Join(dir, "task.yaml")
	manifest := "kind: TrainingTask\nmetadata: {name: seed}\nspec:\n  framework: deepspeed\n  strategy: {data: 2, pipeline: 4, tensor: 8}\n" +
		"  roles: [{command: [python, train.py], replicas: 14, resources: {accelerators: {type: A100, count: 1}}}]\n"
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := w.fermi("train", "recipe", "-f", file); got.code != 2 || !strings.Contains(got.err, "2 × 1 × 7") {
		t.Errorf("64 processes on 14 devices: %+v", got)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(manifest, "data: 2, pipeline: 4, tensor: 8", "trainBatchSize: 56", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	contains(t, w.must("train", "recipe", "-f", file), "14 processes", "WORLD_SIZE=14", "gloo", "ds_config.json", `"train_batch_size": 56`)
	contains(t, w.must("train", "recipe", "-f", file, "--download", filepath.Join(dir, "out")), "hostfile", "ds_config.json")

	task := shell("ddp", 2, `echo process $RANK of $WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT by $FERMI_BACKEND, local $LOCAL_RANK
grep world_size: "$FERMI_RECIPE/pytorch_ddp_config.yaml"; grep init_method "$1"`)
	task.Spec.Framework, task.Spec.Roles[0].Args = "pytorch-ddp", []string{"sh", "${FERMI_RECIPE}/pytorch_ddp_config.yaml"}
	task.Spec.Roles[0].Resources.Accelerators = api.Accelerators{Type: "A100", Count: 1}
	w.submit(task)
	w.phase("ddp", api.PhaseCompleted)
	logs := w.must("logs", "ddp")
	contains(t, logs, "process 0 of 2 at ", "process 1 of 2 at ", "by gloo, local 0", "world_size: 2")
	if ports := meeting(logs); len(ports) != 1 {
		t.Errorf("they would not meet: %v\n%s", ports, logs)
	}
}

// meeting are the addresses that the processes were told to meet at.
func meeting(logs string) map[string]bool {
	out := map[string]bool{}
	for line := range strings.Lines(logs) {
		if _, rest, ok := strings.Cut(line, " at "); ok {
			address, _, _ := strings.Cut(rest, " ")
			out[address] = true
		}
	}
	return out
}
