// Package array has `fermi array`: what becomes of the tasks that `fermi train run --array` makes, and how they are stopped together.
//
// Place: layer 5, on cli. Promise: indexes are shown as people write them. Enemies: ten thousand lines where one says it all.
package array

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/array"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/cli/online"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Add puts `fermi array` under root.
func Add(root *cobra.Command) {
	c := &cobra.Command{
		Use: "array", Aliases: []string{"arrays"}, Short: cli.Both("Task arrays: one task for each of many indexes", "任务阵列：同一任务按多个序号运行"), GroupID: cli.GroupWork,
		Example: "  fermi train run --array 1-100%10 -- python train.py\n  fermi array show train-7x2k9", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(list(), show(), wait(), limit(), stop(), remove())
	root.AddCommand(c)
}

// with asks as the command's flags say.
func with(do func(ctx context.Context, w *online.Where, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		w, err := online.Dial(cmd)
		if err != nil {
			return err
		}
		return do(cmd.Context(), &w, args)
	}
}

func get(ctx context.Context, w *online.Where, name string) (*array.TaskArray, error) {
	return client.Get[*array.TaskArray](ctx, w.Client, w.Project, name)
}

func list() *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: cli.Both("List arrays", "列出任务阵列"), Args: cobra.NoArgs,
		RunE: with(func(ctx context.Context, w *online.Where, _ []string) error {
			all := []*array.TaskArray{}
			err := w.Walk(ctx, array.Kind, client.ListOptions{Project: w.Project, Limit: 500}, func(o api.Object) bool {
				all = append(all, o.(*array.TaskArray))
				return true
			})
			if err != nil {
				return err
			}
			if w.Structured() {
				return w.Answer(map[string]any{"items": all})
			}
			heads := []fault.Text{fault.T("NAME", "名称"), fault.T("INDEXES", "序号"), fault.T("AT ONCE", "并发上限"), fault.T("STATE", "状态"), fault.T("HELD", "未开始"), fault.T("PENDING", "排队"), fault.T("RUNNING", "运行"), fault.T("COMPLETED", "完成"), fault.T("FAILED", "失败"), fault.T("STOPPED", "停止")}
			var words []string
			for _, h := range heads {
				words = append(words, h.In(w.Lang))
			}
			var rows [][]string
			for _, a := range all {
				n, row := &a.Status.Count, []string{a.Meta.Name, short(a.Spec.Indexes), "-", string(a.Status.Phase)}
				if a.Spec.AtOnce > 0 {
					row[2] = strconv.Itoa(a.Spec.AtOnce)
				}
				for _, k := range []int{n.Held, n.Pending, n.Running, n.Completed, n.Failed, n.Stopped} {
					row = append(row, strconv.Itoa(k))
				}
				rows = append(rows, row)
			}
			return cli.Table(w.Cmd.OutOrStdout(), words, rows)
		}),
	}
}

func short(text string) string {
	if len(text) > 40 {
		return text[:39] + "…"
	}
	return text
}

func show() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Aliases: []string{"get"}, Short: cli.Both("Show how far an array is, and which indexes failed", "查看任务阵列的进度与失败的序号"), Args: cobra.ExactArgs(1),
		RunE: with(func(ctx context.Context, w *online.Where, args []string) error {
			a, err := get(ctx, w, args[0])
			if err != nil {
				return err
			}
			if w.Structured() {
				return w.Answer(a)
			}
			tell(w, a)
			return nil
		}),
	}
}

