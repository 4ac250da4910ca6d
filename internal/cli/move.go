package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func (a *app) trainMoveCommand() *cobra.Command {
	var wish client.MoveWish
	cmd := &cobra.Command{
		Use: "move NAME", Short: Both("Move a running task; it stops only once its new place is reserved", "迁移运行中的任务；新位置预留成功后才会停止"),
		Args: needArgs(1, 1, "NAME"), Example: "  fermi train move gpt-7x2k9 --zone shanghai-1 --preview\n  fermi train move gpt-7x2k9 --node shanghai-1-n03,shanghai-1-n04",
	}
	cmd.Flags().StringVar(&wish.Zone, "zone", "", Both("zone to move to", "目标可用区"))
	cmd.Flags().StringSliceVar(&wish.Nodes, "node", nil, Both("only onto these nodes; may be repeated", "仅限这些节点；可重复"))
	cmd.Flags().StringSliceVar(&wish.Away, "away", nil, Both("not onto these nodes, as that of a slow rank; may be repeated", "避开这些节点，如较慢 rank 所在节点；可重复"))
	cmd.Flags().BoolVar(&wish.Preview, "preview", false, Both("only show what it would mean", "仅显示迁移的影响"))
	cmd.RunE = a.online(func(ctx context.Context, s *session, args []string) error {
		if wish.Zone == "" && len(wish.Nodes)+len(wish.Away) == 0 {
			return usage(cmd, fault.T("Name where to: --zone ZONE or --node NODE, or what to leave: --away NODE.", "请指定目标：--zone ZONE 或 --node NODE；或要离开的节点：--away NODE。"))
		}
		m, err := s.client.Move(ctx, s.project(api.KindTrainingTask), args[0], wish)
		if err != nil {
			return err
		}
		if s.structured() {
			return s.data(m)
		}
		return s.moveLines(args[0], m)
	})
	return cmd
}

// moveLines says what a move means, or that it was begun.
func (s *session) moveLines(name string, m api.Move) error {
	switch {
	case m.Moving:
		putLine(s.out, s.t("task/%s moves to %s; its place there is reserved.", "task/%s 正在迁移到 %s；目标位置已预留。", name, clean(nodesText(m.To))))
	case m.Fits:
		putLine(s.out, s.t("It could move now.", "现在可以迁移。"))
	default:
		putLine(s.out, clean(s.t("It could not move: ", "无法迁移：")+m.Message.In(s.lang)+" ["+m.Reason+"]"))
	}
	if !m.Moving {
		list := []api.PlacementOption{m.From}
		if m.To != nil {
			list = append(list, *m.To)
		}
		if err := s.options(list); err != nil {
			return err
		}
	}
	l := m.Lost
	putLine(s.out, s.t("It loses at most %s: %ds since its last checkpoint or start, %ds to restart, %d [device|devices]; it has %s to save.",
		"最多损失 %s：距上次检查点或启动 %d 秒，重启 %d 秒，%d 张卡；有 %s 用于保存。",
		s.deviceTime(l.DeviceSeconds), l.SinceSeconds, l.RestartSeconds, l.Devices, l.Grace))
	if m.Bytes != nil {
		putLine(s.out, s.t("Of its data %s must be brought there.", "需将 %s 数据搬运到目标可用区。", *m.Bytes))
	}
	return nil
}

// nodesText names a place: its zones, and how many nodes.
func nodesText(o *api.PlacementOption) string {
	parts := make([]string, len(o.Zones))
	for i, z := range o.Zones {
		parts[i] = fmt.Sprintf("%s (%d × node)", z.Zone, z.Nodes)
	}
	return strings.Join(parts, ", ")
}

// deviceTime is an amount of device time for people.
func (s *session) deviceTime(seconds int64) string {
	switch x := float64(seconds); {
	case seconds >= 7200:
		return s.t("%.1f device-hours", "%.1f 卡时", x/3600)
	case seconds >= 120:
		return s.t("%.0f device-minutes", "%.0f 卡分", x/60)
	}
	return s.t("%d device-seconds", "%d 卡秒", seconds)
}

// moveHints are the moves that would let a waiting task start.
func (s *session) moveHints(moves []api.TaskMove) []string {
	var lines []string
	for i, m := range moves {
		who, how := m.Name, ""
		if who == "" {
			who = s.t("a task of another project", "其他项目的一个任务")
		} else {
			how = ": fermi train move " + m.Name + " --node " + strings.Join(m.To, ",")
			if m.Project != first(s.project(api.KindTrainingTask), api.DefaultProject) {
				how += " --project " + m.Project
			}
		}
		text := s.t("moving %s (loses %s) would admit it", "迁移 %s（损失 %s）即可启动", who, s.deviceTime(m.DeviceSeconds))
		if i < len(moves)-1 {
			text = s.t("moving %s (loses %s), and", "迁移 %s（损失 %s），并且", who, s.deviceTime(m.DeviceSeconds))
		}
		lines = append(lines, "  "+clean(text+how))
	}
	return lines
}
