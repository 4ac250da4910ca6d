package mirror

import (
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/cli/online"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/conf"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Command is `fermi mirror`.
func Command() *cobra.Command {
	var kubeconfig string
	var pairs []string
	cmd := &cobra.Command{
		Use: "mirror", GroupID: cli.GroupCluster, Args: cobra.NoArgs,
		Short:   cli.Both("Keep tasks, environments and services as custom objects of a Kubernetes cluster, both ways", "将任务、环境与服务双向同步为 Kubernetes 集群的自定义对象"),
		Example: "  fermi mirror --kubeconfig in-cluster --map research=research --server http://fermi:7070 --token-file /run/fermi/token",
		RunE: func(cmd *cobra.Command, _ []string) error {
			projects, err := parse(pairs)
			if err != nil {
				return err
			}
			config, err := connect(kubeconfig)
			if err != nil {
				return fault.New(fault.Invalid, "BadKubeconfig", fault.T("The credentials of the cluster can't be read from %s.", "无法从 %s 读取集群凭据。", kubeconfig)).Because(err)
			}
			config.QPS = -1
			cluster, err := dynamic.NewForConfig(config)
			if err != nil {
				return err
			}
			w, err := online.Dial(cmd)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return New(Config{Cluster: cluster, Fermi: w.Client, Projects: projects, Log: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)), Clock: clock.Real}).Run(ctx)
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", conf.InCluster, cli.Both("file with the cluster's credentials, or in-cluster", "集群凭据文件，或 in-cluster"))
	cmd.Flags().StringArrayVar(&pairs, "map", nil, cli.Both("NAMESPACE=PROJECT; may be repeated", "命名空间=项目，可重复"))
	return cmd
}

func connect(file string) (*rest.Config, error) {
	if file == conf.InCluster {
		return rest.InClusterConfig()
	}
	return clientcmd.BuildConfigFromFlags("", file)
}

// parse reads NAMESPACE=PROJECT; each of both once.
func parse(pairs []string) (map[string]string, error) {
	out, had := map[string]string{}, map[string]bool{}
	for _, text := range pairs {
		namespace, project, ok := strings.Cut(text, "=")
		if !ok || !api.IsName(namespace) || !api.IsName(project) || out[namespace] != "" || had[project] {
			return nil, fault.New(fault.Invalid, "BadMap", fault.T("%q is not NAMESPACE=PROJECT, or one of them is there already.", "%q 不是 命名空间=项目 的形式，或其中之一重复。", text))
		}
		out[namespace], had[project] = project, true
	}
	if len(out) == 0 {
		return nil, fault.New(fault.Invalid, "BadMap", fault.T("Name at least one --map NAMESPACE=PROJECT.", "请至少指定一个 --map 命名空间=项目。"))
	}
	return out, nil
}