func tell(w *online.Where, a *array.TaskArray) {
	out := w.Cmd.OutOrStdout()
	line := func(en, zh, value string) {
		if value != "" {
			fmt.Fprintf(out, "%s: %s\n", fault.Text{EN: en, ZH: zh}.In(w.Lang), value)
		}
	}
	line("Name", "名称", a.Meta.Name)
	line("Indexes", "序号", a.Spec.Indexes)
	if a.Spec.AtOnce > 0 {
		line("At once", "并发上限", strconv.Itoa(a.Spec.AtOnce))
	}
	line("State", "状态", string(a.Status.Phase))
	line("Why", "说明", a.Status.Message.In(w.Lang))
	line("Completed", "已完成", a.Status.Ended.Completed)
	line("Failed", "失败", a.Status.Ended.Failed)
	line("Stopped", "已停止", a.Status.Ended.Stopped)
	line("Its tasks", "其任务", "fermi train list --label "+array.Label+"="+a.Meta.Name)
}

const lookEvery = 500 * time.Millisecond

func wait() *cobra.Command {
	return &cobra.Command{
		Use: "wait NAME", Short: cli.Both("Wait for the end of an array; the exit code is 0 when all of it completed", "等待任务阵列结束；全部完成时退出码为 0"), Args: cobra.ExactArgs(1),
		RunE: with(func(ctx context.Context, w *online.Where, args []string) error {
			var last *array.TaskArray
			told := ""
			err := online.Until(ctx, lookEvery, func() (*array.TaskArray, error) { return get(ctx, w, args[0]) }, func(a *array.TaskArray) (bool, error) {
				last = a
				if said := a.Status.Message.In(w.Lang); said != told {
					w.Say("%s: %s", "%s：%s", a.Meta.Name, said)
					told = said
				}
				return a.Status.Phase.Finished(), nil
			})
			if err == nil && last.Status.Phase != api.PhaseCompleted {
				err = fault.New(fault.Conflict, last.Status.Reason, last.Status.Message)
			}
			return err
		}),
	}
}

func limit() *cobra.Command {
	return &cobra.Command{
		Use: "limit NAME N", Short: cli.Both("Change how many tasks of an array run at once; 0: no limit of its own", "修改任务阵列的并发上限；0 表示不单独限制"), Args: cobra.ExactArgs(2), Example: "  fermi array limit train-7x2k9 20",
		RunE: with(func(ctx context.Context, w *online.Where, args []string) error {
			n, err := strconv.Atoi(args[1])
			if err != nil {
				return fault.New(fault.Invalid, "Usage", fault.T("%q is no number.", "%q 不是数字。", args[1]))
			}
			a, err := get(ctx, w, args[0])
			if err != nil {
				return err
			}
			a.Spec.AtOnce = n
			if _, err := client.Update(ctx, w.Client, a); err != nil {
				return err
			}
			fmt.Fprintln(w.Cmd.OutOrStdout(), "array/"+a.Meta.Name+" "+fault.T("changed", "已修改").In(w.Lang))
			return nil
		}),
	}
}

func stop() *cobra.Command {
	return &cobra.Command{
		Use: "stop NAME...", Short: cli.Both("End all tasks of an array, and begin no more", "停止任务阵列的全部任务，不再开始新的"), Args: cobra.MinimumNArgs(1),
		RunE: with(func(ctx context.Context, w *online.Where, args []string) error {
			for _, name := range args {
				if err := client.Verb(ctx, w.Client, array.Kind, w.Project, name, "stop", nil); err != nil {
					return err
				}
				fmt.Fprintln(w.Cmd.OutOrStdout(), "array/"+name+" "+fault.T("is stopping", "正在停止").In(w.Lang))
			}
			return nil
		}),
	}
}

func remove() *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME...", Short: cli.Both("End all tasks of an array and remove it; what its tasks left stays", "停止全部任务并删除任务阵列，保留各任务的产出"), Args: cobra.MinimumNArgs(1),
		RunE: with(func(ctx context.Context, w *online.Where, args []string) error {
			for _, name := range args {
				if err := w.Delete(ctx, array.Kind, w.Project, name); err != nil {
					return err
				}
				fmt.Fprintln(w.Cmd.OutOrStdout(), "array/"+name+" "+fault.T("is being deleted", "正在删除").In(w.Lang))
			}
			return nil
		}),
	}
}
