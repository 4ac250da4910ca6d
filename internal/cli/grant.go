package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/where"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// queueFlags are what operators say about a queue; flags that are not given change nothing.
type queueFlags struct {
	parent            string
	weight, pending   int
	guarantee, limit  map[string]int
	projects, add, no []string
	given             func(string) bool
	place             where.Queue
}

func (f *queueFlags) bind(cmd *cobra.Command, set bool) {
	amounts := Both("cpu (cores), memory (GiB), devices, or a device type, as A100=16", "cpu（核）、memory（GiB）、devices 或卡型，如 A100=16")
	flags := cmd.Flags()
	flags.StringVar(&f.parent, "parent", "", Both("the queue it is a part of; empty is none", "上级队列；空为无"))
	flags.IntVar(&f.weight, "weight", 1, Both("share among its siblings", "与同级队列之间的权重"))
	flags.StringToIntVar(&f.guarantee, "guarantee", nil, amounts)
	flags.StringToIntVar(&f.limit, "limit", nil, amounts)
	flags.IntVar(&f.pending, "max-pending", api.DefaultMaxPending, Both("how many tasks may wait in it", "可等待的任务数上限"))
	flags.StringSliceVar(&f.projects, "projects", nil, Both("projects that may use it beside those whose queue it is; * is every project, empty is none", "除以其为所属队列的项目外，还可使用该队列的项目；* 为所有项目，空为无"))
	if set {
		flags.StringSliceVar(&f.add, "add-project", nil, Both("let this project use it too; may be repeated", "允许该项目使用；可重复"))
		flags.StringSliceVar(&f.no, "remove-project", nil, Both("let this project use it no more; may be repeated", "不再允许该项目使用；可重复"))
	}
	f.place.Add(flags, Both)
	f.given = flags.Changed
}

func (f *queueFlags) apply(q *api.Queue) {
	for flag, put := range map[string]func(){
		"parent":      func() { q.Spec.Parent = f.parent },
		"weight":      func() { q.Spec.Weight = f.weight },
		"guarantee":   func() { q.Spec.Guarantee = f.guarantee },
		"limit":       func() { q.Spec.Limit = f.limit },
		"max-pending": func() { q.Spec.MaxPending = f.pending },
		"projects":    func() { q.Spec.Projects = slices.DeleteFunc(f.projects, func(name string) bool { return name == "" }) },
	} {
		if f.given(flag) {
			put()
		}
	}
	f.place.Over(q, f.given)
	for _, name := range f.add {
		if !slices.Contains(q.Spec.Projects, name) && !slices.Contains(q.Spec.Projects, api.AllProjects) {
			q.Spec.Projects = append(q.Spec.Projects, name)
		}
	}
	q.Spec.Projects = slices.DeleteFunc(q.Spec.Projects, func(name string) bool { return slices.Contains(f.no, name) })
}

func (a *app) queueCreateCommand() *cobra.Command {
	var f queueFlags
	var display string
	cmd := &cobra.Command{
		Use: "create NAME", Short: Both("Create a queue", "创建队列"), Args: needArgs(1, 1, "NAME"),
		Example: "  fermi queue create nlp --parent research --limit A100=64 --projects lab,chat",
	}
	cmd.Flags().StringVar(&display, "display-name", "", Both("name shown to people", "显示名"))
	f.bind(cmd, false)
	cmd.RunE = a.online(func(ctx context.Context, s *session, args []string) error {
		q := &api.Queue{Meta: api.Meta{Name: args[0], DisplayName: display}}
		f.apply(q)
		return s.create(ctx, q)
	})
	return cmd
}

