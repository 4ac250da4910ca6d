package service

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/api/v1/spot"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/cli/batch"
	"github.com/fermi-cluster/fermi/internal/cli/online"
	standing "github.com/fermi-cluster/fermi/internal/cli/where"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Add puts `fermi service` and `fermi chat` under root.
func Add(root *cobra.Command) {
	c := &cobra.Command{
		Use: "service", Aliases: []string{"svc", "services"}, Short: cli.Both("Inference services: what answers requests", "推理服务：对外应答请求"),
		Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(create(), update(), answers(), batch.Worker(), list(), get(), scale(), canary(), traffic(), figures(), slo(), promote(), rollback(), autoscale(), zones(),
		stopping("stop", true, "End its replicas; its address stays its own", "停止服务，保留地址"),
		stopping("start", false, "Let a stopped service answer again", "重新启动已停止的服务"), remove(), cli.Logs(serving.Kind, cli.Both("What its replicas print", "查看副本输出"), "  fermi service logs spirals -f"))
	c.GroupID = cli.GroupWork
	talk := chat()
	talk.GroupID = cli.GroupWork
	root.AddCommand(c, talk)
}

// where is who is asked.
type where struct{ online.Where }

func dial(cmd *cobra.Command) (*where, error) {
	w, err := online.Dial(cmd)
	return &where{w}, err
}

// with asks as the command's flags say.
func with(do func(cmd *cobra.Command, w *where, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		w, err := dial(cmd)
		if err != nil {
			return err
		}
		return do(cmd, w, args)
	}
}

// show writes a table.
func (w *where) show(rows [][]string, heads ...fault.Text) error {
	words := make([]string, len(heads))
	for i, h := range heads {
		words[i] = h.In(w.Lang)
	}
	return cli.Table(w.Cmd.OutOrStdout(), words, rows)
}

func (w *where) get(ctx context.Context, name string) (*serving.InferenceService, error) {
	return client.Get[*serving.InferenceService](ctx, w.Client, w.Project, name)
}

// wish are the flags of create and update.
type wish struct {
	engine, image, health, protocol string
	folder                          string
	contract
	replicas, port int
	timeout        time.Duration
	env, adapters  []string
	model          serving.ServiceModel
	each           amounts
	bounds         struct{ concurrency, queue int }
	options        serving.EngineOptions
}

// amounts are what each replica has.
type amounts struct {
	cpu, memory, accelerator string
	accelerators             int
	spot                     spot.Rule
	balance                  bool
}

func (w *wish) bind(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&w.engine, "engine", "", cli.Both("custom (a command of yours, when absent), sample, onnxruntime, triton, mlserver, torchserve, tensorflow-serving, llama-cpp, vllm or sglang", "引擎：custom（自己的命令，默认）、sample、onnxruntime、triton、mlserver、torchserve、tensorflow-serving、llama-cpp、vllm 或 sglang"))
	standing.Spot(f, &w.each.spot, cli.Both)
	f.BoolVar(&w.each.balance, "balance", false, cli.Both("each replica stands in the zone where most room for it is left", "每个副本放在剩余空位最多的可用区"))
	f.IntVar(&w.options.BatchSize, "batch-size", 0, cli.Both("requests that the engine works on together", "引擎合并处理的请求数"))
	f.IntVar(&w.options.MaxLength, "max-length", 0, cli.Both("tokens of question and answer together", "问题与回答的最大词元数"))
	f.StringVar(&w.options.Precision, "precision", "", cli.Both("auto, float32, float16 or bfloat16", "精度：auto、float32、float16 或 bfloat16"))
	f.IntVar(&w.options.TensorParallel, "tensor-parallel", 0, cli.Both("accelerators that share each layer", "张量并行数"))
	f.IntVar(&w.options.PipelineParallel, "pipeline-parallel", 0, cli.Both("groups of layers, each on accelerators of its own", "流水线并行数"))
	f.StringVar(&w.model.Name, "model", "", cli.Both("model that it answers with, NAME or NAME@VERSION: mounted at /models/NAME, which is $FERMI_MODEL", "所用模型，NAME 或 NAME@VERSION：挂载于 /models/NAME，即 $FERMI_MODEL"))
	f.StringVar(&w.model.Task, "model-task", "", cli.Both("training task whose output is the model", "以该训练任务的产出为模型"))
	f.StringVar(&w.model.File, "model-file", "", cli.Both("file of the model (model.json when absent)", "模型文件（默认 model.json）"))
	f.StringArrayVar(&w.adapters, "adapter", nil, cli.Both("LoRA adapter ADAPTER=MODEL[@VERSION]: answers who asks the model NAME:ADAPTER; may be repeated, ADAPTER= takes it away", "LoRA 适配器 ADAPTER=MODEL[@VERSION]：以模型名 NAME:ADAPTER 调用；可重复，ADAPTER= 表示移除"))
	f.StringVar(&w.folder, "folder", "", cli.Both("folder of the machines where it runs, as NAME/path of one that the project was granted", "在该机器文件夹中运行，形如 NAME/path，须已授权给项目"))
	f.StringVar(&w.image, "image", "", cli.Both("image that it runs in; the node's own system when absent", "镜像；不填则使用节点自身的系统"))
	f.IntVar(&w.replicas, "replicas", 0, cli.Both("how many answer side by side", "副本数"))
	f.IntVar(&w.port, "port", 0, cli.Both("port that the command listens on; $PORT when absent", "命令监听的端口；不填则为 $PORT"))
	f.StringVar(&w.health, "health", "", cli.Both("path that says whether it answers, such as /healthz", "健康检查路径，如 /healthz"))
	f.StringVar(&w.each.cpu, "cpu", "", cli.Both("cores of a replica, as 4 or 500m", "每个副本的 CPU 核数，如 4 或 500m"))
	f.StringVar(&w.each.memory, "memory", "", cli.Both("memory of a replica, as 16Gi", "每个副本的内存，如 16Gi"))
	f.IntVar(&w.each.accelerators, "accelerators", 0, cli.Both("accelerators of a replica", "每个副本的加速卡数量"))
	f.StringVar(&w.each.accelerator, "accelerator", "", cli.Both("their type, such as A100", "加速卡型号，如 A100"))
	f.StringVar(&w.protocol, "protocol", "", cli.Both("rest, grpc or websocket", "协议：rest、grpc 或 websocket"))
	f.DurationVar(&w.timeout, "timeout", 0, cli.Both("until the first byte of an answer", "首字节时限"))
	f.IntVar(&w.bounds.concurrency, "max-concurrency", 0, cli.Both("requests a replica works on at once", "每个副本的并发请求数"))
	f.IntVar(&w.bounds.queue, "max-queue", 0, cli.Both("requests that wait for each replica", "每个副本的排队请求数"))
	f.StringArrayVar(&w.env, "env", nil, cli.Both("variable NAME=VALUE; may be repeated", "环境变量 NAME=VALUE，可重复"))
}

