package train

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/object"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
	"github.com/fermi-cluster/fermi/internal/fault"
)

var checkpointColumns = []show.Column{show.Number("STEP", "步数"), show.Number("RANKS", "进程数"), show.Number("SIZE", "大小"), show.Number("NEW", "新写入"), show.Col("TIERS", "层级"), show.Fixed("COMMITTED", "提交时间"), show.Fixed("VERIFIED", "校验")}

func trainCheckpointsCommand(a *call.Shell) *cobra.Command {
	var pin, unpin, step int64
	var verify bool
	var export, bring string
	cmd := &cobra.Command{
		Use: "checkpoints NAME", Short: speech.Both("List the checkpoints of a task, verify them, pin one, or fetch one", "列出任务的检查点，校验、固定或下载其中的检查点"), Args: usage.Need(1, 1, "NAME"),
		Example: "  fermi train checkpoints gpt-7x2k9\n  fermi train checkpoints gpt-7x2k9 --pin 4000\n  fermi train checkpoints gpt-7x2k9 --verify --step 4000\n  fermi train checkpoints gpt-7x2k9 --export ./step4000 --step 4000",
	}
	cmd.Flags().Int64Var(&pin, "pin", 0, speech.Both("keep the one of this step, whatever the policy says; a * marks it", "固定该步的检查点，保留规则不再删除它；以 * 标记"))
	cmd.Flags().Int64Var(&unpin, "unpin", 0, speech.Both("let the policy decide about the one of this step again", "取消固定该步的检查点"))
	cmd.Flags().BoolVar(&verify, "verify", false, speech.Both("have every byte in the shared store read back and checked, and wait for it", "读回并校验共享存储中的每个字节，等待完成"))
	cmd.Flags().Int64Var(&step, "step", 0, speech.Both("verify or export the one of this step only", "仅校验或导出该步的检查点"))
	cmd.Flags().StringVar(&export, "export", "", speech.Both("fetch the newest, or that of --step, into this new folder, a file for each rank; python3 -m fermi.convert makes torch.save, safetensors or DCP of it",
		"将最新的（或 --step 指定的）检查点下载到此新文件夹，每个进程一个文件；可用 python3 -m fermi.convert 转换为 torch.save、safetensors 或 DCP"))
	cmd.Flags().StringVar(&bring, "import", "", speech.Both("upload the slots in this folder into a task that waits for its checkpoint (spec.checkpoint.from: {upload: true})",
		"将此文件夹中的槽文件上传到正在等待检查点的任务（spec.checkpoint.from: {upload: true}）"))
	cmd.MarkFlagsMutuallyExclusive("pin", "unpin", "verify", "export", "import")
	cmd.RunE = a.Online(func(ctx context.Context, s *call.Session, args []string) error {
		if cmd.Flags().Changed("pin") || cmd.Flags().Changed("unpin") {
			if err := s.Client.Pin(ctx, s.Project(api.KindTrainingTask), args[0], pin+unpin, cmd.Flags().Changed("pin")); err != nil {
				return err
			}
		}
		if cmd.Flags().Changed("step") && (!verify && export == "" || step < 1) {
			return usage.Wrong(cmd, fault.T("--step N goes with --verify or --export, and is at least 1.", "--step N 与 --verify 或 --export 同用，且至少为 1。"))
		}
		if cmd.Flags().Changed("export") {
			return exportStep(ctx, s, args[0], step, export)
		}
		if cmd.Flags().Changed("import") {
			return bringSlots(ctx, s, args[0], bring)
		}
		if verify {
			if err := waitVerified(ctx, s, args[0], step); err != nil {
				return err
			}
		}
		list, err := s.Client.Checkpoints(ctx, s.Project(api.KindTrainingTask), args[0])
		if err != nil {
			return err
		}
		if err := showCheckpoints(ctx, s, args[0], list); err != nil {
			return err
		}
		if found := damaged(s, list, step); verify {
			return found
		}
		return nil
	})
	return cmd
}

func showCheckpoints(ctx context.Context, s *call.Session, name string, list []api.Checkpoint) error {
	if s.Structured() {
		return s.Data(map[string]any{"items": append([]api.Checkpoint{}, list...)})
	}
	if s.Flags.Output == "name" {
		for i := range list {
			show.Line(s.Out, show.Clean(list[i].Name))
		}
		return nil
	}
	if err := checkpointTable(s, list); err != nil {
		return err
	}
	return checkpointIntervals(ctx, s, name)
}

func checkpointTable(s *call.Session, list []api.Checkpoint) error {
	if len(list) == 0 {
		s.Say("The task has no checkpoints.", "任务没有检查点。")
		return nil
	}
	columns, scored := checkpointColumns, slices.ContainsFunc(list, func(c api.Checkpoint) bool { return len(c.Metrics) > 0 })
	if scored {
		columns = append(slices.Clone(columns), show.Col("METRICS", "指标"))
	}
	rows := make([][]show.Cell, len(list))
	for i := range list {
		if rows[i] = checkpointRow(s, &list[i]); scored {
			rows[i] = append(rows[i], show.Text(metricsLine(list[i].Metrics)))
		}
	}
	return show.Write(s.Out, columns, rows, s.Lang, show.ScreenOf(s.Out))
}

