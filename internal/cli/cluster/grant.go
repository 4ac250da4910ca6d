package cluster

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
	"github.com/fermi-cluster/fermi/internal/cli/where"
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
	amounts := speech.Both("cpu (cores), memory (GiB), devices, or a device type, as A100=16", "cpu（核）、memory（GiB）、devices 或卡型，如 A100=16")
	flags := cmd.Flags()
	flags.StringVar(&f.parent, "parent", "", speech.Both("the queue it is a part of; empty is none", "上级队列；空为无"))
	flags.IntVar(&f.weight, "weight", 1, speech.Both("share among its siblings", "与同级队列之间的权重"))
	flags.StringToIntVar(&f.guarantee, "guarantee", nil, amounts)
	flags.StringToIntVar(&f.limit, "limit", nil, amounts)
	flags.IntVar(&f.pending, "max-pending", api.DefaultMaxPending, speech.Both("how many tasks may wait in it", "可等待的任务数上限"))
	flags.StringSliceVar(&f.projects, "projects", nil, speech.Both("projects that may use it beside those whose queue it is; * is every project, empty is none", "除以其为所属队列的项目外，还可使用该队列的项目；* 为所有项目，空为无"))
	if set {
		flags.StringSliceVar(&f.add, "add-project", nil, speech.Both("let this project use it too; may be repeated", "允许该项目使用；可重复"))
		flags.StringSliceVar(&f.no, "remove-project", nil, speech.Both("let this project use it no more; may be repeated", "不再允许该项目使用；可重复"))
	}
	f.place.Add(flags, speech.Both)
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

func queueCreateCommand(a *call.Shell) *cobra.Command {
	var f queueFlags
	var display string
	cmd := &cobra.Command{
		Use: "create NAME", Short: speech.Both("Create a queue", "创建队列"), Args: usage.Need(1, 1, "NAME"),
		Example: "  fermi queue create nlp --parent research --limit A100=64 --projects lab,chat",
	}
	cmd.Flags().StringVar(&display, "display-name", "", speech.Both("name shown to people", "显示名"))
	f.bind(cmd, false)
	cmd.RunE = a.Online(func(ctx context.Context, s *call.Session, args []string) error {
		q := &api.Queue{Meta: api.Meta{Name: args[0], DisplayName: display}}
		f.apply(q)
		return object.Create(ctx, s, q)
	})
	return cmd
}

// shareCommand changes what a queue gets and who may use it.
func shareCommand(a *call.Shell) *cobra.Command {
	var f queueFlags
	cmd := &cobra.Command{
		Use: "set NAME", Short: speech.Both("Change a queue's parent, weight, guarantee or limit, and who may use it", "修改队列的上级、权重、保障、上限或可用项目"), Args: usage.Need(1, 1, "NAME"),
		Example: "  fermi queue set nlp --weight 2 --guarantee A100=16 --limit devices=64,cpu=512\n  fermi queue set nlp --add-project lab",
	}
	f.bind(cmd, true)
	cmd.RunE = a.Online(func(ctx context.Context, s *call.Session, args []string) error {
		_, err := object.Change(ctx, s, args[0], f.apply)
		if err == nil {
			show.Line(s.Out, "queue/"+args[0]+" "+s.T("changed", "已修改"))
		}
		return err
	})
	return cmd
}