// into puts what was given into a spec.
func (w *wish) into(s *serving.ServiceSpec, command []string) error {
	t := &s.Template
	set := func(to *string, text string) {
		if text != "" {
			*to = text
		}
	}
	number := func(to *int, n int) {
		if n != 0 {
			*to = n
		}
	}
	if w.engine != "" {
		t.Engine = serving.Engine(w.engine)
	}
	if w.model != (serving.ServiceModel{}) {
		model := serving.ServiceModel{}
		if t.Model != nil {
			model = *t.Model
		}
		if w.model.Name != "" {
			model.Name, model.Version, _ = strings.Cut(w.model.Name, "@")
			model.Task = ""
		}
		if w.model.Task != "" {
			model.Name, model.Version, model.Task = "", "", w.model.Task
			t.Models = nil
		}
		set(&model.File, w.model.File)
		t.Model = &model
	}
	for _, text := range w.adapters {
		name, what, ok := strings.Cut(text, "=")
		if !ok {
			return wrong("--adapter", "It is written ADAPTER=MODEL or ADAPTER=MODEL@VERSION.", "应写作 ADAPTER=MODEL 或 ADAPTER=MODEL@VERSION。")
		}
		t.Adapters = slices.DeleteFunc(slices.Clone(t.Adapters), func(a serving.Adapter) bool { return a.Name == name })
		if model, version, _ := strings.Cut(what, "@"); model != "" {
			t.Adapters = append(t.Adapters, serving.Adapter{Name: name, Model: model, Version: version})
		}
	}
	if w.options != (serving.EngineOptions{}) {
		o := serving.EngineOptions{}
		if t.Options != nil {
			o = *t.Options
		}
		number(&o.BatchSize, w.options.BatchSize)
		number(&o.MaxLength, w.options.MaxLength)
		set(&o.Precision, w.options.Precision)
		number(&o.TensorParallel, w.options.TensorParallel)
		number(&o.PipelineParallel, w.options.PipelineParallel)
		t.Options = &o
	}
	if w.folder != "" {
		t.Code = &api.Code{Folder: w.folder}
	}
	set(&t.Image, w.image)
	number(&s.Replicas, w.replicas)
	number(&t.Port, w.port)
	if w.health != "" {
		h := serving.ServiceHealth{}
		if t.Health != nil {
			h = *t.Health
		}
		h.Path = w.health
		t.Health = &h
	}
	set((*string)(&t.Spot), string(w.each.spot))
	t.Balance = t.Balance || w.each.balance
	number(&t.Resources.Accelerators.Count, w.each.accelerators)
	set(&t.Resources.Accelerators.Type, w.each.accelerator)
	if w.protocol != "" {
		s.Protocol = serving.Protocol(w.protocol)
	}
	if err := w.contract.into(s); err != nil {
		return err
	}
	if w.timeout != 0 {
		s.Timeout = api.Duration(w.timeout)
	}
	number(&s.MaxConcurrency, w.bounds.concurrency)
	number(&s.MaxQueue, w.bounds.queue)
	if len(command) > 0 && t.Engine == serving.EngineSample {
		t.Args = command
	} else if len(command) > 0 {
		t.Command, t.Args = command, nil
	}
	return online.All(online.Amount("cpu", w.each.cpu, &t.Resources.CPU), online.Amount("memory", w.each.memory, &t.Resources.Memory), online.Variables(w.env, func(name, value string) {
		t.Env = append(without(t.Env, name), api.EnvVar{Name: name, Value: value})
	}))
}

