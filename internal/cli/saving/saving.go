// Package saving has the flags of `fermi train run` about what a task saves and goes on from.
//
// Place: layer 5, below cli, which adds them to its commands. Promise: flags that are not given change nothing. Enemies: a flag that
// undoes what a manifest says.
package saving

import (
	"github.com/spf13/pflag"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// Flags are what is given.
type Flags struct {
	From    string // a checkpoint to begin from
	Folder  string // that the script saves to itself
	Instant bool
}

// Add makes them known; both joins the two languages.
func (f *Flags) Add(to *pflag.FlagSet, both func(en, zh string) string) {
	to.StringVar(&f.From, "from", "", both("begin from a checkpoint of another task: TASK, or TASK@STEP; or from the slots in a folder: FOLDER/, with a slash", "从另一任务的检查点开始：TASK 或 TASK@STEP；或从文件夹中的槽文件开始：FOLDER/（须含斜杠）"))
	to.StringVar(&f.Folder, "checkpoint-folder", "", both("folder that the script itself saves to: its newest whole entry is kept, and given back as FERMI_RESUME_FROM", "脚本自行保存检查点的目录：保留其中最新的完整检查点，重启时由 FERMI_RESUME_FROM 给出"))
	to.BoolVar(&f.Instant, "instant", false, both("scripts with Transformers, Lightning or Accelerate save in memory every few steps, unchanged, and go on from there", "使用 Transformers、Lightning 或 Accelerate 的脚本无需修改，每隔几步在内存中保存并由此恢复"))
}

// Over puts them over a task; origin reads what it begins from.
func (f *Flags) Over(t *api.TrainingTask, origin func(string) *api.CheckpointFrom) {
	if *f == (Flags{}) {
		return
	}
	c := api.Checkpoints{}
	if t.Spec.Checkpoint != nil {
		c = *t.Spec.Checkpoint
	}
	if f.From != "" {
		c.From = origin(f.From)
	}
	if f.Folder != "" {
		c.Folder = f.Folder
	}
	if f.Instant {
		c.Instant = "auto"
	}
	t.Spec.Checkpoint = &c
}
