package rsh

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/spf13/cobra"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// exit is an error whose only news is the exit code.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// ExitCode is the code to end with.
func (e exit) ExitCode() int { return int(e) }

func coded(code int, err error) error {
	if err != nil || code == 0 {
		return err
	}
	return exit(code)
}

// Command is `fermi rsh`, which only recipes call. both joins an English and a Chinese help text as
// the command line wants it.
func Command(both func(en, zh string) string) *cobra.Command {
	cmd := &cobra.Command{
		Use: "rsh", Hidden: true, Short: both("Start processes in other replicas of a task", "在任务的其他副本中启动进程"), Args: cobra.NoArgs,
	}
	stdio := streams{os.Stdin, os.Stdout, os.Stderr}
	add := func(use, en, zh string, least int, do func(context.Context, []string) error) {
		cmd.AddCommand(&cobra.Command{
			Use: use, Short: both(en, zh), DisableFlagParsing: true,
			RunE: func(cmd *cobra.Command, args []string) error {
				if len(args) > 0 && args[0] == "--" && use != "run" {
					args = args[1:]
				}
				if len(args) < least {
					return fault.New(fault.Invalid, "Usage", fault.T("`%s` needs a command.", "`%s` 需要一条命令。", cmd.CommandPath()))
				}
				return do(cmd.Context(), args)
			},
		})
	}
	add("serve", "Run commands for the lead replica", "为主副本运行命令", 0, func(ctx context.Context, _ []string) error {
		return serveHere(ctx, os.Getenv)
	})
	add("lead", "Run a program that starts processes in all replicas", "运行在所有副本中启动进程的程序", 1, func(ctx context.Context, args []string) error {
		return coded(lead(ctx, os.Getenv, args, stdio))
	})
	add("run", "Run a command in another replica", "在另一个副本中运行命令", 0, func(ctx context.Context, args []string) error {
		return coded(runAt(ctx, os.Getenv, args, stdio))
	})
	add("own", "Run a command with the variables of the replica it is in", "以所在副本自己的环境变量运行命令", 1, func(_ context.Context, args []string) error {
		return ownAgain(args, os.Environ())
	})
	return cmd
}

// listen takes the port that the launcher holds for us.
func listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "PortTaken", fault.T("The replica's port at %s is not free.", "副本在 %s 的端口不可用。", address)).Because(err)
	}
	return l, nil
}
