package editor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

const (
	// Word is the argument of this program that starts a command with VS Code beside it; devenv.WithVSCode is the same, which a test compares.
	Word = "with-vscode"
	// Port is where it listens; devenv.VSCodePort.
	Port = 13337
	// Tools is the node's folder of programs for environments; `fermi tools install` fills it.
	Tools = "/opt/fermi/tools"
	// Apart is the variable by which the launcher says that the network is the environment's own.
	Apart = "FERMI_VSCODE"

	readyFor = 30 * time.Second
	lookFor  = 20 * time.Millisecond
)

// Command is `fermi with-vscode`, which only launchers start. both joins the two languages of a help text.
func Command(both func(en, zh string) string) *cobra.Command {
	return &cobra.Command{
		Use: Word + " COMMAND...", Hidden: true, DisableFlagParsing: true, Args: cobra.MinimumNArgs(1),
		Short: both("Run a command with VS Code beside it (started by launchers)", "运行命令并提供 VS Code（由启动器启动）"),
		Run:   func(_ *cobra.Command, args []string) { os.Exit(run(args)) },
	}
}

// Folder is the folder of the node's tools if it may be shown to environments: root's, with no way there that somebody else can change; "": there is none.
func Folder() string {
	for at := Tools; ; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if err != nil || !info.IsDir() || info.Mode().Perm()&0o022 != 0 || info.Sys().(*syscall.Stat_t).Uid != 0 {
			return ""
		}
		if at == "/" {
			return Tools
		}
	}
}

// run is the whole program: the command decides when it ends.
func run(command []string) int {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP) // the launcher signals every process itself
	if why := serve(); why != "" {
		fmt.Fprint(os.Stderr, why)
	}
	cmd := exec.Command(command[0], command[1:]...)
	if command[0] == "fermi" { // ourselves, whatever PATH says
		cmd.Path, cmd.Err = "/proc/self/exe", nil
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var ended *exec.ExitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &ended):
		fmt.Fprintf(os.Stderr, "fermi: %s: %v\n", command[0], err)
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			return 127
		}
		return 126
	}
	ws := ended.Sys().(syscall.WaitStatus)
	if ws.Signaled() { // as it ended, so do we
		signal.Reset()
		_ = syscall.Kill(os.Getpid(), ws.Signal())
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// serve listens; what it says is why not.
func serve() string {
	if os.Getenv(Apart) == "" {
		return notApart
	}
	if _, err := os.Stat(program()); err != nil {
		return notHere
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(Port)))
	if err != nil {
		return fmt.Sprintf("fermi: VS Code can't be served: %v\n       无法提供 VS Code：%v\n", err, err)
	}
	e := &editor{}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go e.carry(c.(*net.TCPConn))
		}
	}()
	return ""
}

func program() string { return filepath.Join(Tools, "vscode/node/bin/node") }

// editor is code-server, started when it is needed.
type editor struct {
	mu     sync.Mutex
	socket string
	ended  chan struct{} // of the one that runs; nil: none was started
}

// carry moves the bytes of a connection.
func (e *editor) carry(c *net.TCPConn) {
	defer c.Close()
	to, err := e.dial()
	if err != nil {
		fmt.Fprintf(os.Stderr, "fermi: VS Code: %v\n", err)
		return
	}
	defer to.Close()
	var g sync.WaitGroup
	g.Go(func() { _, _ = io.Copy(to, c); _ = to.CloseWrite() })
	g.Go(func() { _, _ = io.Copy(c, to); _ = c.CloseWrite() })
	g.Wait()
}

// dial reaches code-server, and starts it if need be.
func (e *editor) dial() (*net.UnixConn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readyFor)
	defer cancel()
	for {
		ended, err := e.running()
		if err != nil {
			return nil, err
		}
		c, err := (&net.Dialer{}).DialContext(ctx, "unix", e.socket)
		if err == nil {
			return c.(*net.UnixConn), nil
		}
		select {
		case <-ended:
			return nil, errors.New("code-server ended before it answered")
		case <-ctx.Done():
			return nil, errors.New("code-server does not answer")
		case <-time.After(lookFor):
		}
	}
}

// running has one run, and says when it has ended.
func (e *editor) running() (<-chan struct{}, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended != nil {
		select {
		case <-e.ended:
			_ = os.RemoveAll(filepath.Dir(e.socket))
		default:
			return e.ended, nil
		}
	}
	dir, err := os.MkdirTemp("", "fermi-vscode-") // nobody but this user enters it
	if err != nil {
		return nil, err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "/"
	}
	e.socket = filepath.Join(dir, "socket")
	cmd := exec.Command(program(), filepath.Join(Tools, "vscode/node_modules/code-server/out/node/entry.js"), "--auth=none", "--socket="+e.socket, "--socket-mode=600",
		"--disable-telemetry", "--disable-update-check", "--disable-workspace-trust", "--disable-getting-started-override", home)
	cmd.Dir = home
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if cmd.Stderr, err = os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil { // its talk is not the command's
		return nil, err
	}
	cmd.Stdout = cmd.Stderr
	err = cmd.Start()
	_ = cmd.Stderr.(*os.File).Close()
	if err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	e.ended = ended
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	return ended, nil
}

const notApart = `fermi: VS Code is not served here: the environment has no network of its own, so that others on this machine could reach it.
       此处不提供 VS Code：环境没有独立网络，本机其他用户可能访问到它。
`

const notHere = `fermi: VS Code is not installed on this node; its operator installs it with: fermi tools install vscode
       本节点未安装 VS Code；请管理员在节点上运行：fermi tools install vscode
`
