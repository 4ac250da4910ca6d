package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func (a *app) trainCommand() *cobra.Command {
	return group("train", Both("Training tasks", "训练任务"),
		a.trainRunCommand(),
		a.listCommand(api.KindTrainingTask, "list", Both("List training tasks", "列出训练任务")),
		a.trainStopCommand(), a.trainMoveCommand(), a.trainCloneCommand(), a.trainOutputsCommand(), a.trainCheckpointsCommand(), a.trainRestoreCommand(), a.trainRecipeCommand(), a.trainFaultCommand(), a.trainProfileCommand())
}

func (a *app) trainStopCommand() *cobra.Command {
	var sure insist
	cmd := &cobra.Command{Use: "stop NAME...", Short: Both("End tasks; their outputs are kept", "停止任务；输出会保留"), Args: needArgs(1, -1, "NAME...")}
	sure.add(cmd)
	cmd.RunE = a.online(func(ctx context.Context, s *session, args []string) error {
		for _, name := range args {
			if err := sure.run(s, func(opts ...client.Option) error {
				return s.client.Stop(ctx, s.project(api.KindTrainingTask), name, opts...)
			}); err != nil {
				return err
			}
			putLine(s.out, "task/"+name+" "+s.t("is being stopped", "正在停止"))
		}
		return nil
	})
	return cmd
}

func (a *app) trainCloneCommand() *cobra.Command {
	var name, display string
	cmd := &cobra.Command{Use: "clone NAME", Short: Both("Submit the same work again", "以相同配置再次提交"), Args: needArgs(1, 1, "NAME")}
	cmd.Flags().StringVar(&name, "name", "", Both("name of the new task", "新任务名称"))
	cmd.Flags().StringVar(&display, "display-name", "", Both("name shown to people", "显示名"))
	cmd.RunE = a.online(func(ctx context.Context, s *session, args []string) error {
		made, err := s.client.Clone(ctx, s.project(api.KindTrainingTask), args[0], name, display)
		if err != nil {
			return err
		}
		if s.structured() && made.Task != nil {
			return s.data(manifest{made.Task})
		}
		s.tell(outcome{Kind: api.KindTrainingTask, Name: made.Name, Result: "created"})
		return nil
	})
	return cmd
}

var outputColumns = []column{col("PATH", "路径"), number("SIZE", "大小"), fixed("MODIFIED", "修改时间")}

func (a *app) trainOutputsCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "outputs NAME", Short: Both("List or fetch what a task left", "列出或下载任务输出"), Args: needArgs(1, 1, "NAME"),
		Example: "  fermi train outputs gpt-7x2k9 --get ./results",
	}
	cmd.Flags().StringVar(&dir, "get", "", Both("fetch all files into this folder", "将全部文件下载到此文件夹"))
	cmd.RunE = a.online(func(ctx context.Context, s *session, args []string) error {
		project := s.project(api.KindTrainingTask)
		outs, err := s.client.Outputs(ctx, project, args[0])
		if err != nil {
			return err
		}
		if dir != "" {
			return s.fetchOutputs(ctx, project, args[0], dir, outs)
		}
		if s.structured() {
			if outs == nil {
				outs = []client.Output{}
			}
			return s.data(map[string]any{"items": outs})
		}
		if len(outs) == 0 {
			s.say("The task left no files.", "任务没有输出文件。")
			return nil
		}
		rows := make([][]cell, len(outs))
		for i, o := range outs {
			if s.flags.output == "name" {
				putLine(s.out, clean(o.Path))
			}
			rows[i] = []cell{text(o.Path), text(size(o.Size)), text(s.ago(o.Modified))}
		}
		if s.flags.output == "name" {
			return nil
		}
		return writeTable(s.out, outputColumns, rows, s.lang, screenOf(s.out))
	})
	return cmd
}

