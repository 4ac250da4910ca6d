package train

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/array"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/reading"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
	"github.com/fermi-cluster/fermi/internal/cli/where"
	"github.com/fermi-cluster/fermi/internal/cli/word"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// runFlags are those of `train run`.
type runFlags struct {
	name, displayName, framework string
	file                         string
	codeFlags
	roleFlags
	orderFlags
	hp, inside     []string
	saves          reading.Keeping
	detach, dryRun bool
}

func (r *runFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.framework, "framework", "", speech.Both("launch recipe: pytorch-ddp, deepspeed, … (all: fermi train recipe --help); plain when absent", "启动方式：pytorch-ddp、deepspeed 等（全部见 fermi train recipe --help）；默认 plain"))
	f.StringVar(&r.name, "name", "", speech.Both("name of the task; made from the display name when absent", "任务名称；默认由显示名生成"))
	f.StringVar(&r.displayName, "display-name", "", speech.Both("name shown to people; the command when absent", "显示名；默认取命令"))
	f.StringArrayVar(&r.hp, "hp", nil, speech.Both("hyper-parameter K=V; may be repeated", "超参数 K=V；可重复"))
	f.StringSliceVar(&r.inside, "inside", nil, speech.Both("run inside these running tasks of one replica, on their devices, a replica in each; the first has rank 0; in their folders unless --code or --git is given",
		"在这些运行中的单副本任务内运行，使用其设备，每个一个副本；第一个为 rank 0；未指定 --code 或 --git 时在其目录中运行"))
	r.saves.Bind(f, speech.Both)
	f.BoolVarP(&r.detach, "detach", "d", false, speech.Both("submit and return", "提交后立即返回"))
	f.BoolVar(&r.dryRun, "dry-run", false, speech.Both("only check, and show where it would run and at what price", "仅检查，并显示将在何处运行及其价格"))
	r.codeFlags.add(f)
	r.roleFlags.add(f)
	r.orderFlags.add(f)
}

// codeFlags say what a task runs: its code, its image, and the accounts for both.
type codeFlags struct {
	code, requirements, image string
	noCode                    bool
	git                       api.Git
	credentials               []string
}

func (c *codeFlags) add(f *pflag.FlagSet) {
	f.StringVar(&c.code, "code", "", speech.Both("folder to send along; the current one when absent", "随任务发送的文件夹；默认当前文件夹"))
	f.StringVar(&c.requirements, "requirements", "", speech.Both("file in the code, such as requirements.txt or pyproject.toml: what it names is installed before the start; for commands that begin with python, without an image", "代码中的依赖文件，如 requirements.txt 或 pyproject.toml：启动前安装其中的包；用于以 python 开头且不使用镜像的命令"))
	f.BoolVar(&c.noCode, "no-code", false, speech.Both("send no files", "不发送文件"))
	f.StringVar(&c.git.URL, "git", "", speech.Both("take the code from this repository instead of a folder", "从该仓库获取代码，而不是文件夹"))
	f.StringVar(&c.git.Revision, "revision", "", speech.Both("branch, tag or commit of --git; the default branch when absent", "--git 的分支、标签或提交；默认取默认分支"))
	f.BoolVar(&c.git.Submodules, "submodules", false, speech.Both("with the submodules of --git", "同时获取 --git 的子模块"))
	f.StringVar(&c.git.Secret, "git-secret", "", speech.Both("secret with the credentials of --git", "--git 使用的凭据（密钥名）"))
	f.StringArrayVar(&c.credentials, "credential", nil, speech.Both("secret of type registry or s3 for the usual clients; may be repeated", "供常用客户端使用的 registry 或 s3 类型密钥；可重复"))
	f.StringVar(&c.image, "image", "", speech.Both("image to run in, such as name:tag; the node's own system when absent", "运行所用镜像，如 name:tag；默认使用节点自身的系统"))
}

// roleFlags say the one role of a task.
type roleFlags struct {
	replicas, spares, ranks    int
	gpus, processes            int
	gpuType, cpu, memory, disk string
	env                        []string
}

