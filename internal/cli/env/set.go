package env

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/cli/online"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// change is what `fermi env set` was told.
type change struct {
	image, accelerator, cpu, memory, storage string
	count                                    int
	env, credentials                         []string
	ports                                    []int
	vscode, shared                           bool
	description                              string
	rest                                     rests
}

func set() (*cobra.Command, *change) {
	to := &change{}
	c := &cobra.Command{
		Use: "set NAME", Short: cli.Both("Change an environment: what is not named stays as it is", "修改环境，未指定的内容保持不变"), Args: cobra.ExactArgs(1),
		Long: cli.Both("Change an environment: what is not named stays as it is. Resources, image and variables change while it is stopped, and count from the next start on; storage, ports, sharing and the rules about idleness also while it runs.",
			"修改环境，未指定的内容保持不变。资源、镜像和环境变量须在停止后修改，下次启动生效；存储、端口、共享和空闲规则在运行时也可修改。"),
		Example: "  fermi env stop lab && fermi env set lab --cpu 8 --memory 32Gi && fermi env start lab\n  fermi env set lab --idle 4h --shared",
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().NFlag() == 0 {
				return fault.New(fault.Invalid, "Usage", fault.T("Say what shall change, such as --cpu 8.", "请指定要修改的内容，例如 --cpu 8。"))
			}
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			e, err := w.get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if err := to.into(&e.Spec, cmd.Flags()); err != nil {
				return err
			}
			made, err := client.Update(cmd.Context(), w.Client, e)
			if err != nil {
				return online.ByFlag(err, fieldFlags)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "environment/%s %s\n", made.Meta.Name, fault.T("updated", "已更新").In(w.Lang))
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&to.image, "image", "", cli.Both("image that it runs in; host for the node's own system", "镜像；host 表示节点自身的系统"))
	f.StringArrayVar(&to.credentials, "credential", nil, cli.Both("secrets of type registry with an account for the image, in the place of those before; may be repeated", "镜像仓库帐号所在的 registry 类型密钥，替换原有的；可重复"))
	f.IntVar(&to.count, "accelerators", 0, cli.Both("accelerators", "加速卡数量"))
	f.StringVar(&to.accelerator, "accelerator", "", cli.Both("their type, such as A100", "加速卡型号，如 A100"))
	f.StringVar(&to.cpu, "cpu", "", cli.Both("cores, as 4 or 500m", "CPU 核数，如 4 或 500m"))
	f.StringVar(&to.memory, "memory", "", cli.Both("memory, as 16Gi", "内存，如 16Gi"))
	f.StringVar(&to.storage, "storage", "", cli.Both("what its home may hold, as 50Gi", "主目录容量，如 50Gi"))
	f.StringArrayVar(&to.env, "env", nil, cli.Both("variable NAME=VALUE, beside the others; NAME= takes it away; may be repeated", "环境变量 NAME=VALUE，其余不变；NAME= 表示删除；可重复"))
	f.IntSliceVar(&to.ports, "port", nil, cli.Both("ports that have an address in browsers, in the place of those before; may be repeated", "可在浏览器中访问的端口，替换原有的；可重复"))
	f.BoolVar(&to.vscode, "vscode", false, cli.Both("VS Code in the browser; --vscode=false takes it away", "浏览器中的 VS Code；--vscode=false 表示取消"))
	f.BoolVar(&to.shared, "shared", false, cli.Both("members of the project may enter it; --shared=false ends that", "允许项目成员进入；--shared=false 表示取消"))
	f.StringVar(&to.description, "description", "", cli.Both("what it is for", "说明"))
	to.rest.bind(f)
	return c, to
}

// into puts what was said over a spec.
func (c *change) into(s *devenv.Spec, flags *pflag.FlagSet) error {
	said := flags.Changed
	r := &s.Resources
	rest := s.Rest
	err := online.All(online.Amount("cpu", c.cpu, &r.CPU), online.Amount("memory", c.memory, &r.Memory), online.Amount("storage", c.storage, &s.Storage),
		online.Variables(c.env, func(name, value string) { s.Env = withVariable(s.Env, name, value) }), c.rest.into(&rest))
	if err != nil {
		return err
	}
	if said("image") {
		s.Image = c.image
	}
	if said("credential") {
		s.Credentials = nil
		for _, secret := range c.credentials {
			s.Credentials = append(s.Credentials, api.CredentialRef{Secret: secret})
		}
	}
	if said("accelerators") {
		r.Accelerators.Count = c.count
	}
	if said("accelerator") {
		r.Accelerators.Type = c.accelerator
	}
	if r.Accelerators.Count == 0 {
		r.Accelerators.Type = ""
	}
	if said("port") {
		named := map[int]devenv.Port{}
		for _, p := range s.Ports {
			named[p.Port] = p
		}
		s.Ports = nil
		for _, p := range c.ports {
			kept := named[p] // with its name
			kept.Port = p
			s.Ports = append(s.Ports, kept)
		}
	}
	if said("vscode") {
		s.VSCode = c.vscode
	}
	if said("shared") {
		s.Shared = c.shared
	}
	if said("description") {
		s.Description = c.description
	}
	s.Rest = rest
	return nil
}

// withVariable sets one of a list; an empty value takes it away.
func withVariable(list []api.EnvVar, name, value string) []api.EnvVar {
	list = slices.DeleteFunc(slices.Clone(list), func(v api.EnvVar) bool { return v.Name == name })
	if value == "" {
		return list
	}
	return append(list, api.EnvVar{Name: name, Value: value})
}
