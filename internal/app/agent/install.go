package agent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/telemetry"
)

// The service of the machine's systemd.
const (
	serviceName = "fermi-agent.service"
	serviceFile = "/etc/systemd/system/" + serviceName
	systemdRuns = "/run/systemd/system" // is there where it does
)

// install is `fermi agent install`.
func install(version string) *cobra.Command {
	var f flags
	var only bool
	cmd := &cobra.Command{
		Use: "install", Short: cli.Both("Join, and start the agent with the machine (systemd)", "加入集群，并让代理随系统启动（systemd）"), Args: cobra.NoArgs,
		Example: "  FERMI_JOIN_TOKEN=… fermi agent install --join 10.0.0.1:7072\n  fermi agent install --print > fermi-agent.service",
		RunE: func(cmd *cobra.Command, _ []string) error {
			exe, err := os.Executable()
			if err != nil {
				return err
			}
			if f.data, err = filepath.Abs(f.data); err != nil {
				return err
			}
			text := unit(exe, append([]string{"--data=" + f.data}, given(cmd.Flags())...))
			if only {
				_, err := io.WriteString(cmd.OutOrStdout(), text)
				return err
			}
			return f.install(cmd, version, exe, text)
		},
	}
	f.bind(cmd.Flags())
	cmd.Flags().BoolVar(&only, "print", false, cli.Both("print the unit, and change nothing", "只输出 unit 文件，不做任何更改"))
	return cmd
}

// install joins if need be, writes the unit and starts it.
func (f *flags) install(cmd *cobra.Command, version, exe, text string) error {
	if os.Geteuid() != 0 {
		return fault.New(fault.Forbidden, "NotRoot", fault.T("A service of the machine is installed by root.", "安装系统服务需要 root 权限。")).
			WithHint(fault.T("Use sudo, or print the unit with --print and install it yourself.", "请使用 sudo，或用 --print 输出 unit 文件后自行安装。"))
	}
	if err := rootsOwn(exe); err != nil {
		return err
	}
	if _, err := f.named(); err != nil {
		return err
	}
	if err := f.joinOnce(cmd, version); err != nil {
		return err
	}
	if err := writeUnit(serviceFile, text); err != nil {
		return fault.New(fault.Unavailable, "UnitFile", fault.T("%s can't be written.", "无法写入 %s。", serviceFile)).Because(err)
	}
	if _, err := os.Stat(systemdRuns); err != nil {
		fmt.Fprintln(cmd.OutOrStdout(), fault.T("%s is written; systemd does not run here, so nothing was started.", "已写入 %s；本机未运行 systemd，因此未启动服务。", serviceFile).In(lang(cmd)))
		return nil
	}
	for _, args := range [][]string{{"daemon-reload"}, {"enable", serviceName}, {"restart", serviceName}} {
		if out, err := exec.CommandContext(cmd.Context(), "systemctl", args...).CombinedOutput(); err != nil {
			return fault.New(fault.Unavailable, "SystemdRefused", fault.T("systemctl %s failed: %s", "systemctl %s 失败：%s", strings.Join(args, " "), strings.TrimSpace(string(out)))).Because(err)
		}
	}
	fmt.Fprintln(cmd.OutOrStdout(), fault.T("The agent runs and starts with the machine: systemctl status %s", "代理已运行，并将随系统启动：systemctl status %s", serviceName).In(lang(cmd)))
	return nil
}

// joinOnce has the machine join, unless an agent of this folder runs already: then it has.
func (f *flags) joinOnce(cmd *cobra.Command, version string) error {
	log, err := telemetry.NewLogger(cmd.ErrOrStderr(), f.level, f.format)
	if err != nil {
		return err
	}
	lock, err := f.settle()
	var known *fault.Error
	if errors.As(err, &known) && known.Reason == "AgentRuns" {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	_, _, err = f.member(cmd.Context(), cmd, log, version)
	return err
}

// rootsOwn refuses a program that others could change before root starts it again.
func rootsOwn(exe string) error {
	for at := exe; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		owner := info.Sys().(*syscall.Stat_t).Uid
		if open := info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0; open || owner != 0 {
			return fault.New(fault.Conflict, "OthersProgram", fault.T("Others than root can change %s, and root would run it.", "root 以外的用户可以修改 %s，而它将以 root 身份运行。", at)).
				WithHint(fault.T("Put the program where only root writes: install -m 755 fermi /usr/local/bin/fermi", "请将程序放到仅 root 可写的位置：install -m 755 fermi /usr/local/bin/fermi"))
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// given are the flags that somebody typed and that each start needs. A token works once, and is no flag of a service.
func given(set *pflag.FlagSet) (out []string) {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(flags).bind(own)
	set.Visit(func(f *pflag.Flag) {
		if own.Lookup(f.Name) == nil || f.Name == "data" || strings.HasPrefix(f.Name, "token") {
			return
		}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			for _, v := range list.GetSlice() {
				out = append(out, "--"+f.Name+"="+v)
			}
			return
		}
		out = append(out, "--"+f.Name+"="+f.Value.String())
	})
	return out
}

// unit is the service. What the agent started goes on without it.
func unit(exe string, args []string) string {
	line := []string{quoted(exe), "agent"}
	for _, a := range args {
		line = append(line, quoted(a))
	}
	return `[Unit]
Description=Fermi agent: runs what the cluster places on this machine
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
ExecStart=` + strings.Join(line, " ") + `
Restart=always
RestartSec=2
# What runs here goes on while the agent is restarted or upgraded.
KillMode=process
Delegate=yes
OOMScoreAdjust=-900
CPUWeight=1000
LimitNOFILE=1048576
TasksMax=infinity

[Install]
WantedBy=multi-user.target
`
}

// quoted is an argument as systemd reads it: one word, no variable, no specifier.
func quoted(arg string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`, `$`, `$$`, "\n", `\n`).Replace(arg) + `"`
}

// writeUnit makes a file that everybody may read and that appears whole.
func writeUnit(path, text string) error {
	if err := write(path, []byte(text)); err != nil {
		return err
	}
	return os.Chmod(path, 0o644)
}
