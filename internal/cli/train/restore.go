package train

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func trainRestoreCommand(a *call.Shell) *cobra.Command {
	var wish client.RestoreWish
	var sure call.Insist
	cmd := &cobra.Command{
		Use: "restore NAME --step N", Short: speech.Both("Go on from a chosen checkpoint, also after the end", "从指定检查点继续，任务已结束也可以"), Args: usage.Need(1, 1, "NAME"),
		Example: "  fermi train checkpoints gpt-7x2k9\n  fermi train restore gpt-7x2k9 --step 4000 --stop",
	}
	cmd.Flags().Int64Var(&wish.Step, "step", 0, speech.Both("step of a checkpoint of the task", "任务某个检查点的步数"))
	cmd.Flags().BoolVar(&wish.Stop, "stop", false, speech.Both("end what runs first", "先停止正在运行的进程"))
	sure.Add(cmd)
	cmd.RunE = a.Online(func(ctx context.Context, s *call.Session, args []string) error {
		if wish.Step < 1 {
			return usage.Wrong(cmd, fault.T("Name the step: --step N; fermi train checkpoints %s lists them.", "请指定步数：--step N；可用 fermi train checkpoints %s 查看。", args[0]))
		}
		if err := sure.Run(s, func(opts ...client.Option) error {
			return s.Client.Restore(ctx, s.Project(api.KindTrainingTask), args[0], wish, opts...)
		}); err != nil {
			return err
		}
		show.Line(s.Out, "task/"+args[0]+" "+s.T("goes on from step %d", "将从第 %d 步继续", wish.Step))
		return nil
	})
	return cmd
}

// isFolder says that --from names a folder of slots and no task: no name of a task has a slash.
func isFolder(from string) bool { return strings.ContainsRune(from, '/') }

// origin reads --from TASK, TASK@STEP or FOLDER/.
func origin(f *usage.Faults, text string) *api.CheckpointFrom {
	if isFolder(text) {
		return &api.CheckpointFrom{Upload: true}
	}
	task, step, given := strings.Cut(text, "@")
	out := &api.CheckpointFrom{Task: task}
	if given {
		n, err := strconv.ParseInt(step, 10, 64)
		if err != nil || n < 1 {
			f.Add("--from", fault.T("%q is not of the form TASK, TASK@STEP or FOLDER/.", "%q 不是 TASK、TASK@STEP 或 FOLDER/ 的形式。", text))
		}
		out.Step = n
	}
	return out
}
