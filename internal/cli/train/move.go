package train

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/object"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func trainMoveCommand(a *call.Shell) *cobra.Command {
	var wish client.MoveWish
	cmd := &cobra.Command{
		Use: "move NAME", Short: speech.Both("Move a running task; it stops only once its new place is reserved", "迁移运行中的任务；新位置预留成功后才会停止"),
		Args: usage.Need(1, 1, "NAME"), Example: "  fermi train move gpt-7x2k9 --zone shanghai-1 --preview\n  fermi train move gpt-7x2k9 --node shanghai-1-n03,shanghai-1-n04",
	}
	cmd.Flags().StringVar(&wish.Zone, "zone", "", speech.Both("zone to move to", "目标可用区"))
	cmd.Flags().StringSliceVar(&wish.Nodes, "node", nil, speech.Both("only onto these nodes; may be repeated", "仅限这些节点；可重复"))
	cmd.Flags().StringSliceVar(&wish.Away, "away", nil, speech.Both("not onto these nodes, as that of a slow rank; may be repeated", "避开这些节点，如较慢 rank 所在节点；可重复"))
	cmd.Flags().BoolVar(&wish.Preview, "preview", false, speech.Both("only show what it would mean", "仅显示迁移的影响"))
	cmd.RunE = a.Online(func(ctx context.Context, s *call.Session, args []string) error {
		if wish.Zone == "" && len(wish.Nodes)+len(wish.Away) == 0 {
			return usage.Wrong(cmd, fault.T("Name where to: --zone ZONE or --node NODE, or what to leave: --away NODE.", "请指定目标：--zone ZONE 或 --node NODE；或要离开的节点：--away NODE。"))
		}
		m, err := s.Client.Move(ctx, s.Project(api.KindTrainingTask), args[0], wish)
		if err != nil {
			return err
		}
		if s.Structured() {
			return s.Data(m)
		}
		return moveLines(s, args[0], m)
	})
	return cmd
}

// moveLines says what a move means, or that it was begun.
func moveLines(s *call.Session, name string, m api.Move) error {
	switch {
	case m.Moving:
		show.Line(s.Out, s.T("task/%s moves to %s; its place there is reserved.", "task/%s 正在迁移到 %s；目标位置已预留。", name, show.Clean(nodesText(m.To))))
	case m.Fits:
		show.Line(s.Out, s.T("It could move now.", "现在可以迁移。"))
	default:
		show.Line(s.Out, show.Clean(s.T("It could not move: ", "无法迁移：")+m.Message.In(s.Lang)+" ["+m.Reason+"]"))
	}
	if !m.Moving {
		list := []api.PlacementOption{m.From}
		if m.To != nil {
			list = append(list, *m.To)
		}
		if err := options(s, list); err != nil {
			return err
		}
	}
	l := m.Lost
	show.Line(s.Out, s.T("It loses at most %s: %ds since its last checkpoint or start, %ds to restart, %d [device|devices]; it has %s to save.",
		"最多损失 %s：距上次检查点或启动 %d 秒，重启 %d 秒，%d 张卡；有 %s 用于保存。",
		object.DeviceTime(s, l.DeviceSeconds), l.SinceSeconds, l.RestartSeconds, l.Devices, l.Grace))
	if m.Bytes != nil {
		show.Line(s.Out, s.T("Of its data %s must be brought there.", "需将 %s 数据搬运到目标可用区。", *m.Bytes))
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
