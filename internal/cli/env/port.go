package env

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func port() *cobra.Command {
	c := &cobra.Command{
		Use: "port NAME [PORT[:LOCAL]…]", Short: cli.Both("Bring ports of an environment to this machine, or list their addresses", "将环境的端口转发到本机，或列出其地址"), Args: cobra.MinimumNArgs(1),
		Long: cli.Both("Bring ports of an environment to this machine: programs here reach PORT there as 127.0.0.1:LOCAL (the same number when absent, any free one for 0). Without a port, list the addresses of those that it declares.",
			"将环境的端口转发到本机：本机程序经 127.0.0.1:LOCAL 访问环境中的 PORT（不填则相同，0 表示任选）。不给端口时列出已声明端口的地址。"),
		Example: "  fermi env port lab 8888\n  fermi env port lab 8888:9999 6006",
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return w.ports(cmd, args[0])
			}
			return w.forward(cmd, args[0], args[1:])
		},
	}
	return c
}

func forwardPorts() *cobra.Command {
	return &cobra.Command{
		Use: "forward NAME LOCAL:REMOTE…", Short: cli.Both("Bring ports of an environment to this machine", "将环境的端口转发到本机"), Args: cobra.MinimumNArgs(2), GroupID: cli.GroupWork,
		Long: cli.Both("Bring ports of an environment to this machine: programs here reach REMOTE there as 127.0.0.1:LOCAL; one number alone is both, and 0 for LOCAL is any free port.",
			"将环境的端口转发到本机：本机程序经 127.0.0.1:LOCAL 访问环境中的 REMOTE；只写一个数字表示两端相同，LOCAL 为 0 表示任选空闲端口。"),
		Example: "  fermi forward lab 8080:80\n  fermi forward lab 6006 0:8888",
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			ports := make([]string, 0, len(args)-1)
			for _, text := range args[1:] {
				here, there, two := strings.Cut(text, ":")
				if !two {
					there = here
				}
				ports = append(ports, there+":"+here)
			}
			return w.forward(cmd, args[0], ports)
		},
	}
}

func (w *where) ports(cmd *cobra.Command, name string) error {
	list, err := client.Ports(cmd.Context(), w.Client, devenv.Kind, w.Project, name)
	if err != nil {
		return err
	}
	heads := []string{fault.T("PORT", "端口").In(w.Lang), fault.T("NAME", "名称").In(w.Lang), fault.T("IN A BROWSER", "浏览器地址").In(w.Lang), fault.T("FOR PROGRAMS", "程序地址").In(w.Lang)}
	var rows [][]string
	for _, p := range list {
		row := []string{strconv.Itoa(p.Port), p.Name, p.URL, w.Server() + p.Path}
		for i := range row {
			if row[i] == "" {
				row[i] = "-"
			}
		}
		rows = append(rows, row)
	}
	if err := cli.Table(cmd.OutOrStdout(), heads, rows); err != nil {
		return err
	}
	return w.links(cmd, name)
}

func openPort() *cobra.Command {
	return &cobra.Command{
		Use: "open NAME [PORT|PORT NAME]", Short: cli.Both("Print an address that opens a port in your browser, once, within a minute", "显示一次性地址，一分钟内在浏览器中打开端口"), Args: cobra.RangeArgs(1, 2),
		Example: "  fermi env open lab\n  fermi env open lab 6006\n  fermi env open lab vscode",
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			at, err := w.portOf(cmd.Context(), args[0], args[1:])
			if err != nil {
				return err
			}
			u, err := client.OpenPort(cmd.Context(), w.Client, devenv.Kind, w.Project, args[0], at)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), u)
			return nil
		},
	}
}

// portOf is the port that somebody names by its number or name; the first one where they say nothing.
func (w *where) portOf(ctx context.Context, env string, named []string) (int, error) {
	if len(named) > 0 {
		if _, err := strconv.Atoi(named[0]); err == nil {
			return number(named[0])
		}
	}
	list, err := client.Ports(ctx, w.Client, devenv.Kind, w.Project, env)
	if err != nil {
		return 0, err
	}
	names := make([]string, 0, len(list))
	for _, p := range list {
		if len(named) == 0 || p.Name == named[0] {
			return p.Port, nil
		}
		names = append(names, cmp.Or(p.Name, strconv.Itoa(p.Port)))
	}
	if len(named) == 0 {
		return devenv.NotebookPort, nil
	}
	no := fault.New(fault.NotFound, "NoSuchPort", fault.T("The environment %s has no port of the name %q.", "环境 %s 没有名为 %q 的端口。", env, named[0]))
	if named[0] == "vscode" {
		return 0, no.WithHint(fault.T("Stop it, set spec.vscode (fermi env create has --vscode), and start it.", "请停止环境，设置 spec.vscode（fermi env create 的 --vscode），再启动。"))
	}
	return 0, no.WithHint(fault.T("It has: %s.", "可用的有：%s。", strings.Join(names, ", ")))
}

