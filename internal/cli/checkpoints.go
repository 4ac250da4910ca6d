package cli

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
	"github.com/fermi-cluster/fermi/internal/fault"
)

var checkpointColumns = []column{number("STEP", "步数"), number("RANKS", "进程数"), number("SIZE", "大小"), number("NEW", "新写入"), col("TIERS", "层级"), fixed("COMMITTED", "提交时间"), fixed("VERIFIED", "校验")}

func (a *app) trainCheckpointsCommand() *cobra.Command {
	var pin, unpin, step int64
	var verify bool
	var export, bring string
	cmd := &cobra.Command{
		Use: "checkpoints NAME", Short: Both("List the checkpoints of a task, verify them, pin one, or fetch one", "列出任务的检查点，校验、固定或下载其中的检查点"), Args: needArgs(1, 1, "NAME"),
		Example: "  fermi train checkpoints gpt-7x2k9\n  fermi train checkpoints gpt-7x2k9 --pin 4000\n  fermi train checkpoints gpt-7x2k9 --verify --step 4000\n  fermi train checkpoints gpt-7x2k9 --export ./step4000 --step 4000",
	}
	cmd.Flags().Int64Var(&pin, "pin", 0, Both("keep the one of this step, whatever the policy says; a * marks it", "固定该步的检查点，保留规则不再删除它；以 * 标记"))
	cmd.Flags().Int64Var(&unpin, "unpin", 0, Both("let the policy decide about the one of this step again", "取消固定该步的检查点"))
	cmd.Flags().BoolVar(&verify, "verify", false, Both("have every byte in the shared store read back and checked, and wait for it", "读回并校验共享存储中的每个字节，等待完成"))
	cmd.Flags().Int64Var(&step, "step", 0, Both("verify or export the one of this step only", "仅校验或导出该步的检查点"))
	cmd.Flags().StringVar(&export, "export", "", Both("fetch the newest, or that of --step, into this new folder, a file for each rank; python3 -m fermi.convert makes torch.save, safetensors or DCP of it",
		"将最新的（或 --step 指定的）检查点下载到此新文件夹，每个进程一个文件；可用 python3 -m fermi.convert 转换为 torch.save、safetensors 或 DCP"))
	cmd.Flags().StringVar(&bring, "import", "", Both("upload the slots in this folder into a task that waits for its checkpoint (spec.checkpoint.from: {upload: true})",
		"将此文件夹中的槽文件上传到正在等待检查点的任务（spec.checkpoint.from: {upload: true}）"))
	cmd.MarkFlagsMutuallyExclusive("pin", "unpin", "verify", "export", "import")
	cmd.RunE = a.online(func(ctx context.Context, s *session, args []string) error {
		if cmd.Flags().Changed("pin") || cmd.Flags().Changed("unpin") {
			if err := s.client.Pin(ctx, s.project(api.KindTrainingTask), args[0], pin+unpin, cmd.Flags().Changed("pin")); err != nil {
				return err
			}
		}
		if cmd.Flags().Changed("step") && (!verify && export == "" || step < 1) {
			return usage(cmd, fault.T("--step N goes with --verify or --export, and is at least 1.", "--step N 与 --verify 或 --export 同用，且至少为 1。"))
		}
		if cmd.Flags().Changed("export") {
			return s.export(ctx, args[0], step, export)
		}
		if cmd.Flags().Changed("import") {
			return s.bring(ctx, args[0], bring)
		}
		if verify {
			if err := s.verify(ctx, args[0], step); err != nil {
				return err
			}
		}
		list, err := s.client.Checkpoints(ctx, s.project(api.KindTrainingTask), args[0])
		if err != nil {
			return err
		}
		if err := s.showCheckpoints(ctx, args[0], list); err != nil {
			return err
		}
		if found := s.damaged(list, step); verify {
			return found
		}
		return nil
	})
	return cmd
}

func (s *session) showCheckpoints(ctx context.Context, name string, list []api.Checkpoint) error {
	if s.structured() {
		return s.data(map[string]any{"items": append([]api.Checkpoint{}, list...)})
	}
	if s.flags.output == "name" {
		for i := range list {
			putLine(s.out, clean(list[i].Name))
		}
		return nil
	}
	if err := s.checkpointTable(list); err != nil {
		return err
	}
	return s.checkpointIntervals(ctx, name)
}