func (r *roleFlags) add(f *pflag.FlagSet) {
	f.IntVar(&r.replicas, "replicas", 1, speech.Both("number of equal replicas", "副本数"))
	f.IntVar(&r.spares, "spares", 0, speech.Both("replicas more, charged, that take the place of one that is lost; with --restarts", "额外的备用副本（计费），用于接替丢失的副本；需同时指定 --restarts"))
	f.IntVar(&r.ranks, "ranks", 1, speech.Both("processes a replica", "每个副本的进程数"))
	f.IntVar(&r.gpus, "gpus", 0, speech.Both("accelerators for each replica", "每个副本的加速卡数"))
	f.StringVar(&r.gpuType, "gpu-type", "", speech.Both("type of accelerator, such as A100", "加速卡型号，如 A100"))
	f.StringVar(&r.cpu, "cpu", "", speech.Both("cores for each replica: 4, 500m", "每个副本的 CPU：4、500m"))
	f.StringVar(&r.memory, "memory", "", speech.Both("memory for each replica: 16Gi", "每个副本的内存：16Gi"))
	f.StringVar(&r.disk, "ephemeral-disk", "", speech.Both("what each replica may write on its node's disk: 100Gi; no bound when absent", "每个副本在节点磁盘上可写入的字节数：100Gi；默认不限"))
	f.IntVar(&r.processes, "processes", 0, speech.Both("processes and threads that each replica may have at once; 4096 when absent", "每个副本可同时拥有的进程与线程数；默认 4096"))
	f.StringArrayVar(&r.env, "env", nil, speech.Both("environment variable K=V; may be repeated", "环境变量 K=V；可重复"))
}

// orderFlags say when and where a task runs, and for how long.
type orderFlags struct {
	priority, restarts   int
	priorityClass, queue string
	place                where.Task
	timeout, expected    string
	array                string
}

func (o *orderFlags) add(f *pflag.FlagSet) {
	f.IntVar(&o.priority, "priority", 0, speech.Both("larger wins, 0 to 10000", "优先级，越大越优先，0 至 10000"))
	f.StringVar(&o.priorityClass, "priority-class", "", speech.Both("inference, training, environment or preemptible", "优先级类别：inference、training、environment、preemptible"))
	f.StringVar(&o.queue, "queue", "", speech.Both("queue; the project's when absent", "队列；默认取项目的队列"))
	o.place.Add(f, speech.Both)
	f.IntVar(&o.restarts, "restarts", 0, speech.Both("restarts allowed within an hour", "一小时内允许的重启次数"))
	f.StringVar(&o.timeout, "timeout", "", speech.Both("longest run, such as 2h", "最长运行时间，如 2h"))
	f.StringVar(&o.expected, "expected-time", "", speech.Both("how long it will run, about, such as 6h; for price and order", "预计运行时间，如 6h；用于计价与排序"))
	f.StringVar(&o.array, "array", "", speech.Both("the task once for each index, each with its own in $FERMI_ARRAY_INDEX: 1-100, 0-9:3 or 1,4,7-9; with %N only N of them at once: 1-100%10", "按序号各运行一次，序号位于 $FERMI_ARRAY_INDEX：1-100、0-9:3 或 1,4,7-9；加 %N 限制同时运行数：1-100%10"))
}

// ofRole are the flags that speak of the one role of a task.
var ofRole = []string{"replicas", "spares", "ranks", "gpus", "gpu-type", "cpu", "memory", "ephemeral-disk", "processes", "env"}

