package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
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
			if s.flags.output == "name" {
				putLine(s.out, clean(list[i].Name))
			}
			if rows[i] = s.checkpointRow(&list[i]); scored {
				rows[i] = append(rows[i], text(metricsLine(list[i].Metrics)))
			}
		}
		if s.flags.output == "name" {
			return nil
		}
		return writeTable(s.out, columns, rows, s.lang, screenOf(s.out))
	})
	return cmd
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
