package env

import (
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func move() *cobra.Command {
	var node, zone string
	var withoutLayer, noWait bool
	c := &cobra.Command{
		Use: "move NAME", Short: cli.Both("Move an environment and its home to another node or zone", "将环境及其主目录迁移到其他节点或可用区"), Args: cobra.ExactArgs(1),
		Long: cli.Both("Move an environment and its home to another node or zone. It is stopped, its home is saved as a snapshot, a home like it is made where it shall be, and it is started there.\n\nThe old home is deleted when the new one is whole and something ran in it. Where that fails, or is given up with fermi env stop, the old home is as it was.",
			"将环境及其主目录迁移到其他节点或可用区：先停止，将主目录保存为快照，在目标位置恢复主目录后启动。\n\n新主目录完整并已在其中启动后，才删除原主目录；失败或用 fermi env stop 取消时，原主目录保持不变。"),
		Example: "  fermi env move lab --zone sh-1\n  fermi env move lab --node gpu-07",
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			e, err := w.get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			err = client.Verb(cmd.Context(), w.Client, devenv.Kind, e.Meta.Project, e.Meta.Name, "move", nil, func(q url.Values) {
				for name, value := range map[string]string{"node": node, "zone": zone} {
					if value != "" {
						q.Set(name, value)
					}
				}
				if withoutLayer {
					q.Set("withoutLayer", "true")
				}
			})
			if err != nil || noWait {
				return err
			}
			return untilMoved(cmd, w, e.Meta.Name)
		},
	}
	c.Flags().StringVar(&node, "node", "", cli.Both("node where its home shall be", "目标节点"))
	c.Flags().StringVar(&zone, "zone", "", cli.Both("zone where its home shall be", "目标可用区"))
	c.Flags().BoolVar(&withoutLayer, "without-layer", false, cli.Both("leave behind what was installed over its image", "不迁移在镜像之上安装的内容"))
	c.Flags().BoolVar(&noWait, "no-wait", false, cli.Both("don't wait until it is there", "不等待其完成"))
	return c
}

// untilMoved waits until a move came to an end, and says meanwhile what it waits for.
func untilMoved(cmd *cobra.Command, w *where, name string) error {
	told := ""
	var last *devenv.DevEnvironment
	err := w.until(cmd.Context(), name, func(e *devenv.DevEnvironment) (bool, error) {
		last = e
		if !(devenv.Moves{Of: e}).Going() {
			return true, nil
		}
		if e.Status.Reason != told {
			w.Say("%s: %s", "%s：%s", name, e.Status.Message.In(w.Lang))
		}
		told = e.Status.Reason
		return false, nil
	})
	if err != nil {
		return err
	}
	m := last.Status.Moved
	if m == nil || m.Count != last.Status.HomeCount {
		message := fault.T("The move was given up; its home is where it was.", "迁移已取消，主目录仍在原处。")
		if m != nil && last.Spec.Move != nil && m.Count == last.Spec.Move.Count {
			message = m.Message
		}
		return fault.New(fault.Conflict, "NotMoved", message)
	}
	fmt.Fprintln(cmd.OutOrStdout(), m.Message.In(w.Lang))
	return nil
}
