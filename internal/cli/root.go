package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/cluster"
	"github.com/fermi-cluster/fermi/internal/cli/logs"
	"github.com/fermi-cluster/fermi/internal/cli/object"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/tenant"
	"github.com/fermi-cluster/fermi/internal/cli/train"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/sample"
)

// Groups of commands in the help; the assembly puts its own into GroupCluster.
const (
	GroupWork    = "work"
	GroupObjects = "objects"
	GroupCluster = "cluster"
	GroupOther   = "other"
)

// Root is `fermi` with every verb that talks to a server. The caller adds its own commands to it
// and runs it with Execute. Nothing is read or started before that.
func Root(build BuildInfo) *cobra.Command {
	return newRoot(&call.Shell{Build: build, Clock: clock.Real})
}

func newRoot(a *call.Shell) *cobra.Command {
	root := &cobra.Command{
		Use:           "fermi",
		Short:         speech.Both("An AI cluster platform in one binary", "单一可执行文件的 AI 集群平台"),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE:          usage.GroupRun,
	}
	root.SetFlagErrorFunc(usage.BadFlags)
	flags := root.PersistentFlags()
	flags.StringVar(&a.Flags.Server, "server", "", speech.Both("address of the server, or several with commas (FERMI_SERVER; default "+call.DefaultServer+")", "服务器地址，可用逗号分隔多个（FERMI_SERVER；默认 "+call.DefaultServer+"）"))
	flags.StringVar(&a.Flags.TokenFile, "token-file", "", speech.Both("file that holds the token (otherwise FERMI_TOKEN, or the token of a local fermi up)", "令牌文件（否则用 FERMI_TOKEN 或本机 fermi up 的令牌）"))
	flags.StringVar(&a.Flags.Fingerprint, "tls-fingerprint", "", speech.Both("SHA-256 of the server's certificate, the only one to trust (FERMI_TLS_FINGERPRINT)", "服务器证书的 SHA-256，只信任该证书（FERMI_TLS_FINGERPRINT）"))
	flags.StringVar(&a.Flags.Project, "project", "", speech.Both("project (FERMI_PROJECT, then the one of fermi project use, then your own; lists show all)", "项目（FERMI_PROJECT，其次 fermi project use 所选，再次您自己的项目；列表显示全部）"))
	flags.StringVar(&a.Flags.Lang, "lang", "", speech.Both("language: zh or en (FERMI_LANG, LC_ALL, LANG)", "语言：zh 或 en（FERMI_LANG、LC_ALL、LANG）"))
	flags.StringVarP(&a.Flags.Output, "output", "o", "table", speech.Both("table, wide, json, yaml or name", "输出格式：table、wide、json、yaml 或 name"))
	root.AddGroup(
		&cobra.Group{ID: GroupWork, Title: speech.Both("Work:", "任务：")},
		&cobra.Group{ID: GroupObjects, Title: speech.Both("Objects:", "对象：")},
		&cobra.Group{ID: GroupCluster, Title: speech.Both("Cluster:", "集群：")},
		&cobra.Group{ID: GroupOther, Title: speech.Both("Other:", "其他：")},
	)
	root.SetHelpCommandGroupID(GroupOther)
	root.SetCompletionCommandGroupID(GroupOther)
	// Texts are settled as late as possible: commands come later, and so does --lang.
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) { speech.Localise(cmd.Root(), speech.Language(cmd)) }
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		speech.Localise(cmd.Root(), speech.Language(cmd))
		help(cmd, args)
	})
	addAll(a, root)
	return root
}

func addAll(a *call.Shell, root *cobra.Command) {
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add(GroupWork, train.Command(a), logs.Command(a), object.WhyCommand(a), object.EventsCommand(a), sampleCommand())
	add(GroupObjects, object.ApplyCommand(a), object.GetCommand(a), object.DescribeCommand(a), object.DeleteCommand(a))
	add(GroupCluster, cluster.ZoneCommand(a), cluster.NodeCommand(a), cluster.QueueCommand(a), tenant.ProjectCommand(a), tenant.UserCommand(a), tenant.TokenCommand(a), tenant.SecretCommand(a), cluster.UsageCommand(a), cluster.TopCommand(a), cluster.AuditCommand(a), cluster.BackupCommand(a), cluster.RotateCommand(a))
	add(GroupOther, versionCommand(a), tenant.WhoamiCommand(a), tenant.SignInCommand(a))
}

// Execute runs the command line, reports what failed on stderr, and is the exit code. ctx should
// not end by Ctrl-C: commands listen for it themselves.
func Execute(ctx context.Context, root *cobra.Command) int {
	usage.SayNeeds(root)
	cmd, err := root.ExecuteContextC(ctx)
	if cmd == nil {
		cmd = root
	}
	return call.Report(root.ErrOrStderr(), err, speech.Language(cmd))
}

// sampleCommand is `fermi sample`, which needs no server; only its usage errors are ours.
func sampleCommand() *cobra.Command {
	cmd := sample.Command(speech.Both)
	cmd.Args, cmd.RunE = cobra.ArbitraryArgs, usage.GroupRun
	for _, sub := range cmd.Commands() {
		sub.Args = usage.Need(0, 0, "")
	}
	return cmd
}
