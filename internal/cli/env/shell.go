package env

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/api/v1/terminal"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func shell() *cobra.Command {
	var session string
	c := &cobra.Command{
		Use: "shell NAME [-- COMMAND…]", Short: cli.Both("A shell in an environment, or a command", "进入环境的终端，或在其中执行命令"), Args: cobra.MinimumNArgs(1),
		Long: cli.Both("A shell in an environment, or a command.\n\nIt goes on when the connection is cut or the server restarts, and this command finds it again. It ends with the status of what ran.",
			"进入环境的终端，或在其中执行命令。\n\n连接中断或服务器重启时终端仍在，本命令会自动重新连接。退出码与所运行的程序一致。"),
		Example: "  fermi env shell lab\n  fermi env shell lab -- nvidia-smi",
		RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd, client.TerminalOptions{Kind: devenv.Kind, Name: args[0], Wish: terminal.Wish{Command: args[1:], Session: session}})
		},
	}
	c.Flags().StringVar(&session, "session", "", cli.Both("name of the terminal; one that is there already is attached to", "终端名称；已存在则重新连接"))
	return c
}

func trainShell() *cobra.Command {
	var session string
	var rank int
	c := &cobra.Command{
		Use: "shell TASK [-- COMMAND…]", Short: cli.Both("A shell beside a running rank, or a command", "在运行中的 rank 旁打开终端，或执行命令"), Args: cobra.MinimumNArgs(1),
		Example: "  fermi train shell my-task --rank 3\n  fermi train shell my-task -- nvidia-smi",
		RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd, client.TerminalOptions{Kind: api.KindTrainingTask, Name: args[0], Rank: rank, Wish: terminal.Wish{Command: args[1:], Session: session}})
		},
	}
	c.Flags().IntVar(&rank, "rank", 0, cli.Both("beside which rank", "在哪个 rank 旁"))
	c.Flags().StringVar(&session, "session", "", cli.Both("name of the terminal; one that is there already is attached to", "终端名称；已存在则重新连接"))
	return c
}

// exit ends the command with a status and nothing more to say.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }
func (e exit) ExitCode() int { return int(e) }

// findFor is how long a shell whose connection was cut is looked for.
const findFor = 2 * time.Minute

// firstFor is how long a server that has just started may look for what runs.
const firstFor = 15 * time.Second

// screen is the user's side of a terminal.
type screen struct {
	w    *where
	opts client.TerminalOptions
	in   io.Reader
	out  io.Writer
	errs io.Writer
	tty  *os.File // nil: there is none
	got  int64    // bytes of output that were shown

	mu    sync.Mutex
	line  *client.Terminal // nil while it is cut
	ended bool             // of the input
}

func run(cmd *cobra.Command, o client.TerminalOptions) error {
	w, err := dial(cmd)
	if err != nil {
		return err
	}
	o.Project = w.Project
	s := &screen{w: w, in: cmd.InOrStdin(), out: cmd.OutOrStdout(), errs: cmd.ErrOrStderr(), opts: o}
	if in, ok := s.in.(*os.File); ok && term.IsTerminal(int(in.Fd())) && (len(o.Wish.Command) == 0 || isTerminal(s.out)) {
		s.tty = in
	}
	s.opts.Wish.TTY = s.tty != nil
	if s.opts.Wish.Session == "" {
		s.opts.Wish.Session = rand.Text()
	}
	if s.tty != nil {
		s.opts.Wish.Term = os.Getenv("TERM")
		s.measure()
	}
	line, err := s.find(cmd.Context(), firstFor)
	if err != nil {
		return err
	}
	if s.tty != nil {
		was, err := term.MakeRaw(int(s.tty.Fd()))
		if err != nil {
			return err
		}
		defer term.Restore(int(s.tty.Fd()), was)
	}
	ctx, stop := context.WithCancel(cmd.Context())
	defer stop()
	go s.read(ctx)
	go s.watchSignals(ctx)
	return s.show(ctx, line)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// measure takes the window's size over.
func (s *screen) measure() {
	if columns, rows, err := term.GetSize(int(s.tty.Fd())); err == nil {
		s.mu.Lock()
		s.opts.Wish.Columns, s.opts.Wish.Rows = columns, rows
		s.mu.Unlock()
	}
}

// dial opens the line.
func (s *screen) dial(ctx context.Context) (*client.Terminal, error) {
	s.mu.Lock()
	o := s.opts
	s.mu.Unlock()
	o.Wish.From = s.got
	line, err := client.OpenTerminal(ctx, s.w.Client, o)
	if err != nil {
		return nil, err
	}
	for {
		_, _, news, err := line.Receive(ctx)
		if err != nil {
			line.Hang()
			return nil, err
		}
		if news != nil && news.Type == terminal.Opened {
			if news.From > s.got && s.got > 0 && s.tty == nil {
				line.Hang()
				return nil, fault.New(fault.Conflict, "OutputLost", fault.T("%d bytes of output were lost while the connection was cut.", "连接中断期间丢失了 %d 字节输出。", news.From-s.got))
			}
			s.got = news.From
			break
		}
	}
	s.mu.Lock()
	s.line = line
	s.opts.Wish.Attach = true // from now on there is one
	ended := s.ended
	s.mu.Unlock()
	if ended {
		_ = line.Say(ctx, terminal.Wish{Type: terminal.End})
	}
	return line, nil
}

// now is the line of this moment; nil while it is cut.
func (s *screen) now() *client.Terminal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.line
}