func without(env []api.EnvVar, name string) (out []api.EnvVar) {
	for _, v := range env {
		if v.Name != name {
			out = append(out, v)
		}
	}
	return out
}

// fieldFlags are the arguments behind the fields of a service.
var fieldFlags = strings.NewReplacer(
	"metadata.name", "NAME", "spec.template.engine", "--engine", "spec.template.image", "--image", "spec.template.resources.accelerators.count", "--accelerators",
	"spec.template.resources.accelerators.type", "--accelerator", "spec.template.resources.cpu", "--cpu", "spec.template.resources.memory", "--memory", "spec.template.env", "--env",
	"spec.template.options.batchSize", "--batch-size", "spec.template.options.maxLength", "--max-length", "spec.template.options.precision", "--precision",
	"spec.template.options.tensorParallel", "--tensor-parallel", "spec.template.options.pipelineParallel", "--pipeline-parallel", "spec.template.port", "--port", "spec.template.spot", "--spot", "spec.template.health.path", "--health", "spec.template.model.task", "--model-task", "spec.template.model.name", "--model", "spec.traffic.canary.steps", "--steps", "spec.traffic.canary.check", "--check", "spec.autoscale.minReplicas", "--min", "spec.autoscale.maxReplicas", "--max", "spec.autoscale.metrics", "--metric", "spec.template.model.file", "--model-file",
	"spec.template.command", "COMMAND", "spec.template.code.folder", "--folder", "spec.replicas", "--replicas", "spec.protocol", "--protocol", "spec.path", "--path", "spec.format", "--format", "spec.schema", "--schema", "spec.timeout", "--timeout", "spec.maxConcurrency", "--max-concurrency", "spec.maxQueue", "--max-queue",
)