// fetchOutputs writes every file below dir. The names come from elsewhere: nothing is written
// outside dir, whatever they say.
func (s *session) fetchOutputs(ctx context.Context, project, task, dir string, outs []client.Output) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return badFile(dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return badFile(dir, err)
	}
	defer root.Close()
	var total int64
	for _, o := range outs {
		total += o.Size
	}
	bar := s.progress(s.t("fetching", "下载"), total)
	defer bar.done()
	for _, o := range outs {
		if !filepath.IsLocal(filepath.FromSlash(o.Path)) || path.Clean(o.Path) != o.Path {
			return fault.New(fault.Internal, "BadOutputPath", fault.T(
				"The server names an output %q that lies outside the folder.", "服务器给出的输出路径 %q 超出目标文件夹。", o.Path))
		}
		if err := s.fetchOutput(ctx, root, project, task, o, bar); err != nil {
			return err
		}
		bar.done()
		putLine(s.out, filepath.Join(dir, filepath.FromSlash(o.Path)))
	}
	s.say("%d [file|files], %s, in %s.", "共 %d 个文件，%s，位于 %s。", len(outs), size(total), dir)
	return nil
}

func (s *session) fetchOutput(ctx context.Context, root *os.Root, project, task string, o client.Output, bar *progress) (err error) {
	body, length, err := s.client.OpenOutput(ctx, project, task, o.Path)
	if err != nil {
		return err
	}
	defer body.Close()
	name := filepath.FromSlash(o.Path)
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return badFile(name, err)
	}
	part := name + ".part"
	f, err := root.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return badFile(name, err)
	}
	defer func() {
		if err != nil {
			f.Close()
			_ = root.Remove(part)
		}
	}()
	n, err := io.Copy(f, &countReader{ctx, body, bar.add})
	if err != nil {
		return cutShort(err)
	}
	if length >= 0 && n != length {
		return cutShort(fmt.Errorf("%d of %d bytes", n, length))
	}
	if err = f.Close(); err != nil {
		return badFile(name, err)
	}
	if err = root.Rename(part, name); err != nil {
		return badFile(name, err)
	}
	return nil
}

// runFlags are those of `train run`.
type runFlags struct {
	name, displayName, code         string
	noCode, detach, dryRun          bool
	git                             api.Git
	replicas, ranks, gpus, priority int
	spares                          int
	gpuType, cpu, memory, disk      string
	processes                       int
	priorityClass, queue            string
	env, hp, zones, inside          []string
	credentials                     []string
	image                           string
	restarts                        int
	timeout, expected, from         string
}

