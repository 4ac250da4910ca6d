package object

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// ListFlags are the filters every list takes.
type ListFlags struct {
	limit                      int
	sort, owner, queue, search string
	phases, labels             []string
}

// Add declares the flags; phased adds those that only work has.
func (l *ListFlags) Add(cmd *cobra.Command, phased bool) {
	f := cmd.Flags()
	if phased {
		f.StringSliceVar(&l.phases, "phase", nil, speech.Both("only these phases, such as Pending,Running", "只显示这些状态，如 Pending,Running"))
		f.StringVar(&l.queue, "queue", "", speech.Both("only in this queue", "只显示该队列中的"))
	}
	f.IntVar(&l.limit, "limit", 500, speech.Both("at most this many; 0 is all", "最多条数；0 表示全部"))
	f.StringVar(&l.sort, "sort", "", speech.Both("createdAt, name, displayName or updatedAt; - in front turns it round", "排序：createdAt、name、displayName、updatedAt；前加 - 为倒序"))
	f.StringVar(&l.owner, "owner", "", speech.Both("only of this user", "只显示该用户的"))
	f.StringArrayVarP(&l.labels, "label", "l", nil, speech.Both("only with this label, K=V; may be repeated", "只显示带此标签的，K=V；可重复"))
	f.StringVar(&l.search, "search", "", speech.Both("only names that contain this text", "只显示名称包含此文本的"))
}

func (l *ListFlags) options(s *call.Session, kind api.Kind) (client.ListOptions, error) {
	o := client.ListOptions{
		Project: s.Listed(kind), Sort: l.sort, Phase: l.phases, Owner: l.owner, Queue: l.queue, Search: l.search,
	}
	for _, kv := range l.labels {
		k, v, ok := strings.Cut(kv, "=")
		if !ok {
			return o, usage.Wrong(s.Cmd, fault.T("A label is written K=V, not %q.", "标签应写作 K=V，而不是 %q。", kv))
		}
		if o.Labels == nil {
			o.Labels = map[string]string{}
		}
		o.Labels[k] = v
	}
	if o.Sort == "" && !api.MustInfo(kind).Phased {
		o.Sort = "createdAt" // what was declared first stands first; of work, the newest
	}
	// The server bounds a page at 500.
	o.Limit = 500
	if l.limit > 0 {
		o.Limit = min(l.limit, 500)
	}
	return o, nil
}

// run lists a kind.
func (l *ListFlags) run(ctx context.Context, s *call.Session, kind api.Kind) error {
	objs, err := l.Collect(ctx, s, kind)
	if err != nil {
		return err
	}
	return List(s, kind, objs)
}

// Collect brings what the flags ask for; it says so on stderr when there is more.
func (l *ListFlags) Collect(ctx context.Context, s *call.Session, kind api.Kind) ([]api.Object, error) {
	opts, err := l.options(s, kind)
	if err != nil {
		return nil, err
	}
	var objs []api.Object
	more := false
	err = s.Client.Walk(ctx, kind, opts, func(o api.Object) bool {
		if l.limit > 0 && len(objs) == l.limit {
			more = true
			return false
		}
		objs = append(objs, o)
		return true
	})
	if err != nil {
		return nil, err
	}
	if more {
		s.Say("Only the first %d are shown; see --limit.", "仅显示前 %d 条；可用 --limit 调整。", l.limit)
	}
	return objs, nil
}

func GetCommand(a *call.Shell) *cobra.Command {
	l := &ListFlags{}
	cmd := &cobra.Command{
		Use:               "get KIND [NAME...]",
		Short:             speech.Both("Show objects", "查看对象"),
		Example:           "  fermi get tasks --phase Running\n  fermi get task gpt-7x2k9 -o yaml",
		Args:              usage.Need(1, -1, "KIND [NAME...]"),
		ValidArgsFunction: completeKinds,
	}
	l.Add(cmd, true)
	cmd.RunE = a.Online(func(ctx context.Context, s *call.Session, args []string) error {
		info, names, err := kindAndNames(args)
		if err != nil {
			return err
		}
		if len(names) == 0 {
			return l.run(ctx, s, info.Kind)
		}
		var objs []api.Object
		for _, name := range names {
			obj, err := s.Client.Get(ctx, info.Kind, s.Project(info.Kind), name)
			if err != nil {
				return err
			}
			objs = append(objs, obj)
		}
		if len(objs) == 1 {
			return object(s, objs[0])
		}
		return List(s, info.Kind, objs)
	})
	return cmd
}