// shareCommand changes what a queue gets and who may use it.
func (a *app) shareCommand() *cobra.Command {
	var f queueFlags
	cmd := &cobra.Command{
		Use: "set NAME", Short: Both("Change a queue's parent, weight, guarantee or limit, and who may use it", "修改队列的上级、权重、保障、上限或可用项目"), Args: needArgs(1, 1, "NAME"),
		Example: "  fermi queue set nlp --weight 2 --guarantee A100=16 --limit devices=64,cpu=512\n  fermi queue set nlp --add-project lab",
	}
	f.bind(cmd, true)
	cmd.RunE = a.online(func(ctx context.Context, s *session, args []string) error {
		_, err := change(ctx, s, args[0], f.apply)
		if err == nil {
			putLine(s.out, "queue/"+args[0]+" "+s.t("changed", "已修改"))
		}
		return err
	})
	return cmd
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
func (a *app) projectSetCommand() *cobra.Command {
	var queue, description string
	var folders []string
	var priority, objects, secrets int
	bytes := map[string]*string{}
	cmd := &cobra.Command{
		Use: "set NAME", Short: Both("Change a project's queue, highest priority and limits", "修改项目的队列、最高优先级和额度"), Args: needArgs(1, 1, "NAME"),
		Example: "  fermi project set lab --queue nlp --max-priority 700 --max-outputs 4Ti",
	}
	flags := cmd.Flags()
	flags.StringVar(&queue, "queue", "", Both("queue of its tasks", "任务使用的队列"))
	flags.StringVar(&description, "description", "", Both("what it is for", "说明"))
	flags.IntVar(&priority, "max-priority", 0, Both("highest priority that its tasks may have; 0 is what a kind has by default", "任务可用的最高优先级；0 为该类任务的默认优先级"))
	flags.StringSliceVar(&folders, "folders", nil, Both("names of folders of the machines that its tasks may use, as an operator gave them; empty is none", "任务可使用的机器文件夹名称（由运维人员命名）；空为无"))
	for _, l := range storeLimits {
		bytes[l.name] = flags.String("max-"+l.name, "", Both(l.en+", as 500Gi; 0 is the default", l.zh+"的字节上限，如 500Gi；0 为默认值"))
	}
	flags.IntVar(&objects, "max-objects", 0, Both("tasks that it may have at once, those that ended and are not archived yet included; 0 is the default", "可同时存在的任务数（含已结束但未归档的）；0 为默认值"))
	flags.IntVar(&secrets, "max-secrets", 0, Both("secrets that it may have; 0 is the default", "密钥数上限；0 为默认值"))
	cmd.RunE = a.online(func(ctx context.Context, s *session, args []string) error {
		var limits api.ProjectLimits
		var bad faults
		for _, l := range storeLimits {
			if n, err := api.ParseBytes(*bytes[l.name]); flags.Changed("max-" + l.name) {
				bad.check("--max-"+l.name, err)
				*l.of(&limits) = n
			}
		}
		if len(bad) > 0 {
			return fault.From(usage(cmd, fault.T("The command line has mistakes.", "命令行参数有误。"))).WithFields(bad...)
		}
		_, err := change(ctx, s, args[0], func(p *api.Project) {
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
			putLine(s.out, "project/"+args[0]+" "+s.t("changed", "已修改"))
		}
		return err
	})
	return cmd
}

// describeKept shows what a project keeps, of what it may.
func (s *session) describeKept(d *sheetWriter, p *api.Project) {
	u, l := p.Status.Usage, p.StorageLimits()
	if u == nil {
		return
	}
	of := func(used, most any) string { return fmt.Sprint(used) + s.t(" of ", " / ") + fmt.Sprint(most) }
	d.add("Logs", "日志", of(u.Logs, l.Logs))
	d.add("Outputs", "产出", of(u.Outputs, l.Outputs))
	d.add("Archives", "代码包", of(u.Archives, l.Archives))
	d.add("Checkpoints", "检查点", of(u.Checkpoints, l.Checkpoints))
	d.add("Images on a node", "每节点镜像", of(u.Images, l.Images))
	d.add("Tasks", "任务", of(u.Objects, l.Objects))
	d.add("Secrets", "密钥", of(u.Secrets, l.Secrets))
	d.add("Highest priority", "最高优先级", fmt.Sprint(p.TopPriority(api.KindTrainingTask)))
}