func (r *runFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.name, "name", "", Both("name of the task; made from the display name when absent", "任务名称；默认由显示名生成"))
	f.StringVar(&r.displayName, "display-name", "", Both("name shown to people; the command when absent", "显示名；默认取命令"))
	f.StringVar(&r.code, "code", "", Both("folder to send along; the current one when absent", "随任务发送的文件夹；默认当前文件夹"))
	f.BoolVar(&r.noCode, "no-code", false, Both("send no files", "不发送文件"))
	f.StringVar(&r.git.URL, "git", "", Both("take the code from this repository instead of a folder", "从该仓库获取代码，而不是文件夹"))
	f.StringVar(&r.git.Revision, "revision", "", Both("branch, tag or commit of --git; the default branch when absent", "--git 的分支、标签或提交；默认取默认分支"))
	f.BoolVar(&r.git.Submodules, "submodules", false, Both("with the submodules of --git", "同时获取 --git 的子模块"))
	f.StringVar(&r.git.Secret, "git-secret", "", Both("secret with the credentials of --git", "--git 使用的凭据（密钥名）"))
	f.StringArrayVar(&r.credentials, "credential", nil, Both("secret of type registry or s3 for the usual clients; may be repeated", "供常用客户端使用的 registry 或 s3 类型密钥；可重复"))
	f.StringVar(&r.image, "image", "", Both("image to run in, such as name:tag; the node's own system when absent", "运行所用镜像，如 name:tag；默认使用节点自身的系统"))
	f.IntVar(&r.replicas, "replicas", 1, Both("number of equal replicas", "副本数"))
	f.IntVar(&r.spares, "spares", 0, Both("replicas more, charged, that take the place of one that is lost; with --restarts", "额外的备用副本（计费），用于接替丢失的副本；需同时指定 --restarts"))
	f.IntVar(&r.ranks, "ranks", 1, Both("processes a replica", "每个副本的进程数"))
	f.IntVar(&r.gpus, "gpus", 0, Both("accelerators for each replica", "每个副本的加速卡数"))
	f.StringVar(&r.gpuType, "gpu-type", "", Both("type of accelerator, such as A100", "加速卡型号，如 A100"))
	f.StringVar(&r.cpu, "cpu", "", Both("cores for each replica: 4, 500m", "每个副本的 CPU：4、500m"))
	f.StringVar(&r.memory, "memory", "", Both("memory for each replica: 16Gi", "每个副本的内存：16Gi"))
	f.StringVar(&r.disk, "ephemeral-disk", "", Both("what each replica may write on its node's disk: 100Gi; no bound when absent", "每个副本在节点磁盘上可写入的字节数：100Gi；默认不限"))
	f.IntVar(&r.processes, "processes", 0, Both("processes and threads that each replica may have at once; 4096 when absent", "每个副本可同时拥有的进程与线程数；默认 4096"))
	f.StringArrayVar(&r.env, "env", nil, Both("environment variable K=V; may be repeated", "环境变量 K=V；可重复"))
	f.StringArrayVar(&r.hp, "hp", nil, Both("hyper-parameter K=V; may be repeated", "超参数 K=V；可重复"))
	f.IntVar(&r.priority, "priority", 0, Both("larger wins, 0 to 10000", "优先级，越大越优先，0 至 10000"))
	f.StringVar(&r.priorityClass, "priority-class", "", Both("inference, training, environment or preemptible", "优先级类别：inference、training、environment、preemptible"))
	f.StringVar(&r.queue, "queue", "", Both("queue; the project's when absent", "队列；默认取项目的队列"))
	f.StringSliceVar(&r.zones, "zone", nil, Both("only in this zone; may be repeated", "只在该可用区运行；可重复"))
	f.StringSliceVar(&r.inside, "inside", nil, Both("run inside these running tasks of one replica, on their devices, a replica in each; the first has rank 0; in their folders unless --code or --git is given",
		"在这些运行中的单副本任务内运行，使用其设备，每个一个副本；第一个为 rank 0；未指定 --code 或 --git 时在其目录中运行"))
	f.IntVar(&r.restarts, "restarts", 0, Both("restarts allowed within an hour", "一小时内允许的重启次数"))
	f.StringVar(&r.from, "from", "", Both("begin from a checkpoint of another task: TASK, or TASK@STEP; or from the slots in a folder: FOLDER/, with a slash", "从另一任务的检查点开始：TASK 或 TASK@STEP；或从文件夹中的槽文件开始：FOLDER/（须含斜杠）"))
	f.StringVar(&r.timeout, "timeout", "", Both("longest run, such as 2h", "最长运行时间，如 2h"))
	f.StringVar(&r.expected, "expected-time", "", Both("how long it will run, about, such as 6h; for price and order", "预计运行时间，如 6h；用于计价与排序"))
	f.BoolVarP(&r.detach, "detach", "d", false, Both("submit and return", "提交后立即返回"))
	f.BoolVar(&r.dryRun, "dry-run", false, Both("only check, and show where it would run and at what price", "仅检查，并显示将在何处运行及其价格"))
}

// faults collects what is wrong with flags, so that all of it is said at once.
type faults []fault.Field

func (f *faults) add(flag string, message fault.Text) {
	*f = append(*f, fault.Field{Path: flag, Message: message})
}

