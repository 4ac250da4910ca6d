package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/array"
	"github.com/fermi-cluster/fermi/internal/cli/reading"
	"github.com/fermi-cluster/fermi/internal/cli/word"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// runFlags are those of `train run`.
type runFlags struct {
	name, displayName, code         string
	file, framework, requirements   string
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
	span                            struct{ timeout, expected string }
	array                           string
	saves                           reading.Keeping
}

func (r *runFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.framework, "framework", "", Both("launch recipe: pytorch-ddp, deepspeed, … (all: fermi train recipe --help); plain when absent", "启动方式：pytorch-ddp、deepspeed 等（全部见 fermi train recipe --help）；默认 plain"))
	f.StringVar(&r.name, "name", "", Both("name of the task; made from the display name when absent", "任务名称；默认由显示名生成"))
	f.StringVar(&r.displayName, "display-name", "", Both("name shown to people; the command when absent", "显示名；默认取命令"))
	f.StringVar(&r.code, "code", "", Both("folder to send along; the current one when absent", "随任务发送的文件夹；默认当前文件夹"))
	f.StringVar(&r.requirements, "requirements", "", Both("file in the code, such as requirements.txt or pyproject.toml: what it names is installed before the start; for commands that begin with python, without an image", "代码中的依赖文件，如 requirements.txt 或 pyproject.toml：启动前安装其中的包；用于以 python 开头且不使用镜像的命令"))
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
	r.saves.Bind(f, Both)
	f.StringVar(&r.span.timeout, "timeout", "", Both("longest run, such as 2h", "最长运行时间，如 2h"))
	f.StringVar(&r.span.expected, "expected-time", "", Both("how long it will run, about, such as 6h; for price and order", "预计运行时间，如 6h；用于计价与排序"))
	f.StringVar(&r.array, "array", "", Both("the task once for each index, each with its own in $FERMI_ARRAY_INDEX: 1-100, 0-9:3 or 1,4,7-9; with %N only N of them at once: 1-100%10", "按序号各运行一次，序号位于 $FERMI_ARRAY_INDEX：1-100、0-9:3 或 1,4,7-9；加 %N 限制同时运行数：1-100%10"))
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
	var index *array.Error
	switch {
	case err == nil:
	case errors.As(err, &index):
		f.add(flag, index.Text)
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

// roleFlags are those that speak of the one role of a task.
var roleFlags = []string{"replicas", "spares", "ranks", "gpus", "gpu-type", "cpu", "memory", "ephemeral-disk", "processes", "env"}

// over puts what the flags say over a task, without its code: a new one, or one of a manifest or of an earlier run, of which
// only what was given changes. It collects all that is wrong.
func (r *runFlags) over(cmd *cobra.Command, t *api.TrainingTask, argv []string) (bad faults) {
	fresh := len(t.Spec.Roles) == 0
	given := func(flag string) bool { return fresh || cmd.Flags().Changed(flag) }
	if fresh {
		t.Spec.Roles = []api.Role{{}}
		t.Meta.DisplayName = first(r.displayName, r.name, word.Title(slices.Concat(argv, []string{r.image})[:max(1, len(argv))]))
	}
	r.role(given, &t.Spec.Roles[0], argv, &bad)
	if len(t.Spec.Roles) > 1 {
		for _, flag := range roleFlags {
			if cmd.Flags().Changed(flag) {
				bad.add("--"+flag, fault.T("The task has several roles; change them in its manifest.", "任务有多个角色，请在清单中修改。"))
			}
		}
		if len(argv) > 0 {
			bad.add("COMMAND", fault.T("The task has several roles, each with its command; change them in its manifest.", "任务有多个角色，各有命令，请在清单中修改。"))
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
		bad.check("--array", err)
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
	if len(r.zones) > 0 {
		if t.Spec.Zones == nil {
			t.Spec.Zones = &api.ZoneRules{}
		}
		t.Spec.Zones.Allow = r.zones
	}
	for _, name := range r.credentials {
		t.Spec.Credentials = append(t.Spec.Credentials, api.CredentialRef{Secret: name})
	}
	r.saves.Into(t, bad.origin, bad.add)
	if r.span.timeout != "" {
		d, err := api.ParseDuration(r.span.timeout)
		bad.check("--timeout", err)
		if t.Spec.Timeouts == nil {
			t.Spec.Timeouts = &api.Timeouts{}
		}
		t.Spec.Timeouts.Run = d
	}
	if r.span.expected != "" {
		var err error
		t.Spec.ExpectedTime, err = api.ParseDuration(r.span.expected)
		bad.check("--expected-time", err)
	}
	bad.pairs("--hp", r.hp, func(k, v string) {
		if t.Spec.HyperParameters == nil {
			t.Spec.HyperParameters = map[string]any{}
		}
		t.Spec.HyperParameters[k] = word.Scalar(v)
	})
	return bad
}

// role puts the flags that speak of a role over it.
func (r *runFlags) role(given func(string) bool, role *api.Role, argv []string, bad *faults) {
	if len(argv) > 0 {
		role.Command, role.Args = argv[:1], argv[1:]
	}
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
	if given("processes") {
		role.Resources.Processes = r.processes
	}
	if given("replicas") {
		if role.Replicas = r.replicas; r.replicas < 1 {
			bad.add("--replicas", fault.T("At least 1.", "至少为 1。"))
		}
	}
	if given("spares") {
		role.Spares = r.spares
	}
	if given("ranks") {
		if role.Ranks = r.ranks; r.ranks < 1 {
			bad.add("--ranks", fault.T("At least 1.", "至少为 1。"))
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
	bad.pairs("--env", r.env, func(k, v string) {
		for i := range role.Env {
			if role.Env[i].Name == k {
				role.Env[i] = api.EnvVar{Name: k, Value: v}
				return
			}
		}
		role.Env = append(role.Env, api.EnvVar{Name: k, Value: v})
	})
}
