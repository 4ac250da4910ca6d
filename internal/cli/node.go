package cli

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/card"
	"github.com/fermi-cluster/fermi/internal/cli/farewell"
	"github.com/fermi-cluster/fermi/internal/cli/host"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func (a *app) nodeCommand() *cobra.Command {
	online := func(run card.Run) func(*cobra.Command, []string) error {
		return a.online(func(ctx context.Context, s *session, args []string) error {
			call := card.Session{Client: s.client, Out: s.out, Lang: s.lang, Clock: s.clock, Describe: s.describe}
			if s.structured() {
				call.Data = func(v any) error { return s.data(v) }
			}
			return run(ctx, call, s.cmd, args)
		})
	}
	cmd := group("node", Both("Machines", "节点"),
		a.listCommand(api.KindNode, "list", Both("List nodes", "列出节点")),
		a.nodeVerb("cordon", Both("Keep new work away from nodes or devices", "停止向节点或单卡调度新任务"), fault.T("cordoned", "已隔离")),
		a.nodeVerb("uncordon", Both("Let new work onto nodes or devices again", "恢复向节点或单卡调度新任务"), fault.T("uncordoned", "已恢复调度")),
		a.drainCommand(), farewell.Lost(a.farewells()))
	cmd.AddCommand(append(card.Commands(online, Both, needArgs, place), host.Commands(host.Shell{Online: online, Both: Both, Need: needArgs})...)...)
	return cmd
}

func place(cmd *cobra.Command, text string) (node string, device int, err error) {
	node, number, one := strings.Cut(text, "/")
	if !one {
		return node, -1, nil
	}
	device, err = strconv.Atoi(number)
	if err != nil || device < 0 {
		return "", 0, usage(cmd, fault.T("%q is neither NODE nor NODE/DEVICE; devices are numbered from 0.", "%q 不是 NODE 或 NODE/DEVICE；卡编号从 0 开始。", text))
	}
	return node, device, nil
}

func (a *app) nodeVerb(verb, short string, done fault.Text) *cobra.Command {
	cmd := &cobra.Command{Use: verb + " NODE[/DEVICE]...", Short: short, Args: needArgs(1, -1, "NODE[/DEVICE]...")}
	cmd.RunE = a.online(func(ctx context.Context, s *session, args []string) error {
		for _, arg := range args {
			node, device, err := place(cmd, arg)
			if err != nil {
				return err
			}
			if _, err := s.client.NodeVerb(ctx, verb, node, device); err != nil {
				return err
			}
			putLine(s.out, "node/"+arg+" "+done.In(s.lang))
		}
		return nil
	})
	return cmd
}

func (a *app) drainCommand() *cobra.Command {
	var timeout time.Duration
	var preview bool
	cmd := &cobra.Command{
		Use: "drain NODE[/DEVICE]...", Short: Both("Keep new work away and make what runs there leave, and wait for it", "停止调度并迁出其上的任务，等待完成"),
		Args: needArgs(1, -1, "NODE[/DEVICE]..."), Example: "  fermi node drain bj1-n03 --preview\n  fermi node drain bj1-n03/5 --timeout 10m",
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 0, Both("how long to wait; for ever when 0; what was begun goes on", "等待多久；0 为一直等待；超时后排空仍继续"))
	cmd.Flags().BoolVar(&preview, "preview", false, Both("only show what would move, where to, and what would wait", "仅显示哪些任务会迁移、迁往何处、哪些需等待"))
	cmd.RunE = a.online(func(ctx context.Context, s *session, args []string) error {
		if preview {
			return s.previewDrain(ctx, args)
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
			n, err := s.client.NodeVerb(ctx, "drain", node, device)
			if err != nil {
				return err
			}
			if err := s.waitEmpty(ctx, n, arg, device); err != nil {
				return err
			}
			putLine(s.out, "node/"+arg+" "+s.t("is empty", "已排空"))
		}
		return nil
	})
	return cmd
}

// previewDrain shows what a drain would mean; nothing changes.
func (s *session) previewDrain(ctx context.Context, args []string) error {
	var all []api.Outage
	for _, arg := range args {
		node, device, err := place(s.cmd, arg)
		if err != nil {
			return err
		}
		out, err := s.client.PreviewDrain(ctx, node, device)
		if err != nil {
			return err
		}
		if s.structured() {
			all = append(all, out)
			continue
		}
		if len(out.Items) == 0 {
			putLine(s.out, s.t("Nothing stands on %s.", "%s 上没有任务。", arg))
			continue
		}
		putLine(s.out, s.t("If %s were drained, %d [task|tasks] would move and %d would wait, first in line.", "若排空 %s，%d 个任务会迁移，%d 个需等待（优先恢复）。", arg, out.Move, out.Wait))
		if err := writeTable(s.out, drainColumns, s.outageRows(out.Items), s.lang, screenOf(s.out)); err != nil {
			return err
		}
	}
	if s.structured() {
		return s.data(map[string]any{"items": all})
	}
	return nil
}

var drainColumns = []column{
	fixed("TASK", "任务"), number("REPLICAS", "副本"), number("HERE", "位于此处"), col("GOES TO, OR WHY IT WAITS", "去向或等待原因"),
}

// waitEmpty tells who is left until nobody is.
func (s *session) waitEmpty(ctx context.Context, n *api.Node, name string, device int) error {
	last := ""
	for {
		left, err := s.standing(ctx, n, device)
		if err != nil && !fault.CodeOf(err).Retry() {
			return err
		}
		if err == nil && len(left) == 0 {
			return nil
		}
		if now := strings.Join(left, ", "); err == nil && now != last {
			last = now
			s.say("%s: %d [task is|tasks are] leaving: %s", "%s：%d 个任务正在迁出：%s", name, len(left), cut(clean(now), 200))
		}
		select {
		case <-ctx.Done():
			return fault.From(ctx.Err())
		case <-s.clock.After(500 * time.Millisecond):
		}
	}
}

// goesTo says what becomes of a task that leaves.
func (s *session) goesTo(e *api.Eviction) string {
	switch {
	case e == nil:
		return ""
	case len(e.To) > 0:
		return s.t(" (moves)", "（迁移）")
	}
	return s.t(" (will wait)", "（将等待）")
}

// standing names the tasks on a node, or on one of its devices.
func (s *session) standing(ctx context.Context, n *api.Node, device int) ([]string, error) {
	var out []string
	err := s.client.Walk(ctx, api.KindPlacement, client.ListOptions{Limit: 500}, func(o api.Object) bool {
		p := o.(*api.Placement)
		for _, r := range p.Spec.Roles {
			for _, slot := range r.Slots {
				if slot.Node == n.Spec.Number && (device < 0 || slot.Devices&(1<<device) != 0) {
					out = append(out, p.OwnerName()+s.goesTo(p.Spec.Evict))
					return true
				}
			}
		}
		return true
	})
	return out, err
}
