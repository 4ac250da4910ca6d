package env

import (
	"bufio"
	"context"
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
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/cli/online"
	"github.com/fermi-cluster/fermi/internal/cli/reading"
	standing "github.com/fermi-cluster/fermi/internal/cli/where"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Add puts `fermi env` and `fermi train shell` under root.
func Add(root *cobra.Command) {
	c := command()
	c.GroupID = cli.GroupWork
	root.AddCommand(c, copyFiles(), forwardPorts())
	if train, _, err := root.Find([]string{"train"}); err == nil && train != root {
		train.AddCommand(trainShell())
	}
	if sample, _, err := root.Find([]string{"sample"}); err == nil && sample != root {
		sample.AddCommand(demo())
	}
	if user, _, err := root.Find([]string{"user"}); err == nil && user != root {
		user.AddCommand(keys())
	}
}

func command() *cobra.Command {
	c := &cobra.Command{
		Use: "env", Aliases: []string{"environment", "environments"}, Short: cli.Both("Development environments: machines of your own, with a home that stays", "开发环境：保留主目录的个人机器"),
		Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	change, _ := set()
	c.AddCommand(create(), change, verb("start", "Start an environment that was stopped; its home is as it was", "启动已停止的环境，主目录保持原样"),
		verb("stop", "Stop an environment; its home is kept", "停止环境，保留主目录"), reset(), keep(), snapshot(), snapshots(), move(), templates(), remove(), list(), get(), show(), shell(),
		cli.Logs(devenv.Kind, cli.Both("What its start command prints", "查看启动命令的输出"), "  fermi env logs lab --tail 20"), ssh(), sshConfig(), port(), openPort(), share(), unshare())
	return c
}

// where is who is asked.
type where struct{ online.Where }

func dial(cmd *cobra.Command) (*where, error) {
	w, err := online.Dial(cmd)
	return &where{w}, err
}

// get reads one environment.
func (w *where) get(ctx context.Context, name string) (*devenv.DevEnvironment, error) {
	return client.Get[*devenv.DevEnvironment](ctx, w.Client, w.Project, name)
}

// fieldFlags are the arguments behind the fields of an environment.
var fieldFlags = strings.NewReplacer(
	"metadata.name", "NAME", "spec.type", "--type", "spec.image", "--image", "spec.resources.accelerators.count", "--accelerators", "spec.resources.accelerators.type", "--accelerator",
	"spec.resources.cpu", "--cpu", "spec.resources.memory", "--memory", "spec.storage", "--storage", "spec.env", "--env", "spec.zones", "--zone", "spec.zone", "--zone", "spec.spot", "--spot", "spec.queue", "--queue", "spec.priority", "--priority",
	"spec.datasets", "--dataset", "spec.models", "--model", "spec.ports", "--port", "spec.command", "COMMAND", "spec.entryPoint", "--entry-point", "spec.vscode", "--vscode", "spec.volumes", "--volume", "spec.git.secret", "--git-secret", "spec.dotfiles.secret", "--git-secret", "spec.from", "--from", "spec.git", "--git", "spec.dotfiles", "--dotfiles",
)

func create() *cobra.Command {
	e := &devenv.DevEnvironment{}
	var kind, accelerator, cpu, memory, storage, git, dotfiles, gitSecret string
	var count, priority int
	var from, template string
	var env, credentials, volumes []string
	var ports []int
	var noWait bool
	var rest rests
	var data reading.Flags
	c := &cobra.Command{
		Use: "create NAME [-- COMMAND…]", Short: cli.Both("Make an environment and start it", "创建并启动环境"), Args: cobra.MinimumNArgs(1),
		Example: "  fermi env create lab --type notebook --cpu 4 --memory 16Gi\n  fermi env create train --accelerators 2 --accelerator A100",
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			e.Meta.Name, e.Meta.Project, e.Spec.Type, e.Spec.Command = args[0], w.Project, devenv.Type(kind), args[1:]
			r := &e.Spec.Resources
			r.Accelerators.Count, r.Accelerators.Type = count, accelerator
			if err := online.All(online.Amount("cpu", cpu, &r.CPU), online.Amount("memory", memory, &r.Memory), online.Amount("storage", storage, &e.Spec.Storage),
				online.Variables(env, func(name, value string) { e.Spec.Env = append(e.Spec.Env, api.EnvVar{Name: name, Value: value}) }), rest.into(&e.Spec.Rest)); err != nil {
				return err
			}
			var wrong []fault.Field
			e.Spec.Lists = data.Lists(func(flag string, why fault.Text) { wrong = append(wrong, fault.Field{Path: flag, Message: why}) })
			if len(wrong) > 0 {
				return fault.New(fault.Invalid, "InvalidField", fault.T("Some flags are wrong.", "部分参数有误。")).WithFields(wrong...)
			}
			if from != "" {
				if e.Spec.From, err = w.snapshotOf(cmd.Context(), from); err != nil {
					return err
				}
			}
			e.Spec.Git, e.Spec.Dotfiles = repository(git, gitSecret), repository(dotfiles, gitSecret)
			for _, text := range volumes {
				e.Spec.Volumes = append(e.Spec.Volumes, volume(text))
			}
			for _, p := range ports {
				e.Spec.Ports = append(e.Spec.Ports, devenv.Port{Port: p})
			}
			if cmd.Flags().Changed("priority") {
				e.Spec.Priority = &priority
			}
			for _, secret := range credentials {
				e.Spec.Credentials = append(e.Spec.Credentials, api.CredentialRef{Secret: secret})
			}
			if template != "" {
				if err := w.after(cmd.Context(), template, &e.Spec); err != nil {
					return err
				}
			}
			made, err := client.Create(cmd.Context(), w.Client, e)
			if err != nil {
				return online.ByFlag(err, fieldFlags)
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
	f.BoolVar(&e.Spec.EntryPoint, "entry-point", false, cli.Both("start what the image starts by itself, instead of a command", "启动镜像自带的程序，而不是指定的命令"))
	f.StringArrayVar(&credentials, "credential", nil, cli.Both("secret of type registry with an account for the image; may be repeated", "镜像仓库帐号所在的 registry 类型密钥，可重复"))
	f.IntVar(&count, "accelerators", 0, cli.Both("accelerators, 0 to 8", "加速卡数量，0 到 8"))
	f.StringVar(&accelerator, "accelerator", "", cli.Both("their type, such as A100", "加速卡型号，如 A100"))
	f.StringVar(&cpu, "cpu", "", cli.Both("cores, as 4 or 500m", "CPU 核数，如 4 或 500m"))
	f.StringVar(&memory, "memory", "", cli.Both("memory, as 16Gi", "内存，如 16Gi"))
	f.StringVar(&storage, "storage", "", cli.Both("what its home may hold, as 50Gi", "主目录容量，如 50Gi"))
	f.StringArrayVar(&env, "env", nil, cli.Both("variable NAME=VALUE; may be repeated", "环境变量 NAME=VALUE，可重复"))
	f.StringVar(&e.Spec.Zone, "zone", "", cli.Both("zone that it runs in", "可用区"))
	standing.Spot(f, &e.Spec.Spot, cli.Both)
	f.StringVar(&e.Spec.Queue, "queue", "", cli.Both("queue that it waits in", "队列"))
	f.IntVar(&priority, "priority", 0, cli.Both("larger wins", "优先级，越大越先"))
	f.IntSliceVar(&ports, "port", nil, cli.Both("port that has an address in browsers; may be repeated", "可在浏览器中访问的端口，可重复"))
	f.StringArrayVar(&volumes, "volume", nil, cli.Both("folder of the machines that the project was granted: NAME, NAME:/mnt/PATH or NAME:/mnt/PATH:ro; may be repeated", "授予项目的主机目录：NAME、NAME:/mnt/PATH 或 NAME:/mnt/PATH:ro，可重复"))
	f.StringVar(&template, "template", "", cli.Both("what it has where the other flags say nothing; fermi env templates lists them", "模板：其余参数未指定的内容取自模板；可用 fermi env templates 查看"))
	f.StringVar(&from, "from", "", cli.Both("begin with a snapshot of the home of another one, as NAME or NAME@VERSION; of a stopped one that has none it is made", "以另一环境的主目录快照为起点：名称 或 名称@版本；该环境已停止且没有快照时会先创建"))
	f.StringVar(&git, "git", "", cli.Both("repository that is cloned into its home at the first start, as URL or URL@BRANCH", "首次启动时克隆到主目录的仓库：URL 或 URL@分支"))
	f.StringVar(&dotfiles, "dotfiles", "", cli.Both("repository of settings: cloned as ~/.dotfiles, and its dot files linked into the home", "个人配置仓库：克隆为 ~/.dotfiles，其中的点文件链接到主目录"))
	f.StringVar(&gitSecret, "git-secret", "", cli.Both("secret of type git with an account for both", "上述仓库的 git 类型密钥"))
	f.BoolVar(&e.Spec.VSCode, "vscode", false, cli.Both("VS Code in the browser: fermi env open NAME vscode", "浏览器中的 VS Code：fermi env open 环境 vscode"))
	f.BoolVar(&e.Spec.Shared, "shared", false, cli.Both("members of the project may enter it", "允许项目成员进入"))
	f.StringVar(&e.Spec.Description, "description", "", cli.Both("what it is for", "说明"))
	rest.bind(f)
	data.Add(f, cli.Both)
	f.BoolVar(&noWait, "no-wait", false, cli.Both("don't wait until it runs", "不等待其运行"))
	return c
}

// repository reads URL or URL@REVISION; nil: none was said. The @ of git@host:path is none of ours.
func repository(text, secret string) *api.Git {
	if text == "" {
		return nil
	}
	g := &api.Git{URL: text, Secret: secret}
	if i := strings.LastIndexByte(text, '@'); i > strings.LastIndexAny(text, "/:") {
		g.URL, g.Revision = text[:i], text[i+1:]
	}
	return g
}

// volume reads NAME, NAME:PATH and NAME:PATH:ro; the server judges them.
func volume(text string) mount.Volume {
	text, readOnly := strings.CutSuffix(text, ":ro")
	name, path, _ := strings.Cut(text, ":")
	return mount.Volume{Name: name, Path: path, ReadOnly: readOnly}
}

// untilRuns waits until an environment runs, and says what it waits for.
func (w *where) untilRuns(ctx context.Context, name string) error {
	told := ""
	return w.until(ctx, name, func(e *devenv.DevEnvironment) (bool, error) {
		switch p := e.Status.Phase; {
		case p == api.PhaseRunning:
			return true, nil
		case p.Finished() && !e.IsDue():
			return false, fault.New(fault.Conflict, "NotRunning", fault.T("The environment %s does not run: %s", "环境 %s 未在运行：%s", name, e.Status.Message.In(w.Lang)))
		}
		if e.Status.Reason != told && told != "" {
			w.Say("%s: %s", "%s：%s", name, e.Status.Message.In(w.Lang))
		}
		told = e.Status.Reason
		return false, nil
	})
}

func (w *where) until(ctx context.Context, name string, ok func(*devenv.DevEnvironment) (bool, error)) error {
	return online.Until(ctx, lookEvery, func() (*devenv.DevEnvironment, error) { return w.get(ctx, name) }, ok)
}

const lookEvery = 50 * time.Millisecond

func verb(word, en, zh string) *cobra.Command {
	var wait, yes bool
	c := &cobra.Command{
		Use: word + " NAME", Short: cli.Both(en, zh), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			if err := w.insist(yes, func(opts ...client.Option) error {
				return client.Verb(cmd.Context(), w.Client, devenv.Kind, w.Project, args[0], word, nil, opts...)
			}); err != nil || !wait {
				return err
			}
			if word == "start" {
				return w.untilRuns(cmd.Context(), args[0])
			}
			return w.untilStopped(cmd.Context(), args[0])
		},
	}
	c.Flags().BoolVar(&wait, "wait", true, cli.Both("wait until it is so", "等待完成"))
	if word == "stop" {
		c.Flags().BoolVarP(&yes, "yes", "y", false, cli.Both("don't ask: end also the task that trains inside it", "不再询问：同时结束在其中训练的任务"))
	}
	return c
}

// insist does it; where a task would end with it, a person is asked.
func (w *where) insist(yes bool, do func(opts ...client.Option) error) error {
	if yes {
		return do(client.Force)
	}
	err := do()
	if f, ok := w.Cmd.InOrStdin().(*os.File); fault.ReasonOf(err) != "InUse" || ok && !term.IsTerminal(int(f.Fd())) {
		return err
	}
	w.Say("%s Type yes to end both:", "%s输入 yes 一并结束：", fault.From(err).Message.In(w.Lang))
	if confirm(w.Cmd, "yes") != nil {
		return err
	}
	return do(client.Force)
}

func (w *where) untilStopped(ctx context.Context, name string) error {
	return w.until(ctx, name, func(e *devenv.DevEnvironment) (bool, error) { return e.Status.Phase.Finished(), nil })
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
				w.Say("This deletes the environment %s of project %s, whatever runs in it, and its home with all files. It can't be undone.",
					"将删除项目 %[2]s 的环境 %[1]s、其中运行的一切，以及主目录中的全部文件，且无法恢复。", e.Meta.Name, e.Meta.Project)
				if by := e.Status.InUseBy; by != "" {
					w.Say("The task %s trains inside it and ends with it.", "任务 %s 正在其中训练，将随之结束。", by)
				}
				if s := e.Status.Snapshot; s != nil && s.Version > 0 {
					w.Say("Snapshots of its home stay: dataset %s.", "其主目录快照会保留：数据集 %s。", s.Dataset)
				}
				w.Say("Type its name to delete it:", "请输入环境名称以确认删除：")
				if err := confirm(cmd, e.Meta.Name); err != nil {
					return err
				}
			}
			return w.Delete(cmd.Context(), devenv.Kind, e.Meta.Project, e.Meta.Name, client.Force)
		},
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, cli.Both("don't ask", "不再询问"))
	return c
}

