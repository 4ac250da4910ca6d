package service

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/cli/batch"
	"github.com/fermi-cluster/fermi/internal/cli/online"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// batchOf are the flags of a batch beside those of its engine.
type batchOf struct {
	name, in, out  string
	path           string
	part, restarts int
	queue          string
}

// answers is `fermi service batch`.
func answers() *cobra.Command {
	var given wish
	var b batchOf
	c := &cobra.Command{
		Use:   "batch [SERVICE] --input DATASET[@VERSION] --output DATASET [-- COMMAND…]",
		Short: cli.Both("Answer all questions of a dataset, as a task with the engine of a service or one of its own; the answers are a version of a dataset", "批量推理：以服务的引擎或指定引擎运行任务，回答数据集中的全部问题，结果保存为数据集版本"),
		Long: cli.Both(`Each line of the dataset's *.jsonl files is a question: the body of a request, or {"custom_id", "url", "body"} as in OpenAI's
batch files. Each line of the answers is {"custom_id", "response": {"status_code", "body"}, "error"}. A service need not run for it.`,
			`数据集中每个 *.jsonl 文件的每一行是一个问题：请求体，或 OpenAI 批处理文件的 {"custom_id", "url", "body"}。结果的每一行为
{"custom_id", "response": {"status_code", "body"}, "error"}。服务无需处于运行状态。`),
		Example: "  fermi service batch spirals --input points --output arms\n  fermi service batch --engine onnxruntime --model files --model-file model.onnx --input questions@3 --output answers --replicas 4",
		Args: func(cmd *cobra.Command, args []string) error {
			if n := cmd.ArgsLenAtDash(); n > 1 || n < 0 && len(args) > 1 {
				return fault.New(fault.Invalid, "Usage", fault.T("Name one service; a command stands behind --.", "只能指定一个服务；命令写在 -- 之后。"))
			}
			return nil
		},
		RunE: with(func(cmd *cobra.Command, w *where, args []string) error {
			s, command := &serving.InferenceService{Meta: api.Meta{Name: "batch", Project: w.Project}}, args
			if n := cmd.ArgsLenAtDash(); n == 1 || n < 0 && len(args) == 1 {
				found, err := w.get(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				s, command = found, args[1:]
				if newest := found.Status.Canary; newest != nil && newest.Verdict == "" { // what is being tried answers nothing that stays
					return fault.New(fault.Conflict, "Canary", fault.T("Revision %d of the service is a canary: promote it or roll it back first.", "服务的修订版 %d 仍在灰度：请先全量发布或回滚。", newest.Revision))
				}
				b.path = cmp.Or(b.path, found.Spec.Path)
				s.Spec = serving.ServiceSpec{Template: found.Spec.Template, Contract: serving.Contract{Protocol: found.Spec.Protocol}, MaxConcurrency: found.Spec.MaxConcurrency, Priority: found.Spec.Priority}
			}
			t, err := b.task(s, &given, command)
			if err != nil {
				return err
			}
			made, err := w.Submit(cmd.Context(), t, false)
			if err != nil {
				return online.ByFlag(err, batchFlags)
			}
			fmt.Fprintln(cmd.OutOrStdout(), made.Name)
			w.Say("Follow it: fermi logs -f %[1]s. Its answers will be the next version of the dataset %[2]s.", "跟踪：fermi logs -f %[1]s。结果将成为数据集 %[2]s 的新版本。", made.Name, b.out)
			return nil
		}),
	}
	given.bind(c)
	f := c.Flags()
	f.StringVar(&b.name, "name", "", cli.Both("name of the task; made when absent", "任务名称；默认自动生成"))
	f.StringVar(&b.in, "input", "", cli.Both("dataset of the questions, NAME or NAME@VERSION", "问题数据集，NAME 或 NAME@VERSION"))
	f.StringVar(&b.out, "output", "", cli.Both("dataset of the answers; it is made where there is none", "结果数据集；不存在时自动创建"))
	f.StringVar(&b.path, "path", "", cli.Both("where questions are posted to; the engine's own when absent", "问题提交的路径；默认为引擎自身的路径"))
	f.IntVar(&b.part, "part", 1000, cli.Both("answers of a file that is left", "每个结果文件的行数"))
	f.IntVar(&b.restarts, "restarts", 5, cli.Both("restarts allowed within an hour; what was answered is not asked again", "一小时内允许的重启次数；已有结果的问题不会重新提交"))
	f.StringVar(&b.queue, "queue", "", cli.Both("queue; the project's when absent", "队列；默认取项目的队列"))
	for _, name := range []string{"input", "output"} {
		_ = c.MarkFlagRequired(name)
	}
	return c
}

// batchFlags are the arguments behind the fields of its task.
var batchFlags = strings.NewReplacer(
	"spec.datasets[0]", "--input", "spec.outputs.dataset.name", "--output", "spec.roles[0].replicas", "--replicas", "spec.roles[0].resources.accelerators.count", "--accelerators",
	"spec.roles[0].resources.accelerators.type", "--accelerator", "spec.roles[0].resources.cpu", "--cpu", "spec.roles[0].resources.memory", "--memory", "spec.roles[0].env", "--env",
	"spec.roles[0].image", "--image", "spec.models[0]", "--model", "spec.code.folder", "--folder", "spec.queue", "--queue", "metadata.name", "--name",
)

// wrong is a refusal of one flag.
func wrong(flag, en, zh string, args ...any) error {
	why := fault.T(en, zh, args...)
	return fault.New(fault.Invalid, "Usage", why).WithFields(fault.Field{Path: flag, Message: why})
}

// task is what answers the questions: in each replica a worker, which starts the engine beside itself.
func (b *batchOf) task(s *serving.InferenceService, given *wish, command []string) (*api.TrainingTask, error) {
	if err := given.into(&s.Spec, command); err != nil {
		return nil, err
	}
	t := &s.Spec.Template
	switch {
	case given.model.Task != "":
		return nil, wrong("--model-task", "A batch answers with a model of the registry: --model, or with a service that has the task's model.", "批量推理使用模型仓库中的模型：请使用 --model，或使用已加载该任务产出的服务。")
	case s.Spec.Protocol == serving.GRPC || t.Options != nil && t.Options.GRPC:
		return nil, wrong("--protocol", "A batch asks by HTTP; choose an engine or a service of protocol rest.", "批量推理使用 HTTP：请选择协议为 rest 的引擎或服务。")
	case t.IsGang():
		return nil, wrong("SERVICE", "Its replicas are gangs; a batch starts an engine in each of its own replicas: say --engine and --model.", "该服务的副本由多个成员组成；批量推理在每个副本内启动引擎：请使用 --engine 和 --model。")
	case b.part < 1 || b.part > 1_000_000:
		return nil, wrong("--part", "%d is out of range: 1 to 1000000 are allowed.", "%d 超出范围：允许 1 到 1000000。", b.part)
	}
	s.Spec.Replicas = cmp.Or(given.replicas, 1)
	t.MountModel()
	t.Fill()
	s.Default()
	if bad := s.Validate(); len(bad) > 0 {
		return nil, online.ByFlag(fault.New(fault.Invalid, "InvalidField", fault.T("Some fields are wrong.", "部分字段有误。")).WithFields(bad...), fieldFlags)
	}
	path := cmp.Or(b.path, t.AskedAt(s.Meta.Name))
	if !strings.HasPrefix(path, "/") {
		return nil, wrong("--path", "Say where questions are posted to, such as --path /predict.", "请指明问题提交的路径，例如 --path /predict。")
	}
	work := batch.Work{Path: path, Concurrency: s.Spec.MaxConcurrency, Part: b.part, Timeout: time.Hour}
	if given.timeout != 0 {
		work.Timeout = given.timeout
	}
	if t.Health != nil {
		work.Health = t.Health.Path
	}
	role := s.Workload().Roles[0]
	role.Command, role.Args = slices.Concat([]string{"fermi", "service", batch.Word}, work.Flags(), []string{"--"}, role.Command, role.Args), nil
	role.Name, role.Standby = "", nil
	in, version, _ := strings.Cut(b.in, "@")
	out := &api.TrainingTask{
		Meta: api.Meta{Name: b.name, Project: s.Meta.Project, DisplayName: "batch " + b.in + " → " + b.out},
		Spec: api.TrainingTaskSpec{
			Roles: []api.Role{role}, Queue: b.queue, Code: t.Code, Credentials: t.Credentials, Models: t.Models,
			Datasets: append([]mount.AssetRef{{Name: in, Version: version}}, slices.DeleteFunc(slices.Clone(t.Datasets), func(r mount.AssetRef) bool { return r.Name == in })...),
			Outputs:  &api.Outputs{Leaves: mount.Leaves{Dataset: &mount.Output{Name: b.out, Path: "answers"}}},
			Restart:  &api.RestartPolicy{MaxRestarts: b.restarts},
		},
	}
	return out, nil
}
