package watch

import (
	"net"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/conf"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/engine/sensor"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/telemetry"
)

// Command is `fermi agent watch`.
func Command() *cobra.Command {
	var node, kubeconfig, listen, tool, level, format string
	var every time.Duration
	cmd := &cobra.Command{
		Use: "watch", Args: cobra.NoArgs,
		Short:   cli.Both("Say of this node of a Kubernetes cluster whether its accelerators are well", "上报本机（Kubernetes 集群节点）的加速卡是否健康"),
		Example: "  fermi agent watch --node $NODE_NAME",
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := telemetry.NewLogger(cmd.ErrOrStderr(), level, format)
			if err != nil {
				return err
			}
			if node == "" {
				return fault.New(fault.Invalid, "BadFlag", fault.T("A flag is wrong.", "参数有误。")).
					WithFields(fault.Field{Path: "node", Message: fault.T("Name this node as its cluster does: --node NODE.", "请用 --node 指定本机在集群中的节点名。")})
			}
			cluster, err := connect(kubeconfig)
			if err != nil {
				return fault.New(fault.Invalid, "BadKubeconfig", fault.T("The credentials of the cluster can't be read from %s.", "无法从 %s 读取集群凭据。", kubeconfig)).Because(err)
			}
			boot, err := record.BootID()
			if err != nil {
				return err
			}
			l, err := net.Listen("tcp", listen)
			if err != nil {
				return fault.New(fault.Unavailable, "ListenFailed", fault.T("Nobody can listen at %s.", "无法监听 %s。", listen)).Because(err)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			log.Info("looking after this node's cards", "node", node, "metrics", l.Addr().String())
			return Run(ctx, Config{
				Node: node, Cluster: cluster, Cards: sensor.New(sensor.Config{SMI: tool, Boot: boot, Clock: clock.Real, Log: log}), Listen: l, Booted: booted(), Every: every, Log: log, Clock: clock.Real,
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&node, "node", "", cli.Both("name of this node in its cluster", "本机在集群中的节点名"))
	f.StringVar(&kubeconfig, "kubeconfig", conf.InCluster, cli.Both("file with the cluster's credentials, or in-cluster", "集群凭据文件，或 in-cluster"))
	f.StringVar(&listen, "listen", ":7074", cli.Both("address of /metrics and /healthz", "/metrics 与 /healthz 的监听地址"))
	f.StringVar(&tool, "nvidia-smi", "", cli.Both("the tool of the cards' maker; nvidia-smi of the PATH when absent", "加速卡厂商的工具；默认为 PATH 中的 nvidia-smi"))
	f.DurationVar(&every, "every", 15*time.Second, cli.Both("how often the cards are read", "读取加速卡状态的间隔"))
	f.StringVar(&level, "log-level", "info", "debug, info, warn, error")
	f.StringVar(&format, "log-format", "text", "text, json")
	return cmd
}

func connect(file string) (dynamic.Interface, error) {
	cfg, err := rest.InClusterConfig()
	if file != conf.InCluster {
		cfg, err = clientcmd.BuildConfigFromFlags("", file)
	}
	if err != nil {
		return nil, err
	}
	cfg.UserAgent = "fermi-agent"
	return dynamic.NewForConfig(cfg)
}

// booted is when this machine was started.
func booted() time.Time {
	var up unix.Timespec
	now := clock.Real.Now()
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &up) != nil {
		return now
	}
	return now.Add(-time.Duration(up.Nano()))
}
