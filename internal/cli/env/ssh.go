package env

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// entrance is where SSH is answered, as seen from here.
type entrance struct {
	host string
	port int
	key  string // the host's
}

func (w *where) entrance(ctx context.Context) (entrance, error) {
	d, err := client.SSH(ctx, w.Client)
	if err != nil {
		return entrance{}, err
	}
	if d.Port == 0 {
		return entrance{}, fault.New(fault.Conflict, "NoSSH", fault.T("This server does not answer SSH.", "该服务器未开启 SSH。")).WithHint(
			fault.T("Its operator starts it with --ssh ADDRESS; meanwhile: fermi env shell NAME.", "请管理员以 --ssh ADDRESS 启动；在此之前可用 fermi env shell NAME。"))
	}
	u, err := url.Parse(w.Server())
	if err != nil {
		return entrance{}, err
	}
	return entrance{u.Hostname(), d.Port, d.HostKey}, nil
}

// known is the line of known_hosts.
func (e entrance) known() string {
	return fmt.Sprintf("[%s]:%d %s\n", e.host, e.port, e.key)
}

// userOf is the user name that means an environment.
func userOf(e *devenv.DevEnvironment) string { return e.Meta.Name + "." + e.Meta.Project }

// folder is where ssh keeps its files.
func folder() (string, error) {
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".ssh"), err
}

const knownFile = "fermi_known_hosts"

// remember writes the host key down, so that ssh asks nobody: it came over a connection that knows the server.
func (e entrance) remember() (string, error) {
	dir, err := folder()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	file := filepath.Join(dir, knownFile)
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	text := e.known()
	at, _, _ := strings.Cut(text, " ")
	for line := range strings.Lines(string(old)) {
		if !strings.HasPrefix(line, at+" ") {
			text += line
		}
	}
	if text == string(old) {
		return file, nil
	}
	return file, replace(file, text, 0o600)
}

// replace writes a file whole; a link stays a link.
func replace(file, text string, mode os.FileMode) error {
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), ".fermi-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.WriteString(text)
	if err := errors.Join(err, tmp.Chmod(mode), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}

// door is where ssh enters, and the file in which it finds the server's key.
func (w *where) door(ctx context.Context) (at entrance, file string, err error) {
	if at, err = w.entrance(ctx); err == nil {
		file, err = at.remember()
	}
	return at, file, err
}

func ssh() *cobra.Command {
	var print bool
	c := &cobra.Command{
		Use: "ssh NAME [-- ARGUMENTS…]", Short: cli.Both("Enter an environment with this machine's ssh", "用本机的 ssh 进入环境"), Args: cobra.MinimumNArgs(1),
		Long: cli.Both("Enter an environment with this machine's ssh; what follows -- goes to ssh, such as -L 8080:localhost:8080 or a command.\n\nYour public key must be registered: fermi user key add ~/.ssh/id_ed25519.pub.",
			"用本机的 ssh 进入环境；-- 之后的内容交给 ssh，例如 -L 8080:localhost:8080 或一条命令。\n\n需先登记公钥：fermi user key add ~/.ssh/id_ed25519.pub。"),
		Example: "  fermi env ssh lab\n  fermi env ssh lab -- -L 6006:localhost:6006\n  fermi env ssh lab --print",
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			e, err := w.get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			at, known, err := w.door(cmd.Context())
			if err != nil {
				return err
			}
			// Options before the host, and a command after it.
			var options, rest []string
			for i := 1; i < len(args); i++ {
				if !strings.HasPrefix(args[i], "-") {
					rest = args[i:]
					break
				}
				options = append(options, args[i])
				if takesValue(args[i]) && i+1 < len(args) {
					i++
					options = append(options, args[i])
				}
			}
			line := append([]string{"ssh", "-p", strconv.Itoa(at.port), "-o", "UserKnownHostsFile=" + known, "-o", "StrictHostKeyChecking=yes"}, options...)
			line = append(append(line, userOf(e)+"@"+at.host), rest...)
			if print {
				fmt.Fprintln(cmd.OutOrStdout(), quoted(line))
				return nil
			}
			file, err := exec.LookPath("ssh")
			if err != nil {
				return fault.New(fault.NotFound, "NoSSHClient", fault.T("There is no ssh on this machine.", "本机没有 ssh。")).WithHint(fault.T("Install OpenSSH, or use fermi env shell %s.", "请安装 OpenSSH，或使用 fermi env shell %s。", args[0]))
			}
			return syscall.Exec(file, line, os.Environ())
		},
	}
	c.Flags().BoolVar(&print, "print", false, cli.Both("print the command instead of running it", "只显示命令，不运行"))
	return c
}

