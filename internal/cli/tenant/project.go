package tenant

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/object"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func ProjectCommand(a *call.Shell) *cobra.Command {
	var queue, display string
	var members, folders []string
	create := &cobra.Command{Use: "create NAME", Short: speech.Both("Create a project", "创建项目"), Args: usage.Need(1, 1, "NAME")}
	create.Flags().StringVar(&queue, "queue", "", speech.Both("queue of its tasks", "任务使用的队列"))
	create.Flags().StringVar(&display, "display-name", "", speech.Both("name shown to people", "显示名"))
	create.Flags().StringSliceVar(&members, "member", nil, speech.Both("user who belongs to it; may be repeated", "成员用户；可重复"))
	create.Flags().StringSliceVar(&folders, "folder", nil, speech.Both("folder of the machines that its tasks may use, by its name; may be repeated", "任务可用的主机目录（名称）；可重复"))
	create.RunE = a.Online(func(ctx context.Context, s *call.Session, args []string) error {
		return object.Create(ctx, s, &api.Project{
			Meta: api.Meta{Name: args[0], DisplayName: display}, Spec: api.ProjectSpec{Queue: queue, Members: members, Folders: folders},
		})
	})
	return usage.Group("project", speech.Both("Projects", "项目"), object.ListCommand(a, api.KindProject, "list", speech.Both("List projects", "列出项目")), create, projectSetCommand(a),
		projectUseCommand(a), removeCommand(a, api.KindProject, speech.Both("Delete projects that hold no tasks", "删除没有任务的项目")),
		memberCommand(a, "add-member", true, speech.Both("Let users into a project", "将用户加入项目")),
		memberCommand(a, "remove-member", false, speech.Both("Put users out of a project; their open streams end within seconds", "将用户移出项目；其打开的流数秒内结束")))
}

// storeLimits are the flags of a project's limits, by the field's name.
var storeLimits = []struct {
	name, en, zh string
	of           func(*api.ProjectLimits) *api.Bytes
}{
	{"logs", "bytes of logs that it may keep", "日志", func(l *api.ProjectLimits) *api.Bytes { return &l.Logs }},
	{"outputs", "bytes of outputs that it may keep", "产出", func(l *api.ProjectLimits) *api.Bytes { return &l.Outputs }},
	{"archives", "bytes of uploaded code that it may keep", "代码包", func(l *api.ProjectLimits) *api.Bytes { return &l.Archives }},
	{"assets", "bytes of datasets and models that it may keep", "数据集与模型", func(l *api.ProjectLimits) *api.Bytes { return &l.Assets }}, {"checkpoints", "bytes of checkpoints that it may keep in the shared store", "共享存储中的检查点", func(l *api.ProjectLimits) *api.Bytes { return &l.Checkpoints }},
	{"images", "bytes of images that it may have on each node", "每个节点上的镜像", func(l *api.ProjectLimits) *api.Bytes { return &l.Images }},
}