func create() *cobra.Command {
	var given wish
	var noWait bool
	var zones []string
	c := &cobra.Command{
		Use: "create NAME [-- COMMAND…]", Short: cli.Both("Make a service and wait until it answers", "创建服务并等待其应答"), Args: cobra.MinimumNArgs(1),
		Example: "  fermi service create spirals --engine sample --model-task spiral --replicas 2\n  fermi service create echo --health /healthz --zone beijing-1=2:80 --zone shanghai-1=1:20 -- python3 server.py",
		RunE: with(func(cmd *cobra.Command, w *where, args []string) (err error) {
			s := &serving.InferenceService{Meta: api.Meta{Name: args[0], Project: w.Project}}
			if err := given.into(&s.Spec, args[1:]); err != nil {
				return err
			}
			if s.Spec.Zones, err = stand(nil, zones, nil, nil); err != nil {
				return err
			}
			made, err := client.Create(cmd.Context(), w.Client, s)
			if err != nil {
				return online.ByFlag(err, fieldFlags)
			}
			fmt.Fprintln(cmd.OutOrStdout(), made.Meta.Name)
			if noWait {
				return nil
			}
			return w.untilReady(cmd.Context(), made.Meta.Name)
		}),
	}
	given.bind(c)
	given.contract.bind(c.Flags())
	c.Flags().BoolVar(&noWait, "no-wait", false, cli.Both("don't wait until it answers", "不等待其应答"))
	c.Flags().StringArrayVar(&zones, "zone", nil, cli.Both("zone where it stands, as ZONE[=REPLICAS[:WEIGHT]]; may be repeated; fermi service zones says more", "部署的可用区 ZONE[=REPLICAS[:WEIGHT]]，可重复；更多设置见 fermi service zones"))
	return c
}

const lookEvery = 100 * time.Millisecond

// untilReady waits until all replicas of the newest wish answer, and says what it waits for.
func (w *where) untilReady(ctx context.Context, name string) error {
	told := ""
	return w.until(ctx, name, func(s *serving.InferenceService) (bool, error) {
		st := &s.Status
		if st.Phase == api.PhaseFailed {
			return false, fault.New(fault.Conflict, "NotRunning", fault.T("The service %s does not answer: %s", "服务 %s 未应答：%s", name, st.Message.In(w.Lang)))
		}
		if st.Reason == "Canary" || st.Reason == "Idle" {
			w.Say("%s: %s", "%s：%s", name, st.Message.In(w.Lang))
			return true, nil
		}
		if st.Reason == "RevisionFailed" {
			return false, fault.New(fault.Conflict, "RevisionFailed", fault.T("%s", "%s", st.Message.In(w.Lang)))
		}
		if said := st.Message.In(w.Lang); said != told && told != "" {
			w.Say("%s: %s", "%s：%s", name, said)
		}
		told = st.Message.In(w.Lang)
		return st.Reason == "Ready" && st.Replicas.Updated >= wanted(s) && st.Replicas.Wanted == wanted(s) && st.Replicas.Total == wanted(s), nil
	})
}

// wanted is how many replicas there shall be.
func wanted(s *serving.InferenceService) int {
	if s.Spec.Autoscale != nil {
		return s.Status.Replicas.Wanted
	}
	return s.Spec.Replicas
}

func (w *where) until(ctx context.Context, name string, ok func(*serving.InferenceService) (bool, error)) error {
	return online.Until(ctx, lookEvery, func() (*serving.InferenceService, error) { return w.get(ctx, name) }, ok)
}