func reset() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use: "reset NAME", Short: cli.Both("Throw away what was written over an environment's image; its home is kept", "清除在环境镜像之上写入的内容，保留主目录"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			if !yes {
				w.Say("Before the next start of the environment %s this throws away what was written outside of its home: installed packages, changed settings. It then takes what its image is now. It can't be undone.",
					"环境 %s 下次启动前，将清除其主目录以外写入的内容（已安装的软件包、修改的设置），并改用镜像的当前版本，且无法恢复。", args[0])
				w.Say("Type its name to go on:", "请输入环境名称以继续：")
				if err := confirm(cmd, args[0]); err != nil {
					return err
				}
			}
			return client.Verb(cmd.Context(), w.Client, devenv.Kind, w.Project, args[0], "reset", nil)
		},
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, cli.Both("don't ask", "不再询问"))
	return c
}

// confirm reads the name once more.
func confirm(cmd *cobra.Command, name string) error {
	in := cmd.InOrStdin()
	if f, ok := in.(*os.File); ok && !term.IsTerminal(int(f.Fd())) {
		return fault.New(fault.Invalid, "NotConfirmed", fault.T("Nobody can be asked here; say --yes.", "此处无法询问确认，请使用 --yes。"))
	}
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if strings.TrimSpace(line) != name {
		return fault.New(fault.Invalid, "NotConfirmed", fault.T("Nothing was done.", "未执行任何操作。"))
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
			page, err := client.List[*devenv.DevEnvironment](cmd.Context(), w.Client, client.ListOptions{Project: w.Project, Limit: 500, Sort: "name"})
			if err != nil {
				return err
			}
			return w.table(page.Items...)
		},
	}
}

