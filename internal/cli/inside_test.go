package cli

import (
	"slices"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/clitest"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// TestTrainRunInside: a replica in each of the named tasks, with what they have and no code of its own;
// what they are together is said first.
func TestTrainRunInside(t *testing.T) {
	f := clitest.New(t)
	f.Together = api.ExistingPreview{
		NodeCount: 2, MasterNode: "b", Zones: []string{"z1", "z2"}, Devices: map[string]int{"V100": 4, "A100": 8}, TotalCPUs: 32000, TotalMemory: 64 << 30,
		Warnings: []api.Text{fault.T("They are far apart.", "相距较远。")},
	}
	f.Recipe = api.Recipe{RankCount: 4}
	got := fermi(f, t, "", "train", "run", "-d", "--name", "x1", "--inside", "b,a", "--ranks", "2", "--", "python3", "train.py")
	for _, want := range []string{"Inside 2 running tasks in z1, z2, b first: ", "A100", "V100", "CPU 32, memory 64Gi.", "4 processes in all.", "Warning: They are far apart."} {
		if got.code != 0 || !strings.Contains(got.err, want) {
			t.Errorf("no %q in %+v", want, got)
		}
	}
	if len(f.Archives) != 0 {
		t.Error("code was sent")
	}
	if n := len(f.Objects[api.KindTrainingTask]); n != 1 {
		t.Fatalf("%d tasks", n)
	}
	spec := f.Objects[api.KindTrainingTask][0].(*api.TrainingTask).Spec
	if !slices.Equal(spec.Inside, []string{"b", "a"}) || len(spec.Roles) != 1 || spec.Roles[0].Replicas != 2 || spec.Roles[0].Ranks != 2 || spec.Code != nil {
		t.Errorf("%+v", spec)
	}
	dry := fermi(f, t, "", "train", "run", "--dry-run", "--inside", "b,a", "--", "true")
	if dry.code != 0 || !strings.Contains(dry.err, "4 processes in all.") || strings.Contains(dry.err, "No preview") || len(f.Objects[api.KindTrainingTask]) != 1 {
		t.Errorf("%+v", dry)
	}
	bad := fermi(f, t, "", "train", "run", "--inside", "a", "--gpus", "2", "--replicas", "3", "--", "true")
	if bad.code == 0 || !strings.Contains(bad.err, "--gpus") || !strings.Contains(bad.err, "--replicas") {
		t.Errorf("%+v", bad)
	}
}