// change reads a service, changes it and writes it, and again when its controller was faster.
func (w *where) change(ctx context.Context, name string, how func(*serving.ServiceSpec) error) error {
	const tries = 20
	for try := 1; ; try++ {
		s, err := w.get(ctx, name)
		if err != nil {
			return err
		}
		if err := how(&s.Spec); err != nil {
			return err
		}
		if _, err = client.Update(ctx, w.Client, s); fault.ReasonOf(err) != "Stale" || try == tries {
			return online.ByFlag(err, fieldFlags)
		}
	}
}

func update() *cobra.Command {
	var given wish
	var noWait bool
	c := &cobra.Command{
		Use: "update NAME [-- COMMAND…]", Short: cli.Both("Change a service; new replicas take over one by one", "修改服务，新副本逐个接替"), Args: cobra.MinimumNArgs(1),
		Example: "  fermi service update spirals --model-task spiral-2",
		RunE: with(func(cmd *cobra.Command, w *where, args []string) error {
			if err := w.change(cmd.Context(), args[0], func(s *serving.ServiceSpec) error { return given.into(s, args[1:]) }); err != nil || noWait {
				return err
			}
			return w.settled(cmd.Context(), args[0])
		}),
	}
	given.bind(c)
	given.contract.bind(c.Flags())
	c.Flags().BoolVar(&noWait, "no-wait", false, cli.Both("don't wait until the new replicas have taken over", "不等待新副本接替"))
	return c
}

// settled waits until a change that was just made is carried out: its controller has seen it, and all replicas answer.
func (w *where) settled(ctx context.Context, name string) error {
	select { // the controller sees it in milliseconds; before that the old state looks settled
	case <-ctx.Done():
		return fault.From(ctx.Err())
	case <-time.After(3 * lookEvery):
	}
	return w.untilReady(ctx, name)
}

func scale() *cobra.Command {
	var noWait bool
	c := &cobra.Command{
		Use: "scale NAME REPLICAS", Short: cli.Both("Change how many replicas answer", "修改副本数"), Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[1])
			if err != nil {
				return fault.New(fault.Invalid, "BadNumber", fault.T("%q is no number of replicas.", "%q 不是合法的副本数。", args[1]))
			}
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			if err := w.change(cmd.Context(), args[0], func(s *serving.ServiceSpec) error { return scaleTo(s, n) }); err != nil || noWait {
				return err
			}
			return w.settled(cmd.Context(), args[0])
		},
	}
	c.Flags().BoolVar(&noWait, "no-wait", false, cli.Both("don't wait until it is so", "不等待完成"))
	return c
}

// scaleTo has a service stand on so many replicas, where that is its own to say.
func scaleTo(s *serving.ServiceSpec, n int) error {
	switch {
	case len(s.Zones) > 0:
		return fault.New(fault.Invalid, "ScaledByZones", fault.T("Its zones say how many replicas stand in each.", "该服务的副本数由各可用区分别设定。")).
			WithHint(fault.T("Say it by zone: fermi service zones NAME ZONE=REPLICAS ….", "按可用区设置：fermi service zones NAME ZONE=REPLICAS …。"))
	case s.Autoscale != nil:
		return fault.New(fault.Invalid, "ScaledByLoad", fault.T("It has as many replicas as it needs, within the bounds of its autoscaling.", "该服务已启用自动伸缩，副本数在其上下限内自动调整。")).
			WithHint(fault.T("Change the bounds, fermi service autoscale NAME --min N --max N, or end it: --off.", "修改上下限：fermi service autoscale NAME --min N --max N；关闭：--off。"))
	}
	s.Replicas = n
	return nil
}

func stopping(word string, stop bool, en, zh string) *cobra.Command {
	var noWait bool
	c := &cobra.Command{
		Use: word + " NAME", Short: cli.Both(en, zh), Args: cobra.ExactArgs(1),
		RunE: with(func(cmd *cobra.Command, w *where, args []string) error {
			if err := w.change(cmd.Context(), args[0], func(s *serving.ServiceSpec) error { s.Stop = stop; return nil }); err != nil || noWait {
				return err
			}
			if !stop {
				return w.settled(cmd.Context(), args[0])
			}
			return w.until(cmd.Context(), args[0], func(s *serving.InferenceService) (bool, error) { return s.Status.Phase == api.PhaseStopped, nil })
		}),
	}
	c.Flags().BoolVar(&noWait, "no-wait", false, cli.Both("don't wait until it is so", "不等待完成"))
	return c
}

