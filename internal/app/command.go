package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/app/inner"
	"github.com/fermi-cluster/fermi/internal/app/kinds"
	"github.com/fermi-cluster/fermi/internal/app/restore"
	"github.com/fermi-cluster/fermi/internal/app/simulate"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/conf"
	"github.com/fermi-cluster/fermi/internal/cores"
	"github.com/fermi-cluster/fermi/internal/engine/cgroup"
	"github.com/fermi-cluster/fermi/internal/engine/inventory"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/telemetry"
)

// Join adds the verbs that run a part of the platform to those of the client, each in its place.
func Join(root *cobra.Command, version string) {
	root.AddCommand(Commands(version)...)
	if backup, _, err := root.Find([]string{"backup"}); err == nil && backup != root {
		backup.AddCommand(restore.VerifyCommand())
	}
}

// Inner is the command of a process that the platform starts for itself; nil where args name none.
func Inner(args []string, version string) *cobra.Command {
	return inner.Find(args, inner.All(version, openTiers)...)
}

// Commands are the verbs that run a part of the platform instead of talking to it.
func Commands(version string) []*cobra.Command {
	cmds := []*cobra.Command{
		serveCommand("up", cli.Both("Run the whole platform on this machine", "在本机运行整个平台"), version),
		serveCommand("server", cli.Both("Run one control-plane replica on an etcd outside", "运行一个控制面副本，使用外部 etcd"), version),
		configCommand(), restore.Command(), simulate.Command(),
	}
	cmds = append(cmds, inner.All(version, openTiers)...)
	for _, c := range cmds {
		if !c.Hidden {
			c.GroupID = cli.GroupCluster
		}
	}
	return cmds
}

func serveCommand(verb, short, version string) *cobra.Command {
	cmd := &cobra.Command{
		Use: verb, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := conf.Load(cmd.Flags(), os.Environ())
			if err != nil {
				return err
			}
			if verb == "server" && len(s.EtcdEndpoints) == 0 {
				return fault.New(fault.Invalid, "NoEtcd", fault.T("`fermi server` needs an etcd outside.", "fermi server 需要外部 etcd。")).
					WithHint(fault.T("Give --etcd-endpoints, or use `fermi up`, which has its own.", "请用 --etcd-endpoints 指定，或使用自带 etcd 的 fermi up。"))
			}
			return serve(cmd, s, version)
		},
	}
	conf.Bind(cmd.Flags())
	return cmd
}

// serverNice puts a server before the tasks of its machine.
const serverNice = -10

func serve(cmd *cobra.Command, s *conf.Settings, version string) error {
	log, err := telemetry.NewLogger(cmd.ErrOrStderr(), s.LogLevel, s.LogFormat)
	if err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	zones, nodes, err := topology(s)
	if err != nil {
		return err
	}
	zones = append(zones, clusterZones(zones, s.Doors.Pods)...)
	folders, err := folders(s)
	if err != nil {
		return err
	}
	policy, err := kinds.PolicyOf(s.Envs)
	if err != nil {
		return err
	}
	if err := errors.Join(cores.Nice(serverNice), cgroup.First()); err != nil { // tasks of this machine could make everybody wait
		log.Debug("this server runs with the priority that tasks have", "error", err)
	}
	registry := telemetry.NewRegistry()
	registry.MustRegister(telemetry.BuildInfo(version, ""))
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return Serve(ctx, Config{
		Name: fmt.Sprintf("%s-%d", host, os.Getpid()), Data: s.Data, Shared: s.Shared, Listen: s.Listen,
		Etcd:       store.Outside{Endpoints: s.EtcdEndpoints, CA: s.EtcdCA, Cert: s.EtcdCert, Key: s.EtcdKey},
		EtcdPrefix: s.EtcdPrefix, Doors: s.Doors, Zone: s.Zone,
		TLS: s.TLS, Envs: policy, Hosts: s.Hosts, Past: restore.Past{URL: s.HistoryURL, PasswordFile: s.HistoryPasswordFile},
		Stores: Stores{
			Checkpoints: record.SharedTier{
				Place: s.Checkpoints, Endpoint: s.CheckpointsEndpoint, Region: s.CheckpointsRegion, Credentials: s.CheckpointsCredentials, Rate: int64(s.CheckpointsRate) << 20,
			},
			Bytes: record.SharedTier{Place: s.Store.Place, Endpoint: s.Store.Endpoint, Region: s.Store.Region, Credentials: s.Store.Credentials}, KeyFile: s.Store.Key,
		},
		Zones: zones, Inventory: nodes, ArchiveAfter: s.ArchiveAfter, Quantum: s.Quantum, Processes: s.Processes, Network: s.Network, FirstUID: s.TenantUIDs.First, LastUID: s.TenantUIDs.Last, UIDBook: s.TenantBook, Folders: folders, Exe: exe,
		Version: version, Registry: registry, Log: log, Out: cmd.OutOrStdout(),
	})
}

// folders are those of the machine that tasks may be granted.
func folders(s *conf.Settings) (out []api.NamedFolder, err error) {
	for _, text := range s.Folders {
		f, err := api.ParseNamedFolder(text)
		if err != nil {
			return nil, err
		}
		if f.Real, err = filepath.EvalSymlinks(f.Path); err != nil {
			return nil, fault.New(fault.Invalid, "NoFolder", fault.T("The folder %s=%s is not there, or can't be entered.", "目录 %s=%s 不存在或无法进入。", f.Name, f.Path)).
				WithHint(fault.T("Make it, or leave --folder %s out.", "请创建该目录，或去掉 --folder %s。", f.Name)).Because(err)
		}
		out = append(out, f)
	}
	return out, nil
}

// topology is what the nodes are: the demo's, a file's, or this machine.
func topology(s *conf.Settings) ([]api.Zone, func(context.Context) ([]api.Node, error), error) {
	fixed := func(nodes []api.Node) func(context.Context) ([]api.Node, error) {
		return func(context.Context) ([]api.Node, error) { return nodes, nil }
	}
	switch {
	case s.Demo:
		zones, nodes := inventory.Demo()
		return zones, fixed(nodes), nil
	case s.ZonesFile != "":
		f, err := os.Open(s.ZonesFile)
		if err != nil {
			return nil, nil, fault.New(fault.Invalid, "BadZonesFile", fault.T("Can't read %s.", "无法读取 %s。", s.ZonesFile)).Because(err)
		}
		defer f.Close()
		zones, nodes, err := inventory.LoadZones(f)
		return zones, fixed(nodes), err
	}
	return []api.Zone{inventory.LocalZone()}, func(ctx context.Context) ([]api.Node, error) {
		n, err := inventory.Local(ctx)
		return []api.Node{n}, err
	}, nil
}

func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: cli.Both("Print the settings that `up` would run with, and where each comes from", "显示 up 将使用的设置及其来源"), Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := conf.Load(cmd.Flags(), os.Environ())
			if err != nil {
				return err
			}
			return s.Print(cmd.OutOrStdout())
		},
	}
	conf.Bind(cmd.Flags())
	return cmd
}