// projectSetCommand changes what an operator says about a project; flags that are not given change nothing.
func projectSetCommand(a *call.Shell) *cobra.Command {
	var queue, description string
	var folders []string
	var priority, objects, secrets int
	bytes := map[string]*string{}
	cmd := &cobra.Command{
		Use: "set NAME", Short: speech.Both("Change a project's queue, highest priority and limits", "修改项目的队列、最高优先级和额度"), Args: usage.Need(1, 1, "NAME"),
		Example: "  fermi project set lab --queue nlp --max-priority 700 --max-outputs 4Ti",
	}
	flags := cmd.Flags()
	flags.StringVar(&queue, "queue", "", speech.Both("queue of its tasks", "任务使用的队列"))
	flags.StringVar(&description, "description", "", speech.Both("what it is for", "说明"))
	flags.IntVar(&priority, "max-priority", 0, speech.Both("highest priority that its tasks may have; 0 is what a kind has by default", "任务可用的最高优先级；0 为该类任务的默认优先级"))
	flags.StringSliceVar(&folders, "folders", nil, speech.Both("names of folders of the machines that its tasks may use, as an operator gave them; empty is none", "任务可使用的机器文件夹名称（由运维人员命名）；空为无"))
	for _, l := range storeLimits {
		bytes[l.name] = flags.String("max-"+l.name, "", speech.Both(l.en+", as 500Gi; 0 is the default", l.zh+"的字节上限，如 500Gi；0 为默认值"))
	}
	flags.IntVar(&objects, "max-objects", 0, speech.Both("tasks that it may have at once, those that ended and are not archived yet included; 0 is the default", "可同时存在的任务数（含已结束但未归档的）；0 为默认值"))
	flags.IntVar(&secrets, "max-secrets", 0, speech.Both("secrets that it may have; 0 is the default", "密钥数上限；0 为默认值"))
	cmd.RunE = a.Online(func(ctx context.Context, s *call.Session, args []string) error {
		var limits api.ProjectLimits
		var bad usage.Faults
		for _, l := range storeLimits {
			if n, err := api.ParseBytes(*bytes[l.name]); flags.Changed("max-" + l.name) {
				bad.Check("--max-"+l.name, err)
				*l.of(&limits) = n
			}
		}
		if len(bad) > 0 {
			return fault.From(usage.Wrong(cmd, fault.T("The command line has mistakes.", "命令行参数有误。"))).WithFields(bad...)
		}
		_, err := object.Change(ctx, s, args[0], func(p *api.Project) {
			if flags.Changed("queue") {
				p.Spec.Queue = queue
			}
			if flags.Changed("description") {
				p.Spec.Description = description
			}
			if flags.Changed("max-priority") {
				p.Spec.MaxPriority = priority
			}
			if flags.Changed("folders") {
				p.Spec.Folders = slices.DeleteFunc(folders, func(name string) bool { return name == "" })
			}
			if p.Spec.Limits == nil {
				p.Spec.Limits = &api.ProjectLimits{}
			}
			for _, l := range storeLimits {
				if flags.Changed("max-" + l.name) {
					*l.of(p.Spec.Limits) = *l.of(&limits)
				}
			}
			if flags.Changed("max-objects") {
				p.Spec.Limits.Objects = objects
			}
			if flags.Changed("max-secrets") {
				p.Spec.Limits.Secrets = secrets
			}
			if *p.Spec.Limits == (api.ProjectLimits{}) {
				p.Spec.Limits = nil
			}
		})
		if err == nil {
			show.Line(s.Out, "project/"+args[0]+" "+s.T("changed", "已修改"))
		}
		return err
	})
	return cmd
}

// projectUseCommand remembers the project that is meant where none is named.
func projectUseCommand(a *call.Shell) *cobra.Command {
	var none bool
	cmd := &cobra.Command{
		Use: "use [NAME]", Short: speech.Both("Choose the project that is meant where none is named; without a name, show it", "选择未指明时使用的项目；不带名称则显示当前选择"),
		Args: usage.Need(0, 1, "[NAME]"), Example: "  fermi project use lab",
	}
	cmd.Flags().BoolVar(&none, "none", false, speech.Both("forget the choice", "取消选择"))
	cmd.RunE = a.Online(func(ctx context.Context, s *call.Session, args []string) error {
		r := call.Recall()
		if len(args) == 0 && !none {
			if name := r.Projects[s.Server()]; name != "" {
				show.Line(s.Out, show.Clean(name))
				return nil
			}
			s.Say("None is chosen: your only project is meant, or default.", "尚未选择：使用您唯一的项目，或 default。")
			return nil
		}
		if r.Projects == nil {
			r.Projects = map[string]string{}
		}
		delete(r.Projects, s.Server())
		if !none {
			if _, err := s.Client.Get(ctx, api.KindProject, "", args[0]); err != nil {
				return err
			}
			r.Projects[s.Server()] = args[0]
		}
		if err := r.Keep(); err != nil {
			return err
		}
		if none {
			s.Say("No project is chosen any more.", "已取消选择。")
			return nil
		}
		show.Line(s.Out, "project/"+args[0]+" "+s.T("is used from now on where none is named", "将在未指明项目时使用"))
		return nil
	})
	return cmd
}