func (s *session) checkpointTable(list []api.Checkpoint) error {
	if len(list) == 0 {
		s.say("The task has no checkpoints.", "任务没有检查点。")
		return nil
	}
	columns, scored := checkpointColumns, slices.ContainsFunc(list, func(c api.Checkpoint) bool { return len(c.Metrics) > 0 })
	if scored {
		columns = append(slices.Clone(columns), col("METRICS", "指标"))
	}
	rows := make([][]cell, len(list))
	for i := range list {
		if rows[i] = s.checkpointRow(&list[i]); scored {
			rows[i] = append(rows[i], text(metricsLine(list[i].Metrics)))
		}
	}
	return writeTable(s.out, columns, rows, s.lang, screenOf(s.out))
}

// checkpointIntervals shows how often a task that tunes that itself makes more.
func (s *session) checkpointIntervals(ctx context.Context, name string) error {
	obj, err := s.client.Get(ctx, api.KindTrainingTask, s.project(api.KindTrainingTask), name)
	if err != nil {
		return err
	}
	d := &sheetWriter{w: s.out, s: s}
	if t, ok := obj.(*api.TrainingTask); ok && len(t.Status.Intervals) > 0 {
		putLine(s.out, "")
		s.describeIntervals(d, t.Status.Intervals)
	}
	d.flush()
	return nil
}

var intervalTitles = map[string]api.Text{
	api.MemoryTier: api.T("Saves in memory", "内存保存"), "local": api.T("Saves on disk", "磁盘保存"), "shared": api.T("Saves in the store", "共享存储保存"),
}

// describeIntervals says how often a task saves, and why.
func (s *session) describeIntervals(d *sheetWriter, list []api.SaveInterval) {
	for i := range list {
		title := intervalTitles[list[i].Tier]
		d.add(title.EN, title.ZH, list[i].Why.In(s.lang))
	}
}

const (
	verifyLook  = 500 * time.Millisecond // between looks whether all is verified
	verifyAgain = 20                     // looks, after which it is asked for again: the server may be another one
)

// verify waits until the server has read back the checkpoint of a step, or all with 0.
func (s *session) verify(ctx context.Context, name string, step int64) error {
	project := s.project(api.KindTrainingTask)
	begun, err := s.client.Verify(ctx, project, name, step)
	if err != nil {
		return err
	}
	before := map[string]time.Time{}
	for i := range begun {
		before[begun[i].Name] = looked(&begun[i])
	}
	s.say("%d [checkpoint is|checkpoints are] being verified.", "正在校验 %d 个检查点。", len(before))
	for n := 1; ; n++ {
		list, err := s.client.Checkpoints(ctx, project, name)
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
			if _, err := s.client.Verify(ctx, project, name, step); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fault.From(ctx.Err())
		case <-s.clock.After(verifyLook):
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
func (s *session) damaged(list []api.Checkpoint, step int64) error {
	var found []string
	for i := range list {
		for _, t := range list[i].Tiers {
			if t.Damage != nil && (step == 0 || list[i].Step == step) {
				s.say("Step %d: %s", "第 %d 步：%s", list[i].Step, clean(t.Damage.Message.In(s.lang)))
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
func (s *session) verified(c *api.Checkpoint) string {
	var at time.Time
	for _, t := range c.Tiers {
		switch {
		case t.Damage != nil:
			return s.t("damaged", "已损坏")
		case t.Verifying:
			return s.t("verifying", "校验中")
		case t.VerifiedAt != nil && t.VerifiedAt.After(at):
			at = *t.VerifiedAt
		}
	}
	return s.ago(at)
}

// checkpointRow shows the bytes that were new where most had to be written, and the first commit.
func (s *session) checkpointRow(c *api.Checkpoint) []cell {
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
	return []cell{
		text(strconv.FormatInt(c.Step, 10)), text(strconv.Itoa(c.Ranks)), text(size(int64(c.Size))), text(size(int64(fresh))),
		text(strings.Join(tiers, ",")), text(s.ago(first)), text(s.verified(c)),
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