// over puts what the flags say over a task, without its code: a new one, or one of a manifest or of an earlier run, of which
// only what was given changes. It collects all that is wrong.
func (r *runFlags) over(cmd *cobra.Command, t *api.TrainingTask, argv []string) (bad usage.Faults) {
	fresh := len(t.Spec.Roles) == 0
	given := func(flag string) bool { return fresh || cmd.Flags().Changed(flag) }
	if fresh {
		t.Spec.Roles = []api.Role{{}}
		t.Meta.DisplayName = call.First(r.displayName, r.name, word.Title(slices.Concat(argv, []string{r.image})[:max(1, len(argv))]))
	}
	r.roleFlags.over(given, &t.Spec.Roles[0], argv, &bad)
	if len(t.Spec.Roles) > 1 {
		for _, flag := range ofRole {
			if cmd.Flags().Changed(flag) {
				bad.Add("--"+flag, fault.T("The task has several roles; change them in its manifest.", "任务有多个角色，请在清单中修改。"))
			}
		}
		if len(argv) > 0 {
			bad.Add("COMMAND", fault.T("The task has several roles, each with its command; change them in its manifest.", "任务有多个角色，各有命令，请在清单中修改。"))
		}
	}
	if r.name != "" {
		t.Meta.Name = r.name
	}
	if r.displayName != "" {
		t.Meta.DisplayName = r.displayName
	}
	for flag, text := range map[string]struct {
		from string
		to   *string
	}{
		"priority-class": {r.priorityClass, &t.Spec.PriorityClass}, "queue": {r.queue, &t.Spec.Queue}, "image": {r.image, &t.Spec.Image},
	} {
		if given(flag) {
			*text.to = text.from
		}
	}
	if r.array != "" {
		_, _, err := array.ParseAtOnce(r.array)
		if wrong := (*array.Error)(nil); errors.As(err, &wrong) {
			bad.Add("--array", wrong.Text)
		} else {
			bad.Check("--array", err)
		}
	}
	if given("framework") {
		t.Spec.Framework = api.Framework(r.framework)
	}
	r.within(cmd, t, &bad)
	if cmd.Flags().Changed("priority") {
		t.Spec.Priority = &r.priority
	}
	if r.restarts != 0 {
		if t.Spec.Restart == nil {
			t.Spec.Restart = &api.RestartPolicy{}
		}
		t.Spec.Restart.MaxRestarts = r.restarts
	}
	r.place.Over(t)
	for _, name := range r.credentials {
		t.Spec.Credentials = append(t.Spec.Credentials, api.CredentialRef{Secret: name})
	}
	r.saves.Into(t, func(text string) *api.CheckpointFrom { return origin(&bad, text) }, bad.Add)
	if r.timeout != "" {
		d, err := api.ParseDuration(r.timeout)
		bad.Check("--timeout", err)
		if t.Spec.Timeouts == nil {
			t.Spec.Timeouts = &api.Timeouts{}
		}
		t.Spec.Timeouts.Run = d
	}
	if r.expected != "" {
		var err error
		t.Spec.ExpectedTime, err = api.ParseDuration(r.expected)
		bad.Check("--expected-time", err)
	}
	bad.Pairs("--hp", r.hp, func(k, v string) {
		if t.Spec.HyperParameters == nil {
			t.Spec.HyperParameters = map[string]any{}
		}
		t.Spec.HyperParameters[k] = word.Scalar(v)
	})
	return bad
}

// over puts the flags over a role.
func (r *roleFlags) over(given func(string) bool, role *api.Role, argv []string, bad *usage.Faults) {
	if len(argv) > 0 {
		role.Command, role.Args = argv[:1], argv[1:]
	}
	var err error
	if r.cpu != "" {
		role.Resources.CPU, err = api.ParseMilliCPU(r.cpu)
		bad.Check("--cpu", err)
	}
	if r.memory != "" {
		role.Resources.Memory, err = api.ParseBytes(r.memory)
		bad.Check("--memory", err)
	}
	if r.disk != "" {
		role.Resources.EphemeralDisk, err = api.ParseBytes(r.disk)
		bad.Check("--ephemeral-disk", err)
	}
	if given("processes") {
		role.Resources.Processes = r.processes
	}
	if given("replicas") {
		if role.Replicas = r.replicas; r.replicas < 1 {
			bad.Add("--replicas", fault.T("At least 1.", "至少为 1。"))
		}
	}
	if given("spares") {
		role.Spares = r.spares
	}
	if given("ranks") {
		if role.Ranks = r.ranks; r.ranks < 1 {
			bad.Add("--ranks", fault.T("At least 1.", "至少为 1。"))
		} else if r.ranks == 1 {
			role.Ranks = 0
		}
	}
	if given("gpus") {
		role.Resources.Accelerators.Count = r.gpus
	}
	if given("gpu-type") {
		role.Resources.Accelerators.Type = r.gpuType
	}
	bad.Pairs("--env", r.env, func(k, v string) {
		for i := range role.Env {
			if role.Env[i].Name == k {
				role.Env[i] = api.EnvVar{Name: k, Value: v}
				return
			}
		}
		role.Env = append(role.Env, api.EnvVar{Name: k, Value: v})
	})
}