// takesValue says that an option of ssh is followed by its value.
func takesValue(option string) bool {
	return len(option) == 2 && strings.Contains("BbcDEeFIiJLlmOopQRSWw", option[1:])
}

// quoted is a command line for a shell.
func quoted(args []string) string {
	out := make([]string, len(args))
	for i, a := range args {
		if out[i] = a; a == "" || strings.ContainsAny(a, " \t\n'\"\\$`!*?[]{}()<>|&;#~") {
			out[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}

func sshConfig() *cobra.Command {
	var write bool
	c := &cobra.Command{
		Use: "ssh-config [NAME…]", Short: cli.Both("Print blocks for ~/.ssh/config, for VS Code and others", "显示 ~/.ssh/config 配置块，供 VS Code 等使用"), Args: cobra.ArbitraryArgs,
		Long: cli.Both("Print a block for ~/.ssh/config for each of your environments, or write them there. Then `ssh ENVIRONMENT.PROJECT.fermi`, scp, rsync, VS Code Remote and others find them.",
			"为您的每个环境显示 ~/.ssh/config 配置块，或写入该文件；之后 ssh 环境.项目.fermi、scp、rsync、VS Code Remote 等即可使用。"),
		Example: "  fermi env ssh-config --write",
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			list, err := w.mine(cmd.Context(), args)
			if err != nil {
				return err
			}
			at, known, err := w.door(cmd.Context())
			if err != nil {
				return err
			}
			blocks := blocks(at, known, list)
			if !write {
				fmt.Fprint(cmd.OutOrStdout(), blocks)
				return nil
			}
			file, err := writeConfig(net.JoinHostPort(at.host, strconv.Itoa(at.port)), blocks)
			if err != nil {
				return err
			}
			w.Say("%d environments are in %s: ssh %s", "已将 %d 个环境写入 %s：ssh %s", len(list), file, alias(list[0]))
			return nil
		},
	}
	c.Flags().BoolVar(&write, "write", false, cli.Both("write them to ~/.ssh/config, in place of those from before", "写入 ~/.ssh/config，替换先前写入的内容"))
	return c
}

// mine are the environments of these names, or all that we own.
func (w *where) mine(ctx context.Context, names []string) (out []*devenv.DevEnvironment, err error) {
	for _, name := range names {
		e, err := w.get(ctx, name)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	if len(names) > 0 {
		return out, nil
	}
	me, err := w.WhoAmI(ctx)
	if err != nil {
		return nil, err
	}
	page, err := client.List[*devenv.DevEnvironment](ctx, w.Client, client.ListOptions{Project: w.Project, Limit: 500, Sort: "name"})
	if err != nil {
		return nil, err
	}
	for _, e := range page.Items {
		if e.Meta.Owner == me.User {
			out = append(out, e)
		}
	}
	if len(out) == 0 {
		return nil, fault.New(fault.NotFound, "NoEnvironment", fault.T("You have no environment yet.", "您还没有环境。")).WithHint(fault.T("fermi env create NAME", "fermi env create NAME"))
	}
	return out, nil
}

func alias(e *devenv.DevEnvironment) string {
	return e.Meta.Name + "." + cmp.Or(e.Meta.Project, api.DefaultProject) + ".fermi"
}

// blocks are what ssh reads.
func blocks(at entrance, known string, list []*devenv.DevEnvironment) string {
	var b strings.Builder
	for _, e := range list {
		fmt.Fprintf(&b, "Host %s\n  HostName %s\n  Port %d\n  User %s\n  UserKnownHostsFile \"%s\"\n  StrictHostKeyChecking yes\n  ServerAliveInterval 30\n", alias(e), at.host, at.port, userOf(e), known)
	}
	return b.String()
}

// writeConfig puts blocks into ~/.ssh/config between marks of ours, before everything else: ssh takes the first value it finds.
func writeConfig(server, blocks string) (string, error) {
	dir, err := folder()
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "config")
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	begin, end := "# BEGIN fermi "+server+"\n", "# END fermi "+server+"\n"
	rest := string(old)
	if i := strings.Index(rest, begin); i >= 0 {
		if j := strings.Index(rest[i:], end); j >= 0 {
			rest = rest[:i] + strings.TrimPrefix(rest[i+j+len(end):], "\n")
		}
	}
	return file, replace(file, begin+blocks+end+"\n"+rest, 0o600)
}