// checkpointIntervals shows how often a task that tunes that itself makes more.
func checkpointIntervals(ctx context.Context, s *call.Session, name string) error {
	obj, err := s.Client.Get(ctx, api.KindTrainingTask, s.Project(api.KindTrainingTask), name)
	if err != nil {
		return err
	}
	d := &show.Sheet{W: s.Out, Lang: s.Lang}
	if t, ok := obj.(*api.TrainingTask); ok && len(t.Status.Intervals) > 0 {
		show.Line(s.Out, "")
		object.DescribeIntervals(s, d, t.Status.Intervals)
	}
	d.Flush()
	return nil
}

const (
	verifyLook  = 500 * time.Millisecond // between looks whether all is verified
	verifyAgain = 20                     // looks, after which it is asked for again: the server may be another one
)

// waitVerified waits until the server has read back the checkpoint of a step, or all with 0.
func waitVerified(ctx context.Context, s *call.Session, name string, step int64) error {
	project := s.Project(api.KindTrainingTask)
	begun, err := s.Client.Verify(ctx, project, name, step)
	if err != nil {
		return err
	}
	before := map[string]time.Time{}
	for i := range begun {
		before[begun[i].Name] = looked(&begun[i])
	}
	s.Say("%d [checkpoint is|checkpoints are] being verified.", "正在校验 %d 个检查点。", len(before))
	for n := 1; ; n++ {
		list, err := s.Client.Checkpoints(ctx, project, name)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(list, func(c api.Checkpoint) bool { // those that went meanwhile are not waited for
			was, asked := before[c.Name]
			return asked && c.In("shared") && looked(&c).Equal(was)
		}) {
			return nil
		}
		if n%verifyAgain == 0 {
			if _, err := s.Client.Verify(ctx, project, name, step); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fault.From(ctx.Err())
		case <-s.Clock.After(verifyLook):
		}
	}
}

// looked is when the bytes in the shared store were read back last.
func looked(c *api.Checkpoint) (at time.Time) {
	for _, t := range c.Tiers {
		switch {
		case t.Tier != "shared":
		case t.Damage != nil:
			at = t.Damage.At
		case t.VerifiedAt != nil:
			at = *t.VerifiedAt
		}
	}
	return at
}

// damaged says what was found in those that were verified, as an error.
func damaged(s *call.Session, list []api.Checkpoint, step int64) error {
	var found []string
	for i := range list {
		for _, t := range list[i].Tiers {
			if t.Damage != nil && (step == 0 || list[i].Step == step) {
				s.Say("Step %d: %s", "第 %d 步：%s", list[i].Step, show.Clean(t.Damage.Message.In(s.Lang)))
				found = append(found, strconv.FormatInt(list[i].Step, 10))
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	return fault.New(fault.Conflict, "Damaged", fault.T("Checkpoints are damaged: steps %s.", "检查点已损坏：第 %s 步。", strings.Join(found, ", ")))
}

// verified is when it was read back last in any tier, and where it is damaged.
func verified(s *call.Session, c *api.Checkpoint) string {
	var at time.Time
	for _, t := range c.Tiers {
		switch {
		case t.Damage != nil:
			return s.T("damaged", "已损坏")
		case t.Verifying:
			return s.T("verifying", "校验中")
		case t.VerifiedAt != nil && t.VerifiedAt.After(at):
			at = *t.VerifiedAt
		}
	}
	return s.Ago(at)
}

// checkpointRow shows the bytes that were new where most had to be written, and the first commit.
func checkpointRow(s *call.Session, c *api.Checkpoint) []show.Cell {
	var tiers []string
	var fresh api.Bytes
	first := c.Tiers[0].CommittedAt
	for _, t := range c.Tiers {
		name := t.Tier
		if t.Pinned {
			name += "*"
		}
		tiers, fresh = append(tiers, name), max(fresh, t.New)
		if t.CommittedAt.Before(first) {
			first = t.CommittedAt
		}
	}
	return []show.Cell{
		show.Text(strconv.FormatInt(c.Step, 10)), show.Text(strconv.Itoa(c.Ranks)), show.Text(show.Size(int64(c.Size))), show.Text(show.Size(int64(fresh))),
		show.Text(strings.Join(tiers, ",")), show.Text(s.Ago(first)), show.Text(verified(s, c)),
	}
}

// metricsShown is how many there is room for; all are in the other formats.
const metricsShown = 4

// metricsLine is the first ones by name.
func metricsLine(metrics map[string]float64) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		if len(out) == metricsShown {
			out = append(out, "…")
			break
		}
		out = append(out, fmt.Sprintf("%s=%.5g", name, metrics[name]))
	}
	return strings.Join(out, " ")
}
