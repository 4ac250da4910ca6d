package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/app/agent/watch"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/conf"
	"github.com/fermi-cluster/fermi/internal/cores"
	"github.com/fermi-cluster/fermi/internal/engine/cgroup"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/agency"
	"github.com/fermi-cluster/fermi/internal/store/embedded"
	"github.com/fermi-cluster/fermi/internal/telemetry"
)

// niceness puts the agent before the tasks of its machine, as a server is.
const niceness = -10

// maxToken bounds a file with a token.
const maxToken = 4096

// flags are what somebody typed.
type flags struct {
	join, labels, folders []string
	token, tokenFile      string
	name, zone            string
	data, advertise       string
	network               string
	forward, tunnel       int
	level, format         string
	rehearse              string // the program that this one is to replace; "": this is no rehearsal
}

// Command is `fermi agent`.
func Command(version string) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use: "agent", Short: cli.Both("Run what the cluster places on this machine", "在本机运行集群调度来的任务"), Args: cobra.NoArgs, GroupID: cli.GroupCluster,
		Example: "  FERMI_JOIN_TOKEN=… fermi agent --join 10.0.0.1:7072\n  fermi agent --data /var/lib/fermi-agent      # it has joined already",
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd, version) },
	}
	f.bind(cmd.Flags())
	cmd.Flags().StringVar(&f.rehearse, flagRehearse, "", "")
	_ = cmd.Flags().MarkHidden(flagRehearse)
	cmd.AddCommand(install(version), watch.Command(), tunnelCommand())
	return cmd
}

// bind makes the flags.
func (f *flags) bind(s *pflag.FlagSet) {
	s.StringSliceVar(&f.join, "join", nil, cli.Both("addresses where servers are reached (their --link-listen); needed once", "服务器地址（其 --link-listen）；首次加入时需要"))
	s.StringVar(&f.tokenFile, "token-file", "", cli.Both("file with the one-time token of `fermi node add`; or $FERMI_JOIN_TOKEN", "存有 `fermi node add` 一次性令牌的文件；或用 $FERMI_JOIN_TOKEN"))
	s.StringVar(&f.token, "token", "", cli.Both("the token itself; others on this machine can read it in the list of processes", "令牌本身；本机其他用户可在进程列表中看到"))
	s.StringVar(&f.name, "name", "", cli.Both("name of the node; the machine's when absent", "节点名称；默认为主机名"))
	s.StringVar(&f.zone, "zone", "", cli.Both("zone that the machine is in; the token's when absent", "所在可用区；默认为令牌指定的可用区"))
	s.StringSliceVar(&f.labels, "label", nil, cli.Both("KEY=VALUE; rack and leaf are the place in the network", "KEY=VALUE；rack 与 leaf 表示网络位置"))
	s.StringVar(&f.data, "data", defaultData(), cli.Both("folder of this agent alone", "该代理专用的数据目录"))
	s.StringVar(&f.advertise, "advertise", "", cli.Both("IP address at which other machines reach this one; the one towards the server when absent", "其他机器访问本机的 IP 地址；默认为通往服务器的地址"))
	s.StringSliceVar(&f.folders, "folder", nil, cli.Both("NAME=PATH or NAME=PATH:ro of a folder that projects may be granted", "可授权给项目的目录：NAME=PATH 或 NAME=PATH:ro"))
	s.StringVar(&f.network, "network", conf.NetworkAuto, cli.Both("addresses of replicas within this machine: auto, host, or a prefix", "本机内副本的地址：auto、host 或地址段"))
	s.IntVar(&f.forward, "forward-port", 7073, cli.Both("port at which servers reach the services on this machine; 0: none", "服务器访问本机上服务的端口；0 表示不开放"))
	s.IntVar(&f.tunnel, "tunnel-port", 7074, cli.Both("UDP port for traffic to zones that is to be encrypted; 0: this machine encrypts nothing", "与其他可用区加密通信所用的 UDP 端口；0 表示本机不加密"))
	s.StringVar(&f.level, "log-level", "info", "debug, info, warn, error")
	s.StringVar(&f.format, "log-format", "text", "text, json")
}

