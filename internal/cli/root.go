package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/sample"
)

// BuildInfo is what the linker knows about the binary.
type BuildInfo struct {
	Version string
	Commit  string
	Date    string
}

// Groups of commands in the help; the assembly puts its own into GroupCluster.
const (
	GroupWork    = "work"
	GroupObjects = "objects"
	GroupCluster = "cluster"
	GroupOther   = "other"
)

// app is what all commands of one Root share.
type app struct {
	build BuildInfo
	clock clock.Clock
	flags flags
}

// flags are those of all commands.
type flags struct {
	server, tokenFile, fingerprint, project, lang, output string
}

// Root is `fermi` with every verb that talks to a server. The caller adds its own commands to it
// and runs it with Execute. Nothing is read or started before that.
func Root(build BuildInfo) *cobra.Command { return newRoot(&app{build: build, clock: clock.Real}) }

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:           "fermi",
		Short:         Both("An AI cluster platform in one binary", "单一可执行文件的 AI 集群平台"),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE:          groupRun,
	}
	root.SetFlagErrorFunc(badFlags)
	flags := root.PersistentFlags()
	flags.StringVar(&a.flags.server, "server", "", Both("address of the server, or several with commas (FERMI_SERVER; default "+defaultServer+")", "服务器地址，可用逗号分隔多个（FERMI_SERVER；默认 "+defaultServer+"）"))
	flags.StringVar(&a.flags.tokenFile, "token-file", "", Both("file that holds the token (otherwise FERMI_TOKEN, or the token of a local fermi up)", "令牌文件（否则用 FERMI_TOKEN 或本机 fermi up 的令牌）"))
	flags.StringVar(&a.flags.fingerprint, "tls-fingerprint", "", Both("SHA-256 of the server's certificate, the only one to trust (FERMI_TLS_FINGERPRINT)", "服务器证书的 SHA-256，只信任该证书（FERMI_TLS_FINGERPRINT）"))
	flags.StringVar(&a.flags.project, "project", "", Both("project (FERMI_PROJECT, then the one of fermi project use, then your own; lists show all)", "项目（FERMI_PROJECT，其次 fermi project use 所选，再次您自己的项目；列表显示全部）"))
	flags.StringVar(&a.flags.lang, "lang", "", Both("language: zh or en (FERMI_LANG, LC_ALL, LANG)", "语言：zh 或 en（FERMI_LANG、LC_ALL、LANG）"))
	flags.StringVarP(&a.flags.output, "output", "o", "table", Both("table, wide, json, yaml or name", "输出格式：table、wide、json、yaml 或 name"))
	root.AddGroup(
		&cobra.Group{ID: GroupWork, Title: Both("Work:", "任务：")},
		&cobra.Group{ID: GroupObjects, Title: Both("Objects:", "对象：")},
		&cobra.Group{ID: GroupCluster, Title: Both("Cluster:", "集群：")},
		&cobra.Group{ID: GroupOther, Title: Both("Other:", "其他：")},
	)
	root.SetHelpCommandGroupID(GroupOther)
	root.SetCompletionCommandGroupID(GroupOther)
	// Texts are settled as late as possible: commands come later, and so does --lang.
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) { localise(cmd.Root(), Language(cmd)) }
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		localise(cmd.Root(), Language(cmd))
		help(cmd, args)
	})
	a.addAll(root)
	return root
}

func (a *app) addAll(root *cobra.Command) {
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add(GroupWork, a.trainCommand(), a.logsCommand(), a.whyCommand(), a.eventsCommand(), sampleCommand())
	add(GroupObjects, a.applyCommand(), a.getCommand(), a.describeCommand(), a.deleteCommand())
	add(GroupCluster, a.zoneCommand(), a.nodeCommand(), a.queueCommand(), a.projectCommand(), a.userCommand(), a.tokenCommand(), a.secretCommand(), a.usageCommand(), a.topCommand(), a.auditCommand(), a.backupCommand())
	add(GroupOther, a.versionCommand(), a.whoamiCommand(), a.signInCommand())
}

// Execute runs the command line, reports what failed on stderr, and is the exit code. ctx should
// not end by Ctrl-C: commands listen for it themselves.
func Execute(ctx context.Context, root *cobra.Command) int {
	saysWhatItNeeds(root)
	cmd, err := root.ExecuteContextC(ctx)
	if cmd == nil {
		cmd = root
	}
	return report(root.ErrOrStderr(), err, Language(cmd))
}

// saysWhatItNeeds has every command below say in our words which arguments it takes, where cobra's own rules count them.
func saysWhatItNeeds(cmd *cobra.Command) {
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
				return usage(cmd, fault.T("Missing: %s.", "缺少参数：%s。", takes))
			}
			return usage(cmd, fault.T("It takes %s.", "参数应为：%s。", cmp.Or(takes, "-")))
		}
	}
	for _, sub := range cmd.Commands() {
		saysWhatItNeeds(sub)
	}
}

