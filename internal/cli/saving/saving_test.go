package saving

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	api "github.com/fermi-cluster/fermi/api/v1"
)

func TestFlagsGoOverATask(t *testing.T) {
	manifest := &api.Checkpoints{Auto: true, Folder: "old"}
	for _, c := range []struct {
		args []string
		of   *api.Checkpoints
		want *api.Checkpoints
	}{
		{nil, nil, nil},
		{nil, manifest, &api.Checkpoints{Auto: true, Folder: "old"}},
		{[]string{"--instant"}, nil, &api.Checkpoints{Instant: "auto"}},
		{[]string{"--checkpoint-folder", "ckpt"}, manifest, &api.Checkpoints{Auto: true, Folder: "ckpt"}},
		{[]string{"--from", "a", "--instant"}, nil, &api.Checkpoints{From: &api.CheckpointFrom{Task: "a"}, Instant: "auto"}},
	} {
		var f Flags
		set := pflag.NewFlagSet("run", pflag.ContinueOnError)
		f.Add(set, func(en, _ string) string { return en })
		if err := set.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		task := &api.TrainingTask{Spec: api.TrainingTaskSpec{Checkpoint: c.of}}
		f.Over(task, func(text string) *api.CheckpointFrom { return &api.CheckpointFrom{Task: text} })
		if d := cmp.Diff(c.want, task.Spec.Checkpoint); d != "" {
			t.Errorf("%q: %s", c.args, d)
		}
	}
	if manifest.Folder != "old" {
		t.Error("the manifest was changed")
	}
}
