package env

import (
	"fmt"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/fault"
)

const gib = api.Bytes(1 << 30)

// demoEnvironments are made for the demo topology: two in one zone, and two far apart.
var demoEnvironments = []struct {
	name, zone, model string
	kind              devenv.Type
	devices           int
	en, zh            string
}{
	{"pytorch-dev-env", "beijing-1", "A100", devenv.Notebook, 2, "PyTorch development", "PyTorch 开发"},
	{"cv-experiment-env", "beijing-1", "V100", devenv.Notebook, 2, "Vision experiments", "视觉实验"},
	{"llm-training-env", "shenzhen-1", "A100", devenv.Custom, 4, "Training of language models", "大语言模型训练"},
	{"nlp-research-lab", "shanghai-1", "A100", devenv.Custom, 8, "Language research", "自然语言研究"},
}

// demo is `fermi sample environments`.
func demo() *cobra.Command {
	return &cobra.Command{
		Use: "environments", Short: cli.Both("Make four environments in the zones of the demo, to try training inside of them", "在演示可用区中创建四个开发环境，可在其中试跑训练"), Args: cobra.NoArgs,
		Long: cli.Both("Make four environments in the zones of the demo, to try training inside of them. The demo begins without them: each runs for real, holds virtual devices (16 in all) and a process of this machine, counts for whoever makes it, and is seen in one project only. Made twice they are the same four.",
			"在演示可用区中创建四个开发环境，可在其中试跑训练。演示平台初始不含这些环境：它们会真实运行，占用虚拟加速卡（共 16 张）和本机进程，计入创建者的用量，且只在一个项目中可见。重复执行不会重复创建。"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			for _, d := range demoEnvironments {
				e := &devenv.DevEnvironment{Meta: api.Meta{Name: d.name, Project: w.Project}}
				e.Spec.Type, e.Spec.Zone, e.Spec.Description = d.kind, d.zone, fault.Text{EN: d.en, ZH: d.zh}.In(w.Lang)
				e.Spec.Resources.Accelerators.Count, e.Spec.Resources.Accelerators.Type = d.devices, d.model
				e.Spec.Resources.CPU, e.Spec.Resources.Memory = api.MilliCPU(8000*d.devices), api.Bytes(64*d.devices)*gib
				if _, err := client.Create(cmd.Context(), w.Client, e); err != nil && !fault.Is(err, fault.Conflict) { // a name that is taken: it was made before
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), d.name)
			}
			return nil
		},
	}
}