// exit ends the process with a code and nothing more to say.
type exit struct{ code int }

func (e exit) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// ExitCode is the code to end with.
func (e exit) ExitCode() int { return e.code }

// report prints the error for people and picks the exit code.
func report(w io.Writer, err error, lang string) int {
	var coded interface{ ExitCode() int }
	switch {
	case err == nil:
		return 0
	case errors.As(err, &coded):
		return coded.ExitCode()
	}
	e := fault.From(err)
	word, hint, cause := fault.T("error", "错误"), fault.T("hint", "提示"), fault.T("cause", "原因")
	sep := ": "
	if isChinese(lang) {
		sep = "："
	}
	message := clean(e.Message.In(lang))
	fmt.Fprintf(w, "%s%s%s\n", word.In(lang), sep, message)
	for _, f := range e.Fields {
		// A server that refuses one field says it in its message.
		if path, said := clean(f.Path), clean(f.Message.In(lang)); said != message && path+sep+said != message && path+": "+said != message {
			fmt.Fprintf(w, "  %s: %s\n", path, said)
		}
	}
	if e.Code == fault.Internal && e.Unwrap() != nil {
		fmt.Fprintf(w, "  %s%s%s\n", cause.In(lang), sep, clean(e.Unwrap().Error()))
	}
	if !e.Hint.IsZero() {
		fmt.Fprintf(w, "  %s%s%s\n", hint.In(lang), sep, clean(e.Hint.In(lang)))
	}
	return e.Code.Exit()
}

// usage is the error for a wrong command line: exit code 2 and the way to the help.
func usage(cmd *cobra.Command, message fault.Text) error {
	return fault.New(fault.Invalid, "Usage", message).WithHint(fault.T(
		"See `%s --help`.", "参见 `%s --help`。", cmd.CommandPath()))
}

// groupRun is for commands that only hold others: no argument shows the help, any other is wrong.
func groupRun(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	return unknownCommand(cmd, args)
}

// sampleCommand is `fermi sample`, which needs no server; only its usage errors are ours.
func sampleCommand() *cobra.Command {
	cmd := sample.Command(Both)
	cmd.Args, cmd.RunE = cobra.ArbitraryArgs, groupRun
	for _, sub := range cmd.Commands() {
		sub.Args = needArgs(0, 0, "")
	}
	return cmd
}

func group(use string, short string, cmds ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, RunE: groupRun}
	g.AddCommand(cmds...)
	return g
}

// action is the body of a command: its client is ready, its ctx ends by Ctrl-C.
type action func(ctx context.Context, s *session, args []string) error

// session is one run of one command.
type session struct {
	build  BuildInfo
	clock  clock.Clock
	flags  *flags
	cmd    *cobra.Command
	client *client.Client
	lang   string
	in     io.Reader
	out    io.Writer
	err    io.Writer
}

// online wraps an action that talks to the server.
func (a *app) online(do action) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, err := a.session(cmd)
		if err != nil {
			return err
		}
		if s.client, err = s.dial(); err != nil {
			return err
		}
		defer s.client.CloseIdle()
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		err = do(ctx, s, args)
		if err != nil && ctx.Err() != nil && fault.ReasonOf(err) == "Canceled" {
			return exit{130}
		}
		return err
	}
}

func (a *app) session(cmd *cobra.Command) (*session, error) {
	s := &session{
		build: a.build, clock: a.clock, flags: &a.flags, cmd: cmd, lang: Language(cmd),
		in: cmd.InOrStdin(), out: cmd.OutOrStdout(), err: cmd.ErrOrStderr(),
	}
	switch a.flags.output {
	case "table", "wide", "json", "yaml", "name":
	default:
		more := cmd.Annotations[alsoOutput]
		if more != "" && more == a.flags.output {
			break
		}
		if more != "" {
			more = ", " + more
		}
		return nil, usage(cmd, fault.T("%q is no output format; there are table, wide, json, yaml, name%s.",
			"没有 %q 这种输出格式；可用 table、wide、json、yaml、name%s。", a.flags.output, more))
	}
	return s, nil
}

// alsoOutput is the annotation that names a further output format of a command.
const alsoOutput = "output"

// say prints chatter on stderr.
func (s *session) say(en, zh string, args ...any) {
	fmt.Fprintln(s.err, visible(fault.T(en, zh, args...).In(s.lang)))
}

// t picks a sentence.
func (s *session) t(en, zh string, args ...any) string { return fault.T(en, zh, args...).In(s.lang) }

// needArgs checks the number of arguments; most < 0 means any. what names them.
func needArgs(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usage(cmd, fault.T("Missing: %s.", "缺少参数：%s。", what))
		case most >= 0 && len(args) > most:
			return usage(cmd, fault.T("Too many arguments; expected: %s.", "参数过多；应为：%s。", cmp.Or(what, "-")))
		}
		return nil
	}
}