func defaultData() string {
	if os.Geteuid() == 0 {
		return "/var/lib/fermi-agent"
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".fermi-agent")
}

func (f *flags) run(cmd *cobra.Command, version string) error {
	log, err := telemetry.NewLogger(cmd.ErrOrStderr(), f.level, f.format)
	if err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	folders, err := f.named()
	if err != nil {
		return err
	}
	lock, err := f.settle()
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if err := errors.Join(cores.Nice(niceness), cgroup.First()); err != nil {
		log.Debug("this agent runs with the priority that tasks have", "error", err)
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	m, wish, err := f.member(ctx, cmd, log, version)
	if err != nil {
		return err
	}
	cfg := Config{
		Member: m, Data: f.data, Exe: cmp.Or(f.rehearse, exe), Version: version, Address: cmp.Or(f.advertise, ownAddress(m)), Labels: wish.Labels, MachineID: wish.MachineID, Folders: folders, Network: f.network, Forward: f.forward, Tunnel: f.tunnel, Log: log,
	}
	if f.rehearse != "" {
		return Rehearse(ctx, cfg)
	}
	for {
		err := Run(ctx, cfg)
		var next *Successor
		if !errors.As(err, &next) || ctx.Err() != nil {
			return err
		}
		_ = lock.Close() // the new one takes it
		next.succeed(ctx, cfg, cmd.ErrOrStderr())
		if lock, err = alone(f.data); err != nil {
			return err
		}
	}
}

// settle makes the agent's folder, and locks it.
func (f *flags) settle() (lock *os.File, err error) {
	if f.data == "" {
		return nil, bad("data", fault.T("Give a folder with --data.", "请用 --data 指定数据目录。"))
	}
	if f.data, err = filepath.Abs(f.data); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(f.data, 0o700); err != nil {
		return nil, fault.New(fault.Unavailable, "DataFolder", fault.T("The folder %s can't be made.", "无法创建目录 %s。", f.data)).Because(err)
	}
	embedded.MakeRoom(f.data)
	return alone(f.data)
}

// member is what the machine is in its cluster; it joins if it has not, or if somebody gave a token.
func (f *flags) member(ctx context.Context, cmd *cobra.Command, log *slog.Logger, version string) (*agency.Member, agency.Wish, error) {
	m, err := agency.Open(f.data, log)
	if err != nil {
		return nil, agency.Wish{}, err
	}
	wish, token, err := f.wish(version)
	if err != nil {
		return nil, wish, err
	}
	if f.rehearse != "" && m != nil {
		return m, wish, nil
	}
	if m == nil || token.Secret != "" && len(f.join) > 0 {
		switch now, err := f.joinNow(ctx, cmd, log, wish, token); {
		case err == nil:
			m = now
		case m == nil:
			return nil, wish, err
		default: // a token that is given at every start is used up by the first
			log.Info("the token was not taken; this machine goes on as the node that it is", "node", m.Node(), "error", err)
		}
	}
	return m, wish, m.Reach(f.join)
}

// joinNow joins, and keeps the certificate.
func (f *flags) joinNow(ctx context.Context, cmd *cobra.Command, log *slog.Logger, w agency.Wish, t agency.Token) (*agency.Member, error) {
	if t.Secret == "" {
		return nil, fault.New(fault.Invalid, "NotJoined", fault.T("This machine has not joined a cluster yet.", "本机尚未加入集群。")).
			WithHint(fault.T("Make a token with `fermi node add`, then: FERMI_JOIN_TOKEN=… fermi agent --join ADDRESS.", "请先用 `fermi node add` 生成令牌，再执行：FERMI_JOIN_TOKEN=… fermi agent --join 地址。"))
	}
	if len(f.join) == 0 {
		return nil, bad("join", fault.T("Say where a server is: --join ADDRESS:PORT.", "请指定服务器地址：--join 地址:端口。"))
	}
	if w.Address == "" {
		w.Address = agency.AddressTo(f.join[0])
	}
	got, err := agency.Join(ctx, f.data, f.join, t, w, log)
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(cmd.OutOrStdout(), fault.T("This machine is node %s of zone %s now.", "本机已成为可用区 %[2]s 的节点 %[1]s。", got.Node(), got.Zone()).In(lang(cmd)))
	return agency.Open(f.data, log)
}

func lang(cmd *cobra.Command) string {
	if l, err := cmd.Flags().GetString("lang"); err == nil && l != "" {
		return l
	}
	if strings.HasPrefix(cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LANG")), "zh") {
		return "zh"
	}
	return "en"
}

// wish is what the machine says of itself when it joins, and the token.
func (f *flags) wish(version string) (w agency.Wish, t agency.Token, err error) {
	w = agency.Wish{Name: f.name, Zone: f.zone, Version: version, Labels: map[string]string{}, MachineID: machineID()}
	if w.Name == "" {
		host, _ := os.Hostname()
		short, _, _ := strings.Cut(strings.ToLower(host), ".")
		w.Name = short
	}
	for _, text := range f.labels {
		k, v, ok := strings.Cut(text, "=")
		if !ok || k == "" {
			return w, t, bad("label", fault.T("%q is not KEY=VALUE.", "%q 不是 KEY=VALUE。", text))
		}
		w.Labels[k] = v
	}
	for _, a := range f.join {
		if _, _, err := net.SplitHostPort(a); err != nil {
			return w, t, bad("join", fault.T("%q is not ADDRESS:PORT.", "%q 不是 地址:端口。", a))
		}
	}
	if f.advertise != "" && net.ParseIP(f.advertise) == nil {
		return w, t, bad("advertise", fault.T("%q is no IP address.", "%q 不是 IP 地址。", f.advertise))
	}
	w.Address = f.advertise
	if f.token == "" && f.tokenFile != "" {
		file, err := os.Open(f.tokenFile)
		if err != nil {
			return w, t, bad("token-file", fault.T("%s can't be read.", "无法读取 %s。", f.tokenFile))
		}
		raw, err := io.ReadAll(io.LimitReader(file, maxToken))
		if err = errors.Join(err, file.Close()); err != nil {
			return w, t, err
		}
		f.token = string(raw)
	}
	f.token = strings.TrimSpace(cmp.Or(f.token, os.Getenv("FERMI_JOIN_TOKEN")))
	_ = os.Unsetenv("FERMI_JOIN_TOKEN") // nobody that we start needs it
	if f.token == "" {
		return w, t, nil
	}
	t, err = agency.ParseToken(f.token)
	return w, t, err
}

// named are the machine's folders that projects may be granted.
func (f *flags) named() (out []api.NamedFolder, err error) {
	for _, text := range f.folders {
		n, err := api.ParseNamedFolder(text)
		if err != nil {
			return nil, err
		}
		if n.Real, err = filepath.EvalSymlinks(n.Path); err != nil {
			return nil, bad("folder", fault.T("The folder %s=%s is not there, or can't be entered.", "目录 %s=%s 不存在或无法进入。", n.Name, n.Path))
		}
		out = append(out, n)
	}
	return out, nil
}

// ownAddress is where other machines reach this one, as far as it knows itself.
func ownAddress(m *agency.Member) string {
	for _, t := range m.Targets() {
		at, _, _ := strings.Cut(strings.TrimPrefix(t, "tls://"), "#")
		if own := agency.AddressTo(at); own != "" {
			return own
		}
	}
	return agency.FirstAddress()
}

// machineID is the system's; "": it has none.
func machineID() string {
	for _, path := range []string{"/etc/machine-id", "/var/lib/dbus/machine-id"} {
		if raw, err := os.ReadFile(path); err == nil && len(raw) < 128 {
			if text := strings.TrimSpace(string(raw)); text != "" {
				return text
			}
		}
	}
	return ""
}

func bad(field string, why fault.Text) error {
	return fault.New(fault.Invalid, "BadFlag", fault.T("A flag is wrong.", "参数有误。")).WithFields(fault.Field{Path: field, Message: why})
}

// alone takes the folder's lock.
func alone(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fault.New(fault.Conflict, "AgentRuns", fault.T("Another agent uses the folder %s.", "已有另一个代理在使用目录 %s。", dir)).Because(err)
	}
	return f, nil
}