// read sends what is typed. What is typed while the line is cut is kept for it.
func (s *screen) read(ctx context.Context) {
	buf := make([]byte, 32<<10)
	for {
		n, err := s.in.Read(buf)
		for n > 0 && ctx.Err() == nil {
			if line := s.now(); line != nil && line.Write(ctx, buf[:n]) == nil {
				break
			}
			time.Sleep(lookEvery) // the line is looked for
		}
		if err != nil {
			s.mu.Lock()
			s.ended = true
			line := s.line
			s.mu.Unlock()
			if line != nil && s.tty == nil {
				_ = line.Say(ctx, terminal.Wish{Type: terminal.End})
			}
			return
		}
	}
}

// watchSignals hands the window's size and, where there is no terminal, the user's signals over.
func (s *screen) watchSignals(ctx context.Context) {
	ch := make(chan os.Signal, 4)
	if s.tty != nil {
		signal.Notify(ch, syscall.SIGWINCH)
	} else {
		signal.Notify(ch, syscall.SIGINT, syscall.SIGTERM)
	}
	defer signal.Stop(ch)
	for {
		select {
		case <-ctx.Done():
			return
		case sig := <-ch:
			line := s.now()
			switch {
			case s.tty != nil:
				s.measure()
				if line != nil {
					s.mu.Lock()
					w := terminal.Wish{Type: terminal.Resize, Columns: s.opts.Wish.Columns, Rows: s.opts.Wish.Rows}
					s.mu.Unlock()
					_ = line.Say(ctx, w)
				}
			case line != nil:
				name := "SIGTERM"
				if sig == syscall.SIGINT {
					name = "SIGINT"
				}
				_ = line.Say(ctx, terminal.Wish{Type: terminal.Signal, Name: name})
			}
		}
	}
}

// show prints until the end; a line that is cut is looked for again.
func (s *screen) show(ctx context.Context, line *client.Terminal) error {
	for {
		data, isErrors, news, err := line.Receive(ctx)
		switch {
		case err != nil && fault.CodeOf(err).Retry():
			if line, err = s.again(ctx, line); err != nil {
				return err
			}
		case err != nil:
			line.Hang()
			return err
		case news != nil && news.Type == terminal.Exit:
			line.Hang()
			if news.Code == 0 {
				return nil
			}
			return exit(news.Code)
		case len(data) > 0:
			to := s.out
			if isErrors {
				to = s.errs
			}
			s.got += int64(len(data))
			if _, err := to.Write(data); err != nil {
				_ = line.Say(ctx, terminal.Wish{Type: terminal.Close})
				line.Hang()
				return err
			}
		}
	}
}

// again finds the shell after a cut.
func (s *screen) again(ctx context.Context, old *client.Terminal) (*client.Terminal, error) {
	old.Hang()
	s.mu.Lock()
	s.line = nil
	s.mu.Unlock()
	if s.tty != nil {
		fmt.Fprint(s.errs, "\r\n"+fault.T("[connection lost, looking for the shell]", "[连接中断，正在重新连接]").In(s.w.Lang)+"\r\n")
	}
	return s.find(ctx, findFor)
}

// find dials until it is answered, at most for a while.
func (s *screen) find(ctx context.Context, patience time.Duration) (*client.Terminal, error) {
	late := time.Now().Add(patience)
	for pause := lookEvery; ; pause = min(2*pause, 2*time.Second) {
		line, err := s.dial(ctx)
		if err == nil {
			return line, nil
		}
		if ctx.Err() != nil || !fault.CodeOf(err).Retry() || time.Now().After(late) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(err, ctx.Err())
		case <-time.After(pause):
		}
	}
}
