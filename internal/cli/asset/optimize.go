package asset

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/cli/online"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// better is what `fermi model optimize` was asked for.
type better struct {
	to, file, shape, data, leaves string
	python, folder, image         string
	cpu, memory, name             string
	maxLoss                       float64
}

// optimize is `fermi model optimize`.
func optimize() *cobra.Command {
	var b better
	c := &cobra.Command{
		Use:   "optimize NAME[@VERSION] --to int8|uint8|onnx",
		Short: cli.Both("Make a smaller or faster version, with speed and accuracy measured beside the old one's", "模型加速：生成更小或更快的新版本，并与原版本对比测量速度与精度"),
		Long: cli.Both(`A task quantises the weights of an ONNX model (int8, uint8), or exports a TorchScript module (onnx), measures both in turns on the same machine,
and leaves a new version whose metadata has the figures: fermi model show. It needs python3 with onnxruntime, onnx and numpy where it runs
(--python, --image), for --to onnx also torch. Accuracy needs a dataset of *.npz files: arrays by the names of the inputs, and label.`,
			`任务将 ONNX 模型的权重量化（int8、uint8），或将 TorchScript 模块导出为 ONNX（onnx），在同一机器上交替测量两者，
并生成元数据中带有测量结果的新版本：fermi model show。运行环境（--python、--image）需有 python3、onnxruntime、onnx 和 numpy，
--to onnx 还需 torch。精度需要由 *.npz 文件组成的数据集：按输入名称命名的数组，以及 label。`),
		Example: "  fermi model optimize files --to int8 --data labelled --max-loss 1\n  fermi model optimize net@3 --to onnx --shape 1,3,224,224 --output-model net-onnx",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := online.Dial(cmd)
			if err != nil {
				return err
			}
			t, err := b.task(args[0], w.Project, cmd.Flags().Changed("max-loss"))
			if err != nil {
				return err
			}
			made, err := w.Submit(cmd.Context(), t, false)
			if err != nil {
				return online.ByFlag(err, optimizeFlags)
			}
			fmt.Fprintln(cmd.OutOrStdout(), made.Name)
			w.Say("Follow it: fermi logs -f %[1]s. Then: fermi model show %[2]s.", "跟踪：fermi logs -f %[1]s。完成后：fermi model show %[2]s。", made.Name, t.Spec.Outputs.Model.Name)
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&b.to, "to", "", cli.Both("int8, uint8 or onnx", "int8、uint8 或 onnx"))
	f.StringVar(&b.file, "file", "", cli.Both("file of the version; the one *.onnx (or *.pt) that it has when absent", "版本中的文件；默认为其中唯一的 *.onnx（或 *.pt）"))
	f.StringVar(&b.shape, "shape", "", cli.Both("of an input, for --to onnx: 1,3,224,224", "输入形状，用于 --to onnx：1,3,224,224"))
	f.StringVar(&b.data, "data", "", cli.Both("dataset to measure with, NAME or NAME@VERSION; random inputs when absent", "用于测量的数据集，NAME 或 NAME@VERSION；默认使用随机输入"))
	f.Float64Var(&b.maxLoss, "max-loss", 0, cli.Both("percentage points of accuracy (without labels: of agreement) that may be lost; no version is made beyond it", "允许损失的精度百分点（无标签时为一致率）；超过则不生成版本"))
	f.StringVar(&b.leaves, "output-model", "", cli.Both("model that gets the new version; the same one when absent", "新版本所属的模型；默认为同一模型"))
	f.StringVar(&b.python, "python", "python3", cli.Both("interpreter with onnxruntime, onnx and numpy", "装有 onnxruntime、onnx 和 numpy 的解释器"))
	f.StringVar(&b.folder, "folder", "", cli.Both("folder of the machines where it runs, as NAME/path", "在该机器文件夹中运行，形如 NAME/path"))
	f.StringVar(&b.image, "image", "", cli.Both("image that it runs in", "镜像"))
	f.StringVar(&b.cpu, "cpu", "", cli.Both("cores, as 4 or 500m", "CPU 核数，如 4 或 500m"))
	f.StringVar(&b.memory, "memory", "", cli.Both("memory, as 16Gi", "内存，如 16Gi"))
	f.StringVar(&b.name, "name", "", cli.Both("name of the task; made when absent", "任务名称；默认自动生成"))
	_ = c.MarkFlagRequired("to")
	return c
}

// optimizeFlags are the arguments behind the fields of its task.
var optimizeFlags = strings.NewReplacer(
	"spec.models[0]", "NAME", "spec.datasets[0]", "--data", "spec.outputs.model.name", "--output-model", "spec.roles[0].resources.cpu", "--cpu", "spec.roles[0].resources.memory", "--memory",
	"spec.image", "--image", "spec.code.folder", "--folder", "metadata.name", "--name",
)

// task is what makes the version.
func (b *better) task(model, project string, bounded bool) (*api.TrainingTask, error) {
	name, version, _ := strings.Cut(model, "@")
	if b.to != "int8" && b.to != "uint8" && b.to != "onnx" {
		why := fault.T("One of int8, uint8, onnx.", "必须是 int8、uint8、onnx 之一。")
		return nil, fault.New(fault.Invalid, "Usage", why).WithFields(fault.Field{Path: "--to", Message: why})
	}
	leaves := b.leaves
	if leaves == "" {
		leaves = name
	}
	command := []string{b.python, "-m", "fermi.optimize", "--to", b.to, "--origin", model}
	for _, f := range [][2]string{{"--file", b.file}, {"--shape", b.shape}} {
		if f[1] != "" {
			command = append(command, f[0], f[1])
		}
	}
	if bounded {
		command = append(command, "--max-loss", strconv.FormatFloat(b.maxLoss, 'g', -1, 64))
	}
	role := api.Role{Command: command}
	if err := online.All(online.Amount("cpu", b.cpu, &role.Resources.CPU), online.Amount("memory", b.memory, &role.Resources.Memory)); err != nil {
		return nil, err
	}
	t := &api.TrainingTask{
		Meta: api.Meta{Name: b.name, Project: project, DisplayName: "optimize " + model + " to " + b.to},
		Spec: api.TrainingTaskSpec{
			Roles: []api.Role{role}, Image: b.image, Models: []mount.AssetRef{{Name: name, Version: version}}, Outputs: &api.Outputs{Leaves: mount.Leaves{Model: &mount.Output{Name: leaves, Path: "model"}}},
		},
	}
	if b.folder != "" {
		t.Spec.Code = &api.Code{Folder: b.folder}
	}
	if b.data != "" {
		data, version, _ := strings.Cut(b.data, "@")
		t.Spec.Datasets = []mount.AssetRef{{Name: data, Version: version}}
	}
	return t, nil
}
