package env

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Add puts `fermi env` and `fermi train shell` under root.
func Add(root *cobra.Command) {
	c := command()
	c.GroupID = cli.GroupWork
	root.AddCommand(c)
	if train, _, err := root.Find([]string{"train"}); err == nil && train != root {
		train.AddCommand(trainShell())
	}
}

func command() *cobra.Command {
	c := &cobra.Command{
		Use: "env", Aliases: []string{"environment", "environments"}, Short: cli.Both("Development environments: machines of your own, with a home that stays", "开发环境：保留主目录的个人机器"),
		Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(create(), verb("start", "Start an environment that was stopped; its home is as it was", "启动已停止的环境，主目录保持原样"),
		verb("stop", "Stop an environment; its home is kept", "停止环境，保留主目录"), remove(), list(), get(), shell())
	return c
}

// where is who is asked, and in which project and language.
type where struct {
	*client.Client
	project, lang string
	cmd           *cobra.Command
}

func dial(cmd *cobra.Command) (*where, error) {
	c, err := cli.Dial(cmd)
	if err != nil {
		return nil, err
	}
	return &where{c, cli.Project(cmd), cli.Language(cmd), cmd}, nil
}

// say tells people something, beside the data.
func (w *where) say(en, zh string, args ...any) {
	fmt.Fprintln(w.cmd.ErrOrStderr(), fault.T(en, zh, args...).In(w.lang))
}

// get reads one environment.
func (w *where) get(ctx context.Context, name string) (*devenv.DevEnvironment, error) {
	return client.Get[*devenv.DevEnvironment](ctx, w.Client, w.project, name)
}

func create() *cobra.Command {
	e := &devenv.DevEnvironment{}
	var kind, accelerator, cpu, memory, storage string
	var count, priority int
	var env []string
	var noWait bool
	c := &cobra.Command{
		Use: "create NAME [-- COMMAND…]", Short: cli.Both("Make an environment and start it", "创建并启动环境"), Args: cobra.MinimumNArgs(1),
		Example: "  fermi env create lab --type notebook --cpu 4 --memory 16Gi\n  fermi env create train --accelerators 2 --accelerator A100",
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			e.Meta.Name, e.Meta.Project, e.Spec.Type, e.Spec.Command = args[0], w.project, devenv.Type(kind), args[1:]
			r := &e.Spec.Resources
			r.Accelerators.Count, r.Accelerators.Type = count, accelerator
			if err := errors.Join(amount(cpu, &r.CPU), amount(memory, &r.Memory), amount(storage, &e.Spec.Storage)); err != nil {
				return err
			}
			if cmd.Flags().Changed("priority") {
				e.Spec.Priority = &priority
			}
			for _, kv := range env {
				name, value, ok := strings.Cut(kv, "=")
				if !ok {
					return fault.New(fault.Invalid, "BadVariable", fault.T("A variable is written NAME=VALUE, not %q.", "环境变量应写作 NAME=VALUE，而不是 %q。", kv))
				}
				e.Spec.Env = append(e.Spec.Env, api.EnvVar{Name: name, Value: value})
			}
			made, err := client.Create(cmd.Context(), w.Client, e)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), made.Meta.Name)
			if noWait {
				return nil
			}
			return w.untilRuns(cmd.Context(), made.Meta.Name)
		},
	}
	f := c.Flags()
	f.StringVar(&kind, "type", "", cli.Both("notebook, training, inference or custom", "类型：notebook、training、inference 或 custom"))
	f.StringVar(&e.Spec.Image, "image", "", cli.Both("image that it runs in; the node's own system when absent", "镜像；不填则使用节点自身的系统"))
	f.IntVar(&count, "accelerators", 0, cli.Both("accelerators, 0 to 8", "加速卡数量，0 到 8"))
	f.StringVar(&accelerator, "accelerator", "", cli.Both("their type, such as A100", "加速卡型号，如 A100"))
	f.StringVar(&cpu, "cpu", "", cli.Both("cores, as 4 or 500m", "CPU 核数，如 4 或 500m"))
	f.StringVar(&memory, "memory", "", cli.Both("memory, as 16Gi", "内存，如 16Gi"))
	f.StringVar(&storage, "storage", "", cli.Both("what its home may hold, as 50Gi", "主目录容量，如 50Gi"))
	f.StringArrayVar(&env, "env", nil, cli.Both("variable NAME=VALUE; may be repeated", "环境变量 NAME=VALUE，可重复"))
	f.StringVar(&e.Spec.Zone, "zone", "", cli.Both("zone that it runs in", "可用区"))
	f.StringVar(&e.Spec.Queue, "queue", "", cli.Both("queue that it waits in", "队列"))
	f.IntVar(&priority, "priority", 0, cli.Both("larger wins", "优先级，越大越先"))
	f.BoolVar(&e.Spec.Shared, "shared", false, cli.Both("members of the project may enter it", "允许项目成员进入"))
	f.StringVar(&e.Spec.Description, "description", "", cli.Both("what it is for", "说明"))
	f.BoolVar(&noWait, "no-wait", false, cli.Both("don't wait until it runs", "不等待其运行"))
	return c
}

