package cluster

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/card"
	"github.com/fermi-cluster/fermi/internal/cli/farewell"
	"github.com/fermi-cluster/fermi/internal/cli/host"
	"github.com/fermi-cluster/fermi/internal/cli/object"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func NodeCommand(a *call.Shell) *cobra.Command {
	cmd := usage.Group("node", speech.Both("Machines", "节点"),
		object.ListCommand(a, api.KindNode, "list", speech.Both("List nodes", "列出节点")),
		nodeVerb(a, "cordon", speech.Both("Keep new work away from nodes or devices", "停止向节点或单卡调度新任务"), fault.T("cordoned", "已隔离")),
		nodeVerb(a, "uncordon", speech.Both("Let new work onto nodes or devices again", "恢复向节点或单卡调度新任务"), fault.T("uncordoned", "已恢复调度")),
		drainCommand(a), farewell.Lost(a, leaving))
	cmd.AddCommand(append(card.Commands(a, place, object.Describe), host.Commands(a)...)...)
	return cmd
}

func place(cmd *cobra.Command, text string) (node string, device int, err error) {
	node, number, one := strings.Cut(text, "/")
	if !one {
		return node, -1, nil
	}
	device, err = strconv.Atoi(number)
	if err != nil || device < 0 {
		return "", 0, usage.Wrong(cmd, fault.T("%q is neither NODE nor NODE/DEVICE; devices are numbered from 0.", "%q 不是 NODE 或 NODE/DEVICE；卡编号从 0 开始。", text))
	}
	return node, device, nil
}

func nodeVerb(a *call.Shell, verb, short string, done fault.Text) *cobra.Command {
	cmd := &cobra.Command{Use: verb + " NODE[/DEVICE]...", Short: short, Args: usage.Need(1, -1, "NODE[/DEVICE]...")}
	cmd.RunE = a.Online(func(ctx context.Context, s *call.Session, args []string) error {
		for _, arg := range args {
			node, device, err := place(cmd, arg)
			if err != nil {
				return err
			}
			if _, err := s.Client.NodeVerb(ctx, verb, node, device); err != nil {
				return err
			}
			show.Line(s.Out, "node/"+arg+" "+done.In(s.Lang))
		}
		return nil
	})
	return cmd
}

func drainCommand(a *call.Shell) *cobra.Command {
	var timeout time.Duration
	var preview bool
	cmd := &cobra.Command{
		Use: "drain NODE[/DEVICE]...", Short: speech.Both("Keep new work away and make what runs there leave, and wait for it", "停止调度并迁出其上的任务，等待完成"),
		Args: usage.Need(1, -1, "NODE[/DEVICE]..."), Example: "  fermi node drain bj1-n03 --preview\n  fermi node drain bj1-n03/5 --timeout 10m",
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 0, speech.Both("how long to wait; for ever when 0; what was begun goes on", "等待多久；0 为一直等待；超时后排空仍继续"))
	cmd.Flags().BoolVar(&preview, "preview", false, speech.Both("only show what would move, where to, and what would wait", "仅显示哪些任务会迁移、迁往何处、哪些需等待"))
	cmd.RunE = a.Online(func(ctx context.Context, s *call.Session, args []string) error {
		if preview {
			return previewDrain(ctx, s, args)
		}
		if timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, timeout)
			defer cancel()
		}
		for _, arg := range args {
			node, device, err := place(cmd, arg)
			if err != nil {
				return err
			}
			n, err := s.Client.NodeVerb(ctx, "drain", node, device)
			if err != nil {
				return err
			}
			if err := waitEmpty(ctx, s, n, arg, device); err != nil {
				return err
			}
			show.Line(s.Out, "node/"+arg+" "+s.T("is empty", "已排空"))
		}
		return nil
	})
	return cmd
}

// previewDrain shows what a drain would mean; nothing changes.
func previewDrain(ctx context.Context, s *call.Session, args []string) error {
	var all []api.Outage
	for _, arg := range args {
		node, device, err := place(s.Cmd, arg)
		if err != nil {
			return err
		}
		out, err := s.Client.PreviewDrain(ctx, node, device)
		if err != nil {
			return err
		}
		if s.Structured() {
			all = append(all, out)
			continue
		}
		if len(out.Items) == 0 {
			show.Line(s.Out, s.T("Nothing stands on %s.", "%s 上没有任务。", arg))
			continue
		}
		show.Line(s.Out, s.T("If %s were drained, %d [task|tasks] would move and %d would wait, first in line.", "若排空 %s，%d 个任务会迁移，%d 个需等待（优先恢复）。", arg, out.Move, out.Wait))
		if err := show.Write(s.Out, drainColumns, outageRows(s, out.Items), s.Lang, show.ScreenOf(s.Out)); err != nil {
			return err
		}
	}
	if s.Structured() {
		return s.Data(map[string]any{"items": all})
	}
	return nil
}

var drainColumns = []show.Column{
	show.Fixed("TASK", "任务"), show.Number("REPLICAS", "副本"), show.Number("HERE", "位于此处"), show.Col("GOES TO, OR WHY IT WAITS", "去向或等待原因"),
}

// waitEmpty tells who is left until nobody is.
func waitEmpty(ctx context.Context, s *call.Session, n *api.Node, name string, device int) error {
	last := ""
	for {
		left, err := standing(ctx, s, n, device)
		if err != nil && !fault.CodeOf(err).Retry() {
			return err
		}
		if err == nil && len(left) == 0 {
			return nil
		}
		if now := strings.Join(left, ", "); err == nil && now != last {
			last = now
			s.Say("%s: %d [task is|tasks are] leaving: %s", "%s：%d 个任务正在迁出：%s", name, len(left), show.Cut(show.Clean(now), 200))
		}
		select {
		case <-ctx.Done():
			return fault.From(ctx.Err())
		case <-s.Clock.After(500 * time.Millisecond):
		}
	}
}

// goesTo says what becomes of a task that leaves.
func goesTo(s *call.Session, e *api.Eviction) string {
	switch {
	case e == nil:
		return ""
	case len(e.To) > 0:
		return s.T(" (moves)", "（迁移）")
	}
	return s.T(" (will wait)", "（将等待）")
}

// standing names the tasks on a node, or on one of its devices.
func standing(ctx context.Context, s *call.Session, n *api.Node, device int) ([]string, error) {
	var out []string
	err := s.Client.Walk(ctx, api.KindPlacement, client.ListOptions{Limit: 500}, func(o api.Object) bool {
		p := o.(*api.Placement)
		for _, r := range p.Spec.Roles {
			for _, slot := range r.Slots {
				if slot.Node == n.Spec.Number && (device < 0 || slot.Devices&(1<<device) != 0) {
					out = append(out, p.OwnerName()+goesTo(s, p.Spec.Evict))
					return true
				}
			}
		}
		return true
	})
	return out, err
}