func share() *cobra.Command {
	var lasts string
	c := &cobra.Command{
		Use: "share NAME PORT", Short: cli.Both("Make a link by which anybody who has it opens a port in a browser", "创建链接，任何拥有它的人都可在浏览器中打开该端口"), Args: cobra.ExactArgs(2),
		Example: "  fermi env share lab 6006 --for 2h\n  fermi env unshare lab link-…",
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			at, err := number(args[1])
			if err != nil {
				return err
			}
			l, err := client.SharePort(cmd.Context(), w.Client, devenv.Kind, w.Project, args[0], at, lasts)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), l.URL)
			w.Say("It works until %[1]s. Take it back: fermi env unshare %[2]s %[3]s", "有效至 %[1]s。撤销：fermi env unshare %[2]s %[3]s", l.EndsAt.Local().Format("2006-01-02 15:04:05"), args[0], l.ID)
			return nil
		},
	}
	c.Flags().StringVar(&lasts, "for", "", cli.Both("how long it works, 1m to 720h; 24h when absent", "有效期，1m 到 720h；默认 24h"))
	return c
}

func unshare() *cobra.Command {
	return &cobra.Command{
		Use: "unshare NAME LINK", Short: cli.Both("Take a link to a port back; `fermi env port NAME` lists them", "撤销端口链接；用 `fermi env port NAME` 查看"), Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			return client.UnsharePort(cmd.Context(), w.Client, devenv.Kind, w.Project, args[0], args[1])
		},
	}
}

// links lists the links to ports of an environment that work.
func (w *where) links(cmd *cobra.Command, name string) error {
	e, err := w.get(cmd.Context(), name)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, l := range e.Spec.Links {
		if l.EndsAt.After(time.Now()) {
			rows = append(rows, []string{l.ID, strconv.Itoa(l.Port), l.By, l.EndsAt.Local().Format("2006-01-02 15:04:05")})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(cmd.OutOrStdout())
	heads := []string{fault.T("LINK", "链接").In(w.Lang), fault.T("PORT", "端口").In(w.Lang), fault.T("BY", "创建者").In(w.Lang), fault.T("UNTIL", "有效至").In(w.Lang)}
	return cli.Table(cmd.OutOrStdout(), heads, rows)
}

func number(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 65535 {
		return 0, fault.New(fault.Invalid, "BadPort", fault.T("%q is no port: a number from 1 to 65535.", "%q 不是合法的端口：须为 1 到 65535 的数字。", text))
	}
	return n, nil
}

// forward listens here for what listens there, until it is interrupted.
func (w *where) forward(cmd *cobra.Command, name string, ports []string) error {
	if _, err := w.get(cmd.Context(), name); err != nil {
		return err
	}
	var all []net.Listener
	defer func() {
		for _, l := range all {
			_ = l.Close()
		}
	}()
	var g sync.WaitGroup
	ctx, stop := context.WithCancel(cmd.Context())
	defer g.Wait()
	defer stop()
	failed := make(chan error, len(ports))
	for _, text := range ports {
		there, here, split := strings.Cut(text, ":")
		to, err := number(there)
		if err == nil && to == 0 {
			err = fault.New(fault.Invalid, "BadPort", fault.T("%q is no port: a number from 1 to 65535.", "%q 不是合法的端口：须为 1 到 65535 的数字。", there))
		}
		local := to
		if err == nil && split {
			local, err = number(here)
		}
		if err != nil {
			return err
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(local)))
		if err != nil {
			return fault.New(fault.Conflict, "PortInUse", fault.T("Port %d of this machine is taken.", "本机端口 %d 已被占用。", local)).WithHint(
				fault.T("Choose another: %d:0 takes any free one.", "可换一个：%d:0 表示任选空闲端口。", to)).Because(err)
		}
		all = append(all, l)
		fmt.Fprintf(cmd.OutOrStdout(), "%s -> %s:%d\n", l.Addr(), name, to)
		g.Go(func() { failed <- w.accept(ctx, l, name, to) })
	}
	select {
	case <-ctx.Done():
	case err := <-failed:
		if ctx.Err() == nil {
			stop()
			for _, l := range all {
				_ = l.Close()
			}
			return err
		}
	}
	for _, l := range all {
		_ = l.Close()
	}
	return nil
}

// accept carries every connection of a listener.
func (w *where) accept(ctx context.Context, l net.Listener, name string, port int) error {
	var g sync.WaitGroup
	defer g.Wait()
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		g.Go(func() {
			defer c.Close()
			defer context.AfterFunc(ctx, func() { _ = c.Close() })()
			t, err := client.OpenTunnel(ctx, w.Client, devenv.Kind, w.Project, name, port)
			if err != nil {
				w.Say("port %d: %s", "端口 %d：%s", port, fault.From(err).Message.In(w.Lang))
				return
			}
			defer t.Close()
			carry(c.(*net.TCPConn), t)
		})
	}
}

type halfCloser interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// carry moves bytes both ways until both directions have ended.
func carry(a, b halfCloser) {
	var g sync.WaitGroup
	one := func(to, from halfCloser) {
		_, err := io.Copy(struct{ io.Writer }{to}, struct{ io.Reader }{from})
		if err = errors.Join(err, to.CloseWrite()); err != nil {
			_, _ = to.Close(), from.Close()
		}
	}
	g.Go(func() { one(a, b) })
	g.Go(func() { one(b, a) })
	g.Wait()
}