// amount reads a quantity as a manifest has it; "" is none.
func amount(text string, into json.Unmarshaler) error {
	if text == "" {
		return nil
	}
	quoted, err := json.Marshal(text)
	if err == nil {
		err = into.UnmarshalJSON(quoted)
	}
	if err != nil {
		return fault.New(fault.Invalid, "BadQuantity", fault.T("%q is no amount.", "%q 不是合法的数量。", text)).Because(err)
	}
	return nil
}

// untilRuns waits until an environment runs, and says what it waits for.
func (w *where) untilRuns(ctx context.Context, name string) error {
	told := ""
	for {
		e, err := w.get(ctx, name)
		if err != nil {
			return err
		}
		switch p := e.Status.Phase; {
		case p == api.PhaseRunning:
			return nil
		case p.Finished() && !e.IsDue():
			return fault.New(fault.Conflict, "NotRunning", fault.T("The environment %s does not run: %s", "环境 %s 未在运行：%s", name, e.Status.Message.In(w.lang)))
		}
		if e.Status.Reason != told && told != "" {
			w.say("%s: %s", "%s：%s", name, e.Status.Message.In(w.lang))
		}
		told = e.Status.Reason
		select {
		case <-ctx.Done():
			return fault.From(ctx.Err())
		case <-time.After(lookEvery):
		}
	}
}

const lookEvery = 50 * time.Millisecond

func verb(word, en, zh string) *cobra.Command {
	var wait bool
	c := &cobra.Command{
		Use: word + " NAME", Short: cli.Both(en, zh), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			if err := client.Verb(cmd.Context(), w.Client, devenv.Kind, w.project, args[0], word, nil); err != nil || !wait {
				return err
			}
			if word == "start" {
				return w.untilRuns(cmd.Context(), args[0])
			}
			return w.untilStopped(cmd.Context(), args[0])
		},
	}
	c.Flags().BoolVar(&wait, "wait", true, cli.Both("wait until it is so", "等待完成"))
	return c
}

func (w *where) untilStopped(ctx context.Context, name string) error {
	for {
		e, err := w.get(ctx, name)
		if err != nil || e.Status.Phase.Finished() {
			return err
		}
		select {
		case <-ctx.Done():
			return fault.From(ctx.Err())
		case <-time.After(lookEvery):
		}
	}
}

