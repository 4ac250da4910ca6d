package usage

import (
	"cmp"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// SayNeeds has every command below say in our words which arguments it takes, where cobra's own rules count them.
func SayNeeds(cmd *cobra.Command) {
	if count := cmd.Args; count != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := count(cmd, args)
			var ours *fault.Error
			if err == nil || errors.As(err, &ours) {
				return err
			}
			if cmd.HasSubCommands() {
				return unknownCommand(cmd, args)
			}
			_, takes, _ := strings.Cut(cmd.Use, " ")
			if len(args) == 0 {
				return Wrong(cmd, fault.T("Missing: %s.", "缺少参数：%s。", takes))
			}
			return Wrong(cmd, fault.T("It takes %s.", "参数应为：%s。", cmp.Or(takes, "-")))
		}
	}
	for _, sub := range cmd.Commands() {
		SayNeeds(sub)
	}
}

// Wrong is the error for a wrong command line: exit code 2 and the way to the help.
func Wrong(cmd *cobra.Command, message fault.Text) error {
	return fault.New(fault.Invalid, "Usage", message).WithHint(fault.T(
		"See `%s --help`.", "参见 `%s --help`。", cmd.CommandPath()))
}

// GroupRun is for commands that only hold others: no argument shows the help, any other is wrong.
func GroupRun(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	return unknownCommand(cmd, args)
}

func Group(use string, short string, cmds ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, RunE: GroupRun}
	g.AddCommand(cmds...)
	return g
}

// Need checks the number of arguments; most < 0 means any. what names them.
func Need(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return Wrong(cmd, fault.T("Missing: %s.", "缺少参数：%s。", what))
		case most >= 0 && len(args) > most:
			return Wrong(cmd, fault.T("Too many arguments; expected: %s.", "参数过多；应为：%s。", cmp.Or(what, "-")))
		}
		return nil
	}
}