// table shows environments to people.
func (w *where) table(list ...*devenv.DevEnvironment) error {
	heads := []fault.Text{fault.T("NAME", "名称"), fault.T("TYPE", "类型"), fault.T("STATE", "状态"), fault.T("DEVICES", "加速卡"), fault.T("CPU", "CPU"), fault.T("MEMORY", "内存"), fault.T("ZONE", "可用区"), fault.T("UP", "已运行"), fault.T("OWNER", "所有者")}
	var words []string
	for _, h := range heads {
		words = append(words, h.In(w.Lang))
	}
	wide := output(w.Cmd) == "wide"
	if wide {
		words = append(words, fault.T("PROJECT", "项目").In(w.Lang), "ID", fault.T("IMAGE", "镜像").In(w.Lang))
	}
	var rows [][]string
	for _, e := range list {
		r := e.Spec.Resources
		devices := "-"
		if n := r.Accelerators.Count; n > 0 {
			devices = strings.TrimSpace(fmt.Sprintf("%d %s", n, r.Accelerators.Type))
		}
		zone := strings.Join(e.Status.Zones, ",")
		row := []string{e.Meta.Name, devenv.TypeText(e.Spec.Type).In(w.Lang), devenv.StateText(e).In(w.Lang), devices, r.CPU.String(), r.Memory.String(), zone, uptime(e), e.Meta.Owner}
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
	return cli.Table(w.Cmd.OutOrStdout(), slices.Clone(words), rows)
}
