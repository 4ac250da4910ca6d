package call

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// BuildInfo is what the linker knows about the binary.
type BuildInfo struct {
	Version string
	Commit  string
	Date    string
	NoCards bool // it was built without cgo, and can't ask NVIDIA's driver
}

// Shell is what all commands of one Root share.
type Shell struct {
	Build BuildInfo
	Clock clock.Clock
	Flags Flags
}

// Flags are those of all commands.
type Flags struct {
	Server, TokenFile, Fingerprint, Project, Lang, Output string
}

// Action is the body of a command: its client is ready, its ctx ends by Ctrl-C.
type Action func(ctx context.Context, s *Session, args []string) error

// Session is one run of one command.
type Session struct {
	build  BuildInfo
	Clock  clock.Clock
	Flags  *Flags
	Cmd    *cobra.Command
	Client *client.Client
	Lang   string
	In     io.Reader
	Out    io.Writer
	Err    io.Writer
}

// Online wraps an action that talks to the server.
func (a *Shell) Online(do Action) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, err := a.Session(cmd)
		if err != nil {
			return err
		}
		if s.Client, err = s.Dial(); err != nil {
			return err
		}
		defer s.Client.CloseIdle()
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		err = do(ctx, s, args)
		if err != nil && ctx.Err() != nil && fault.ReasonOf(err) == "Canceled" {
			return Exit{130}
		}
		return err
	}
}

func (a *Shell) Session(cmd *cobra.Command) (*Session, error) {
	s := &Session{
		build: a.Build, Clock: a.Clock, Flags: &a.Flags, Cmd: cmd, Lang: speech.Language(cmd),
		In: cmd.InOrStdin(), Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr(),
	}
	switch a.Flags.Output {
	case "table", "wide", "json", "yaml", "name":
	default:
		more := cmd.Annotations[AlsoOutput]
		if more != "" && more == a.Flags.Output {
			break
		}
		if more != "" {
			more = ", " + more
		}
		return nil, usage.Wrong(cmd, fault.T("%q is no output format; there are table, wide, json, yaml, name%s.",
			"没有 %q 这种输出格式；可用 table、wide、json、yaml、name%s。", a.Flags.Output, more))
	}
	return s, nil
}

// AlsoOutput is the annotation that names a further output format of a command.
const AlsoOutput = "output"

// Say prints chatter on stderr.
func (s *Session) Say(en, zh string, args ...any) {
	fmt.Fprintln(s.Err, show.Visible(fault.T(en, zh, args...).In(s.Lang)))
}

// T picks a sentence.
func (s *Session) T(en, zh string, args ...any) string { return fault.T(en, zh, args...).In(s.Lang) }