// check notes an error of one of api's parsers, which speak both languages.
func (f *faults) check(flag string, err error) {
	var value *api.ValueError
	switch {
	case err == nil:
	case errors.As(err, &value):
		f.add(flag, value.Text)
	default:
		f.add(flag, fault.Text{EN: err.Error()})
	}
}

// pairs reads K=V flags in order.
func (f *faults) pairs(flag string, list []string, each func(k, v string)) {
	for _, kv := range list {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			f.add(flag, fault.T("%q is not of the form K=V.", "%q 不是 K=V 的形式。", kv))
			continue
		}
		each(k, v)
	}
}

// task is the task the flags describe, without its code.
func (r *runFlags) task(cmd *cobra.Command, project string, argv []string) (*api.TrainingTask, error) {
	var bad faults
	t := &api.TrainingTask{
		Meta: api.Meta{Name: r.name, DisplayName: first(r.displayName, r.name, title(argv)), Project: project},
		Spec: api.TrainingTaskSpec{Roles: []api.Role{r.role(&bad, argv)}, PriorityClass: r.priorityClass, Queue: r.queue, Image: r.image},
	}
	r.within(cmd, t, &bad)
	if cmd.Flags().Changed("priority") {
		t.Spec.Priority = &r.priority
	}
	if r.restarts != 0 {
		t.Spec.Restart = &api.RestartPolicy{MaxRestarts: r.restarts}
	}
	if len(r.zones) > 0 {
		t.Spec.Zones = &api.ZoneRules{Allow: r.zones}
	}
	for _, name := range r.credentials {
		t.Spec.Credentials = append(t.Spec.Credentials, api.CredentialRef{Secret: name})
	}
	if r.from != "" {
		t.Spec.Checkpoint = &api.Checkpoints{From: bad.origin(r.from)}
	}
	if r.timeout != "" {
		d, err := api.ParseDuration(r.timeout)
		bad.check("--timeout", err)
		t.Spec.Timeouts = &api.Timeouts{Run: d}
	}
	if r.expected != "" {
		var err error
		t.Spec.ExpectedTime, err = api.ParseDuration(r.expected)
		bad.check("--expected-time", err)
	}
	bad.pairs("--hp", r.hp, func(k, v string) {
		if t.Spec.HyperParameters == nil {
			t.Spec.HyperParameters = map[string]any{}
		}
		t.Spec.HyperParameters[k] = scalar(v)
	})
	if len(bad) > 0 {
		return nil, fault.From(usage(cmd, fault.T("The command line has mistakes.", "命令行参数有误。"))).WithFields(bad...)
	}
	return t, nil
}

func (r *runFlags) role(bad *faults, argv []string) api.Role {
	role := api.Role{Replicas: r.replicas, Command: argv[:1], Args: argv[1:]}
	var err error
	if r.cpu != "" {
		role.Resources.CPU, err = api.ParseMilliCPU(r.cpu)
		bad.check("--cpu", err)
	}
	if r.memory != "" {
		role.Resources.Memory, err = api.ParseBytes(r.memory)
		bad.check("--memory", err)
	}
	if r.disk != "" {
		role.Resources.EphemeralDisk, err = api.ParseBytes(r.disk)
		bad.check("--ephemeral-disk", err)
	}
	role.Resources.Processes = r.processes
	role.Spares = r.spares
	if r.ranks != 1 {
		role.Ranks = r.ranks
	}
	if r.ranks < 1 {
		bad.add("--ranks", fault.T("At least 1.", "至少为 1。"))
	}
	if r.replicas < 1 {
		bad.add("--replicas", fault.T("At least 1.", "至少为 1。"))
	}
	role.Resources.Accelerators = api.Accelerators{Type: r.gpuType, Count: r.gpus}
	bad.pairs("--env", r.env, func(k, v string) { role.Env = append(role.Env, api.EnvVar{Name: k, Value: v}) })
	return role
}
