package cli

import (
	"bufio"
	"context"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// farewell gives up nodes and zones, after it was asked for twice or with --yes.
type farewell struct{ yes, preview bool }

func (f *farewell) add(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, Both("don't ask", "不再询问"))
}

// sure asks who sits at the terminal; a fault says how to go on where nobody does.
func (f *farewell) sure(s *session, question fault.Text) (bool, error) {
	if f.yes {
		return true, nil
	}
	if file, ok := s.in.(*os.File); ok && !term.IsTerminal(int(file.Fd())) {
		return false, fault.New(fault.Invalid, "NotConfirmed", fault.T("Nothing was changed: nobody is there to confirm it.", "未做任何更改：没有人可以确认。")).
			WithHint(fault.T("Say --yes.", "请加 --yes。"))
	}
	io.WriteString(s.err, clean(question.In(s.lang))+" [y/N]: ")
	line, _ := bufio.NewReader(io.LimitReader(s.in, 64)).ReadString('\n')
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes" || answer == "是", nil
}

// lost is the command that says that machines are gone.
func (f *farewell) lost(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "lost NODE...", Short: Both("Say that machines are gone: what ran there is given up at once", "确认机器已丢失：立即放弃其上的任务"),
		Args: needArgs(1, -1, "NODE..."), Example: "  fermi node lost bj1-n03\n  fermi node uncordon bj1-n03   # when it is back",
	}
	f.add(cmd)
	cmd.RunE = a.online(func(ctx context.Context, s *session, args []string) error {
		for _, name := range args {
			out, err := s.client.PreviewDrain(ctx, name, -1)
			if err != nil {
				return err
			}
			if len(out.Items) > 0 {
				if err := writeTable(s.out, drainColumns, s.outageRows(out.Items), s.lang, screenOf(s.out)); err != nil {
					return err
				}
			}
			ok, err := f.sure(s, fault.T(
				"Everything that ran on %[1]s (%[2]d [task|tasks]) is given up at once, without a save; its devices count as free of them, and it takes no work until: fermi node uncordon %[1]s. Only say so if the machine is off, or restarted. Go on?",
				"将立即放弃 %[1]s 上运行的一切（%[2]d 个任务），不再保存；其加速卡视为已空，在执行 fermi node uncordon %[1]s 之前不接收任务。仅在机器已关机或已重启时确认。继续？", name, len(out.Items)))
			if err != nil || !ok {
				return err
			}
			if _, err := s.client.NodeVerb(ctx, "lost", name, -1); err != nil {
				return err
			}
			putLine(s.out, "node/"+name+" "+s.t("is lost", "已确认丢失"))
		}
		return nil
	})
	return cmd
}

// takeOut makes the outage true that was shown.
func (f *farewell) takeOut(ctx context.Context, s *session, zone string, tasks int) error {
	if f.preview {
		return nil
	}
	ok, err := f.sure(s, fault.T(
		"%[1]s takes no work from now on, and its %[2]d [task leaves|tasks leave]: they save, then go on where there is room, or wait first in line. Undo: fermi zone recover %[1]s. Go on?",
		"%[1]s 从现在起不接收任务，其上 %[2]d 个任务将保存后迁出：有空位的在别处继续，其余优先等待。撤销：fermi zone recover %[1]s。继续？", zone, tasks))
	if err != nil || !ok {
		return err
	}
	return f.set(ctx, s, zone, true, s.t("is out", "已中断"))
}

// recover is the command that takes an outage back.
func (f *farewell) recover(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "recover ZONE", Short: Both("Let a zone that was out take work again", "恢复可用区：重新接收任务"), Args: needArgs(1, 1, "ZONE"), Example: "  fermi zone recover beijing-1",
		RunE: a.online(func(ctx context.Context, s *session, args []string) error {
			return f.set(ctx, s, args[0], false, s.t("takes work again", "已恢复接收任务"))
		}),
	}
}

// set writes the operator's word; somebody else's change in between is read again.
func (f *farewell) set(ctx context.Context, s *session, name string, out bool, done string) error {
	for try := 0; ; try++ {
		zone, err := client.Get[*api.Zone](ctx, s.client, "", name)
		if err != nil {
			return err
		}
		if zone.Spec.Outage != out {
			zone.Spec.Outage = out
			if _, err = s.client.Update(ctx, zone, false); err != nil && (try == 5 || !fault.Is(err, fault.Conflict)) {
				return err
			}
		}
		if err == nil {
			putLine(s.out, "zone/"+zone.Meta.Name+" "+done)
			return nil
		}
	}
}