func remove() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use: "delete NAME", Short: cli.Both("Delete an environment and its home", "删除环境及其主目录"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			e, err := w.get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if !yes {
				w.say("This deletes the environment %s of project %s, whatever runs in it, and its home with all files. It can't be undone.",
					"将删除项目 %[2]s 的环境 %[1]s、其中运行的一切，以及主目录中的全部文件，且无法恢复。", e.Meta.Name, e.Meta.Project)
				if err := confirm(cmd, e.Meta.Name, w); err != nil {
					return err
				}
			}
			return w.Delete(cmd.Context(), devenv.Kind, e.Meta.Project, e.Meta.Name)
		},
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, cli.Both("don't ask", "不再询问"))
	return c
}

// confirm asks for the name once more.
func confirm(cmd *cobra.Command, name string, w *where) error {
	in := cmd.InOrStdin()
	if f, ok := in.(*os.File); ok && !term.IsTerminal(int(f.Fd())) {
		return fault.New(fault.Invalid, "NotConfirmed", fault.T("Nobody can be asked here; say --yes.", "此处无法询问确认，请使用 --yes。"))
	}
	w.say("Type its name to delete it:", "请输入环境名称以确认删除：")
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if strings.TrimSpace(line) != name {
		return fault.New(fault.Invalid, "NotConfirmed", fault.T("Nothing was deleted.", "未删除任何内容。"))
	}
	return nil
}

// plainly runs `fermi get`, for the forms that programs read.
func plainly(cmd *cobra.Command, args ...string) error {
	get, _, err := cmd.Root().Find([]string{"get"})
	if err != nil {
		return err
	}
	get.SetContext(cmd.Context())
	return get.RunE(get, append([]string{"environment"}, args...))
}

func output(cmd *cobra.Command) string {
	return cmd.Root().PersistentFlags().Lookup("output").Value.String()
}

func get() *cobra.Command {
	return &cobra.Command{
		Use: "get NAME", Short: cli.Both("Show an environment", "查看环境"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o := output(cmd); o != "table" && o != "wide" {
				return plainly(cmd, args...)
			}
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			e, err := w.get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return w.table(e)
		},
	}
}

func list() *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: cli.Both("List environments", "列出环境"), Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o := output(cmd); o != "table" && o != "wide" {
				return plainly(cmd)
			}
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			page, err := client.List[*devenv.DevEnvironment](cmd.Context(), w.Client, client.ListOptions{Project: w.project, Limit: 500, Sort: "name"})
			if err != nil {
				return err
			}
			return w.table(page.Items...)
		},
	}
}

// table shows environments to people.
func (w *where) table(list ...*devenv.DevEnvironment) error {
	heads := []fault.Text{fault.T("NAME", "名称"), fault.T("TYPE", "类型"), fault.T("STATE", "状态"), fault.T("DEVICES", "加速卡"), fault.T("CPU", "CPU"), fault.T("MEMORY", "内存"), fault.T("ZONE", "可用区"), fault.T("OWNER", "所有者")}
	var words []string
	for _, h := range heads {
		words = append(words, h.In(w.lang))
	}
	wide := output(w.cmd) == "wide"
	if wide {
		words = append(words, fault.T("PROJECT", "项目").In(w.lang), "ID", fault.T("IMAGE", "镜像").In(w.lang))
	}
	var rows [][]string
	for _, e := range list {
		r := e.Spec.Resources
		devices := "-"
		if n := r.Accelerators.Count; n > 0 {
			devices = strings.TrimSpace(fmt.Sprintf("%d %s", n, r.Accelerators.Type))
		}
		zone := strings.Join(e.Status.Zones, ",")
		row := []string{e.Meta.Name, devenv.TypeText(e.Spec.Type).In(w.lang), devenv.StateText(e).In(w.lang), devices, r.CPU.String(), r.Memory.String(), zone, e.Meta.Owner}
		if wide {
			row = append(row, e.Meta.Project, e.Meta.ID, e.Spec.Image)
		}
		for i, cell := range row {
			if cell == "" {
				row[i] = "-"
			}
		}
		rows = append(rows, row)
	}
	return cli.Table(w.cmd.OutOrStdout(), slices.Clone(words), rows)
}