func remove() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use: "delete NAME", Short: cli.Both("End a service for good", "删除服务"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !yes {
				return fault.New(fault.Invalid, "NotConfirmed", fault.T("This ends the service and gives its address up; say --yes.", "将停止服务并释放其地址，请使用 --yes 确认。"))
			}
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			return w.Delete(cmd.Context(), serving.Kind, w.Project, args[0])
		},
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, cli.Both("it is meant", "确认删除"))
	return c
}

func list() *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: cli.Both("List services", "列出服务"), Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !online.IsTable(cmd) {
				return online.Plainly(cmd, "service")
			}
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			page, err := client.List[*serving.InferenceService](cmd.Context(), w.Client, client.ListOptions{Project: w.Project, Limit: 500, Sort: "name"})
			if err != nil {
				return err
			}
			return w.table(page.Items...)
		},
	}
}

func get() *cobra.Command {
	return &cobra.Command{
		Use: "get NAME", Short: cli.Both("Show a service and its replicas", "查看服务及其副本"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !online.IsTable(cmd) {
				return online.Plainly(cmd, "service", args[0])
			}
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			s, err := w.get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if err := w.table(s); err != nil {
				return err
			}
			return w.replicas(s)
		},
	}
}

var stateWords = map[api.Phase]fault.Text{
	serving.PhaseDeploying: fault.T("Deploying", "部署中"), api.PhaseRunning: fault.T("Running", "运行中"), api.PhaseStopped: fault.T("Stopped", "已停止"), api.PhaseFailed: fault.T("Failed", "失败"),
}

// table shows services to people.
func (w *where) table(list ...*serving.InferenceService) error {
	var rows [][]string
	for _, s := range list {
		state := stateWords[s.Status.Phase].In(w.Lang)
		if s.Status.Health == serving.Degraded {
			state += fault.T(" (degraded)", "（降级）").In(w.Lang)
		}
		rows = append(rows, []string{
			s.Meta.Name, state, fmt.Sprintf("%d/%d", s.Status.Replicas.Ready, wanted(s)), strconv.Itoa(s.Status.Revision), string(s.Spec.Template.Engine),
			w.Server() + s.Status.URL, s.Status.Message.In(w.Lang),
		})
	}
	return w.show(rows, fault.T("NAME", "名称"), fault.T("STATE", "状态"), fault.T("READY", "应答"), fault.T("REVISION", "修订版"), fault.T("ENGINE", "引擎"), fault.T("URL", "地址"), fault.T("MESSAGE", "说明"))
}

func (w *where) replicas(s *serving.InferenceService) error {
	page, err := client.List[*serving.ServiceReplica](w.Cmd.Context(), w.Client, client.ListOptions{Project: s.Meta.Project, Limit: 500, Sort: "name"})
	if err != nil {
		return err
	}
	var rows [][]string
	for _, r := range page.Items {
		if r.Spec.ServiceID != s.Meta.ID {
			continue
		}
		ready := fault.T("no", "否")
		if r.Status.Ready {
			ready = fault.T("yes", "是")
		}
		rows = append(rows, []string{r.Meta.Name, string(r.Status.Phase), ready.In(w.Lang), strconv.Itoa(r.Spec.Revision), r.Status.Node, r.Status.Message.In(w.Lang)})
	}
	fmt.Fprintln(w.Cmd.OutOrStdout())
	return w.show(rows, fault.T("REPLICA", "副本"), fault.T("PHASE", "阶段"), fault.T("READY", "应答"), fault.T("REVISION", "修订版"), fault.T("NODE", "节点"), fault.T("MESSAGE", "说明"))
}
