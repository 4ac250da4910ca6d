package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/conf"
	"github.com/fermi-cluster/fermi/internal/cores"
	"github.com/fermi-cluster/fermi/internal/engine/inventory"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch"
	"github.com/fermi-cluster/fermi/internal/launch/orderlink"
	"github.com/fermi-cluster/fermi/internal/rsh"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/telemetry"
)

// Commands are the verbs that run a part of the platform instead of talking to it.
func Commands(version string) []*cobra.Command {
	cmds := []*cobra.Command{
		serveCommand("up", cli.Both("Run the whole platform on this machine", "在本机运行整个平台"), version),
		serveCommand("server", cli.Both("Run one control-plane replica on an etcd outside", "运行一个控制面副本，使用外部 etcd"), version),
		configCommand(), restoreCommand(), simCommand(), launchCommand(version), rsh.Command(cli.Both),
	}
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
	folders, err := folders(s)
	if err != nil {
		return err
	}
	if err := cores.Nice(serverNice); err != nil { // tasks of this machine could make everybody wait
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
		TLSCert: s.TLSCert, TLSKey: s.TLSKey, SelfSigned: s.TLSSelfSigned, Hosts: s.Hosts, Past: Past{s.HistoryURL, s.HistoryPasswordFile},
		Checkpoints: record.SharedTier{
			Place: s.Checkpoints, Endpoint: s.CheckpointsEndpoint, Region: s.CheckpointsRegion, Credentials: s.CheckpointsCredentials, Rate: int64(s.CheckpointsRate) << 20,
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

func restoreCommand() *cobra.Command {
	var dir, identity, passphrase, secretKey string
	settings := pflag.NewFlagSet("", pflag.ContinueOnError)
	conf.Bind(settings)
	cmd := &cobra.Command{
		Use: "restore FILE", Short: cli.Both("Make a data folder from a backup", "从备份恢复数据目录"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := settings.Set("data", dir); err != nil {
				return err
			}
			s, err := conf.Load(settings, os.Environ())
			if err != nil {
				return err
			}
			f, err := os.Open(args[0])
			if err != nil {
				return fault.New(fault.NotFound, "NoSuchFile", fault.T("Can't read %s.", "无法读取 %s。", args[0])).Because(err)
			}
			defer f.Close()
			lang := cli.Language(cmd)
			body, err := cli.Unlock(f, identity, func() (string, error) {
				return cli.Passphrase(cmd.InOrStdin(), cmd.ErrOrStderr(), passphrase, false, lang)
			})
			if err != nil {
				return err
			}
			var key []byte
			if secretKey != "" {
				if key, err = readKey(secretKey); err != nil {
					return err
				}
			}
			if err := Restore(cmd.Context(), body, dir, Past{s.HistoryURL, s.HistoryPasswordFile}, key); err != nil {
				return err
			}
			say := func(en, zh string, args ...any) { fmt.Fprintln(cmd.ErrOrStderr(), fault.T(en, zh, args...).In(lang)) }
			if key == nil {
				say("The backup holds no secret.key. Put the one of the old folder to %s (mode 0600) before the first start, or set all secrets again.",
					"备份不含 secret.key。请在首次启动前将原目录中的该文件放到 %s（权限 0600），否则须重新设置全部密钥。", filepath.Join(dir, secretKeyFile))
			}
			say("Restored into %[1]s. Start it with: fermi up --data %[1]s", "已恢复到 %[1]s。启动：fermi up --data %[1]s", dir)
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "data", "", cli.Both("folder to make; must not exist", "要创建的目录，必须不存在"))
	cmd.Flags().StringVar(&identity, "identity", "", cli.Both("file with the secret key (age) of a backup that was encrypted to a --recipient", "age 私钥文件，用于以 --recipient 加密的备份"))
	cmd.Flags().StringVar(&passphrase, "passphrase-file", "", cli.Both("file with the passphrase of an encrypted backup, or /dev/fd/N; asked for on a terminal otherwise", "加密备份的口令文件，或 /dev/fd/N；否则在终端询问"))
	cmd.Flags().StringVar(&secretKey, "secret-key", "", cli.Both("secret.key of the old folder, which opens the secrets in the backup", "原目录的 secret.key，用于解开备份中的密钥"))
	_ = cmd.MarkFlagRequired("data")
	for _, name := range []string{"history-url", "history-password-file", "insecure"} { // of the settings, what matters here
		cmd.Flags().AddFlag(settings.Lookup(name))
	}
	return cmd
}

// launchCommand is what the engine starts; people don't.
func launchCommand(version string) *cobra.Command {
	var c launch.Config
	var far orderlink.Config
	cmd := &cobra.Command{
		Use: "launch", Hidden: true, Short: cli.Both("Run beside one replica (started by the engine)", "在副本旁运行（由引擎启动）"), Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if c.Token, err = tokenFromFD(3); err != nil {
				return err
			}
			c.Readings, c.Stores, c.Version = inventory.Read, openTiers, version
			if far.Replica != "" {
				far.Dir, far.Token = c.Dir, c.Token
				if c.Orders, err = orderlink.Open(far); err != nil {
					return err
				}
			}
			return launch.Run(cmd.Context(), c)
		},
	}
	cmd.Flags().StringVar(&c.Dir, "dir", "", "the replica's folder")
	cmd.Flags().StringVar((*string)(&far.Replica), "replica", "", "the replica's name, for one whose orders come over the link")
	cmd.Flags().StringVar(&far.Endpoints, "endpoints", "", "file with the servers, likewise")
	_ = cmd.MarkFlagRequired("dir")
	return cmd
}

// tokenFromFD reads the link token: never from the environment or the command line, where others
// could read it.
func tokenFromFD(fd uintptr) (string, error) {
	f := os.NewFile(fd, "token")
	if f == nil {
		return "", errors.New("no token on file descriptor 3: `fermi launch` is started by the engine")
	}
	raw, err := io.ReadAll(io.LimitReader(f, 4096))
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("no token on file descriptor 3 (`fermi launch` is started by the engine): %w", err)
	}
	if len(raw) == 0 {
		// The server was killed between starting us and handing it over; the next one starts another.
		return "", errors.New("the server ended before it handed over the token")
	}
	return string(raw), nil
}