// ListCommand is `fermi zone list` and its like.
func ListCommand(a *call.Shell, kind api.Kind, use, short string) *cobra.Command {
	l := &ListFlags{}
	cmd := &cobra.Command{Use: use, Short: short, Aliases: []string{"ls"}, Args: usage.Need(0, 0, "")}
	l.Add(cmd, api.MustInfo(kind).Phased)
	cmd.RunE = a.Online(func(ctx context.Context, s *call.Session, _ []string) error { return l.run(ctx, s, kind) })
	return cmd
}

func DeleteCommand(a *call.Shell) *cobra.Command {
	var files []string
	var ignore bool
	var sure call.Insist
	cmd := &cobra.Command{
		Use:               "delete KIND NAME... | -f FILE",
		Short:             speech.Both("Delete objects", "删除对象"),
		Example:           "  fermi delete task gpt-7x2k9\n  fermi delete -f task.yaml",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeKinds,
	}
	cmd.Flags().StringArrayVarP(&files, "filename", "f", nil, speech.Both("delete what this manifest names; - is stdin", "删除清单中列出的对象；- 表示标准输入"))
	sure.Add(cmd)
	cmd.Flags().BoolVar(&ignore, "ignore-missing", false, speech.Both("what is gone already is no error", "对象已不存在时不报错"))
	cmd.RunE = a.Online(func(ctx context.Context, s *call.Session, args []string) error {
		keys, err := deleteKeys(s, args, files)
		if err != nil {
			return err
		}
		var firstErr error
		for _, k := range keys {
			del := func(opts ...client.Option) error { return s.Client.Delete(ctx, k.Kind, k.Project, k.Name, opts...) }
			run := sure.Run
			if k.Kind != api.KindTrainingTask {
				run = func(_ *call.Session, do func(...client.Option) error) error { return do() }
			}
			err := run(s, del)
			if ignore && fault.Is(err, fault.NotFound) {
				continue
			}
			if err != nil {
				if firstErr != nil {
					call.Report(s.Err, err, s.Lang)
				} else {
					firstErr = err
				}
				continue
			}
			show.Line(s.Out, api.MustInfo(k.Kind).Singular+"/"+k.Name+" "+s.T("deleted", "已删除"))
		}
		return firstErr
	})
	return cmd
}

func deleteKeys(s *call.Session, args, files []string) ([]api.Key, error) {
	if (len(args) == 0) == (len(files) == 0) {
		return nil, usage.Wrong(s.Cmd, fault.T("Say what to delete: KIND NAME…, or -f FILE.", "请指明要删除的对象：KIND NAME… 或 -f FILE。"))
	}
	var keys []api.Key
	if len(files) > 0 {
		objs, err := ReadManifests(s.In, files)
		if err != nil {
			return nil, err
		}
		for _, o := range objs {
			k := api.KeyOf(o)
			if k.Name == "" {
				return nil, fault.New(fault.Invalid, "NoName", fault.T(
					"The manifest of %q has no metadata.name.", "%q 的清单没有 metadata.name。", o.GetMeta().DisplayName))
			}
			k.Project = call.First(k.Project, s.Project(k.Kind))
			keys = append(keys, k)
		}
		return keys, nil
	}
	info, names, err := kindAndNames(args)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, usage.Wrong(s.Cmd, fault.T("Missing: the name of the %s to delete.", "缺少要删除的 %s 的名称。", info.Singular))
	}
	for _, n := range names {
		keys = append(keys, api.Key{Kind: info.Kind, Project: s.Project(info.Kind), Name: n})
	}
	return keys, nil
}
