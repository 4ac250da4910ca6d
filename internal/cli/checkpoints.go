package cli

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
)

var checkpointColumns = []column{number("STEP", "步数"), number("RANKS", "进程数"), number("SIZE", "大小"), number("NEW", "新写入"), col("TIERS", "层级"), fixed("COMMITTED", "提交时间")}

func (a *app) trainCheckpointsCommand() *cobra.Command {
	var pin, unpin int64
	cmd := &cobra.Command{
		Use: "checkpoints NAME", Short: Both("List the checkpoints of a task, or pin one", "列出任务的检查点，或固定其中一个"), Args: needArgs(1, 1, "NAME"),
		Example: "  fermi train checkpoints gpt-7x2k9\n  fermi train checkpoints gpt-7x2k9 --pin 4000",
	}
	cmd.Flags().Int64Var(&pin, "pin", 0, Both("keep the one of this step, whatever the policy says; a * marks it", "固定该步的检查点，保留规则不再删除它；以 * 标记"))
	cmd.Flags().Int64Var(&unpin, "unpin", 0, Both("let the policy decide about the one of this step again", "取消固定该步的检查点"))
	cmd.MarkFlagsMutuallyExclusive("pin", "unpin")
	cmd.RunE = a.online(func(ctx context.Context, s *session, args []string) error {
		if cmd.Flags().Changed("pin") || cmd.Flags().Changed("unpin") {
			if err := s.client.Pin(ctx, s.project(api.KindTrainingTask), args[0], pin+unpin, cmd.Flags().Changed("pin")); err != nil {
				return err
			}
		}
		list, err := s.client.Checkpoints(ctx, s.project(api.KindTrainingTask), args[0])
		if err != nil {
			return err
		}
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
		return s.checkpointIntervals(ctx, args[0])
	})
	return cmd
}

func (s *session) checkpointTable(list []api.Checkpoint) error {
	if len(list) == 0 {
		s.say("The task has no checkpoints.", "任务没有检查点。")
		return nil
	}
	rows := make([][]cell, len(list))
	for i := range list {
		rows[i] = s.checkpointRow(&list[i])
	}
	return writeTable(s.out, checkpointColumns, rows, s.lang, screenOf(s.out))
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
		text(strings.Join(tiers, ",")), text(s.ago(first)),
	}
}
