package farewell

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
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Tasks prints what becomes of tasks that leave a node, or a zone.
type Tasks func(s *call.Session, tasks []api.OutageTask, zone bool) error

// consent is the flags of what is asked for twice, or with --yes.
type consent struct{ yes, preview bool }

func (f *consent) add(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, speech.Both("don't ask", "不再询问"))
}

// sure asks who sits at the terminal; a fault says how to go on where nobody does.
func (f *consent) sure(s *call.Session, question fault.Text) (bool, error) {
	if f.yes {
		return true, nil
	}
	if file, ok := s.In.(*os.File); ok && !term.IsTerminal(int(file.Fd())) {
		return false, fault.New(fault.Invalid, "NotConfirmed", fault.T("Nothing was changed: nobody is there to confirm it.", "未做任何更改：没有人可以确认。")).
			WithHint(fault.T("Say --yes.", "请加 --yes。"))
	}
	io.WriteString(s.Err, show.Clean(question.In(s.Lang))+" [y/N]: ")
	line, _ := bufio.NewReader(io.LimitReader(s.In, 64)).ReadString('\n')
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes" || answer == "是", nil
}

// Lost is the command that says that machines are gone.
func Lost(a *call.Shell, tasks Tasks) *cobra.Command {
	f := new(consent)
	cmd := &cobra.Command{
		Use: "lost NODE...", Short: speech.Both("Say that machines are gone: what ran there is given up at once", "确认机器已丢失：立即放弃其上的任务"),
		Args: usage.Need(1, -1, "NODE..."), Example: "  fermi node lost bj1-n03\n  fermi node uncordon bj1-n03   # when it is back",
	}
	f.add(cmd)
	cmd.RunE = a.Online(func(ctx context.Context, s *call.Session, args []string) error {
		for _, name := range args {
			out, err := s.Client.PreviewDrain(ctx, name, -1)
			if err != nil {
				return err
			}
			if len(out.Items) > 0 {
				if err := tasks(s, out.Items, false); err != nil {
					return err
				}
			}
			ok, err := f.sure(s, fault.T(
				"Everything that ran on %[1]s (%[2]d [task|tasks]) is given up at once, without a save; its devices count as free of them, and it takes no work until: fermi node uncordon %[1]s. Only say so if the machine is off, or restarted. Go on?",
				"将立即放弃 %[1]s 上运行的一切（%[2]d 个任务），不再保存；其加速卡视为已空，在执行 fermi node uncordon %[1]s 之前不接收任务。仅在机器已关机或已重启时确认。继续？", name, len(out.Items)))
			if err != nil || !ok {
				return err
			}
			if _, err := s.Client.NodeVerb(ctx, "lost", name, -1); err != nil {
				return err
			}
			show.Line(s.Out, "node/"+name+" "+s.T("is lost", "已确认丢失"))
		}
		return nil
	})
	return cmd
}

// Outage is the command that takes a zone out, after it showed what becomes of the tasks there.
func Outage(a *call.Shell, tasks Tasks) *cobra.Command {
	f := new(consent)
	cmd := &cobra.Command{
		Use: "outage ZONE", Short: speech.Both("Take a zone out: it takes no work, and what stands there leaves; first show where each task would go", "将可用区标记为中断：不再接收任务，其上的任务迁出；先预览各任务的去向"),
		Args: usage.Need(1, 1, "ZONE"), Example: "  fermi zone outage beijing-1 --preview\n  fermi zone outage beijing-1 --yes\n  fermi zone recover beijing-1",
		RunE: a.Online(func(ctx context.Context, s *call.Session, args []string) error {
			out, err := s.Client.Outage(ctx, args[0])
			if err != nil {
				return err
			}
			if s.Structured() && !f.yes {
				return s.Data(out)
			}
			show.Line(s.Out, s.T("Without %s %d [task|tasks] would start elsewhere and %d would wait.", "失去 %s 后，%d 个任务可在别处启动，%d 个需等待。", show.Clean(out.Zone), out.Move, out.Wait))
			if len(out.Items) > 0 {
				err = tasks(s, out.Items, true)
			}
			if err != nil {
				return err
			}
			if out.More > 0 {
				show.Line(s.Out, s.T("and %d more that were not looked at", "另有 %d 个未逐一分析", out.More))
			}
			return f.takeOut(ctx, s, args[0], len(out.Items)+out.More)
		}),
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.preview, "preview", false, speech.Both("only show what would become of the tasks there", "仅预览其上任务的去向"))
	return cmd
}

// takeOut makes the outage true that was shown.
func (f *consent) takeOut(ctx context.Context, s *call.Session, zone string, tasks int) error {
	if f.preview {
		return nil
	}
	ok, err := f.sure(s, fault.T(
		"%[1]s takes no work from now on, and its %[2]d [task leaves|tasks leave]: they save, then go on where there is room, or wait first in line. Undo: fermi zone recover %[1]s. Go on?",
		"%[1]s 从现在起不接收任务，其上 %[2]d 个任务将保存后迁出：有空位的在别处继续，其余优先等待。撤销：fermi zone recover %[1]s。继续？", zone, tasks))
	if err != nil || !ok {
		return err
	}
	return set(ctx, s, zone, true, s.T("is out", "已中断"))
}

// Recover is the command that takes an outage back.
func Recover(a *call.Shell) *cobra.Command {
	return &cobra.Command{
		Use: "recover ZONE", Short: speech.Both("Let a zone that was out take work again", "恢复可用区：重新接收任务"), Args: usage.Need(1, 1, "ZONE"), Example: "  fermi zone recover beijing-1",
		RunE: a.Online(func(ctx context.Context, s *call.Session, args []string) error {
			return set(ctx, s, args[0], false, s.T("takes work again", "已恢复接收任务"))
		}),
	}
}

// set writes the operator's word; somebody else's change in between is read again.
func set(ctx context.Context, s *call.Session, name string, out bool, done string) error {
	for try := 0; ; try++ {
		zone, err := client.Get[*api.Zone](ctx, s.Client, "", name)
		if err != nil {
			return err
		}
		if zone.Spec.Outage != out {
			zone.Spec.Outage = out
			if _, err = s.Client.Update(ctx, zone, false); err != nil && (try == 5 || !fault.Is(err, fault.Conflict)) {
				return err
			}
		}
		if err == nil {
			show.Line(s.Out, "zone/"+zone.Meta.Name+" "+done)
			return nil
		}
	}
}
