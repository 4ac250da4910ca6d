package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// listFlags are the filters every list takes.
type listFlags struct {
	limit                      int
	sort, owner, queue, search string
	phases, labels             []string
}

// add declares the flags; phased adds those that only work has.
func (l *listFlags) add(cmd *cobra.Command, phased bool) {
	f := cmd.Flags()
	if phased {
		f.StringSliceVar(&l.phases, "phase", nil, Both("only these phases, such as Pending,Running", "只显示这些状态，如 Pending,Running"))
		f.StringVar(&l.queue, "queue", "", Both("only in this queue", "只显示该队列中的"))
	}
	f.IntVar(&l.limit, "limit", 500, Both("at most this many; 0 is all", "最多条数；0 表示全部"))
	f.StringVar(&l.sort, "sort", "", Both("createdAt, name, displayName or updatedAt; - in front turns it round", "排序：createdAt、name、displayName、updatedAt；前加 - 为倒序"))
	f.StringVar(&l.owner, "owner", "", Both("only of this user", "只显示该用户的"))
	f.StringArrayVarP(&l.labels, "label", "l", nil, Both("only with this label, K=V; may be repeated", "只显示带此标签的，K=V；可重复"))
	f.StringVar(&l.search, "search", "", Both("only names that contain this text", "只显示名称包含此文本的"))
}

func (l *listFlags) options(s *session, kind api.Kind) (client.ListOptions, error) {
	o := client.ListOptions{
		Project: s.listed(kind), Sort: l.sort, Phase: l.phases, Owner: l.owner, Queue: l.queue, Search: l.search,
	}
	for _, kv := range l.labels {
		k, v, ok := strings.Cut(kv, "=")
		if !ok {
			return o, usage(s.cmd, fault.T("A label is written K=V, not %q.", "标签应写作 K=V，而不是 %q。", kv))
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
func (l *listFlags) run(ctx context.Context, s *session, kind api.Kind) error {
	objs, err := l.collect(ctx, s, kind)
	if err != nil {
		return err
	}
	return s.list(kind, objs)
}

// collect brings what the flags ask for; it says so on stderr when there is more.
func (l *listFlags) collect(ctx context.Context, s *session, kind api.Kind) ([]api.Object, error) {
	opts, err := l.options(s, kind)
	if err != nil {
		return nil, err
	}
	var objs []api.Object
	more := false
	err = s.client.Walk(ctx, kind, opts, func(o api.Object) bool {
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
		s.say("Only the first %d are shown; see --limit.", "仅显示前 %d 条；可用 --limit 调整。", l.limit)
	}
	return objs, nil
}

func (a *app) getCommand() *cobra.Command {
	l := &listFlags{}
	cmd := &cobra.Command{
		Use:               "get KIND [NAME...]",
		Short:             Both("Show objects", "查看对象"),
		Example:           "  fermi get tasks --phase Running\n  fermi get task gpt-7x2k9 -o yaml",
		Args:              needArgs(1, -1, "KIND [NAME...]"),
		ValidArgsFunction: completeKinds,
	}
	l.add(cmd, true)
	cmd.RunE = a.online(func(ctx context.Context, s *session, args []string) error {
		info, names, err := kindAndNames(args)
		if err != nil {
			return err
		}
		if len(names) == 0 {
			return l.run(ctx, s, info.Kind)
		}
		var objs []api.Object
		for _, name := range names {
			obj, err := s.client.Get(ctx, info.Kind, s.project(info.Kind), name)
			if err != nil {
				return err
			}
			objs = append(objs, obj)
		}
		if len(objs) == 1 {
			return s.object(objs[0])
		}
		return s.list(info.Kind, objs)
	})
	return cmd
}

// listCommand is `fermi zone list` and its like.
func (a *app) listCommand(kind api.Kind, use, short string) *cobra.Command {
	l := &listFlags{}
	cmd := &cobra.Command{Use: use, Short: short, Aliases: []string{"ls"}, Args: needArgs(0, 0, "")}
	l.add(cmd, api.MustInfo(kind).Phased)
	cmd.RunE = a.online(func(ctx context.Context, s *session, _ []string) error { return l.run(ctx, s, kind) })
	return cmd
}

func (a *app) deleteCommand() *cobra.Command {
	var files []string
	var ignore bool
	var sure insist
	cmd := &cobra.Command{
		Use:               "delete KIND NAME... | -f FILE",
		Short:             Both("Delete objects", "删除对象"),
		Example:           "  fermi delete task gpt-7x2k9\n  fermi delete -f task.yaml",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeKinds,
	}
	cmd.Flags().StringArrayVarP(&files, "filename", "f", nil, Both("delete what this manifest names; - is stdin", "删除清单中列出的对象；- 表示标准输入"))
	sure.add(cmd)
	cmd.Flags().BoolVar(&ignore, "ignore-missing", false, Both("what is gone already is no error", "对象已不存在时不报错"))
	cmd.RunE = a.online(func(ctx context.Context, s *session, args []string) error {
		keys, err := s.deleteKeys(args, files)
		if err != nil {
			return err
		}
		var firstErr error
		for _, k := range keys {
			del := func(opts ...client.Option) error { return s.client.Delete(ctx, k.Kind, k.Project, k.Name, opts...) }
			run := sure.run
			if k.Kind != api.KindTrainingTask {
				run = func(_ *session, do func(...client.Option) error) error { return do() }
			}
			err := run(s, del)
			if ignore && fault.Is(err, fault.NotFound) {
				continue
			}
			if err != nil {
				if firstErr != nil {
					report(s.err, err, s.lang)
				} else {
					firstErr = err
				}
				continue
			}
			putLine(s.out, api.MustInfo(k.Kind).Singular+"/"+k.Name+" "+s.t("deleted", "已删除"))
		}
		return firstErr
	})
	return cmd
}

func (s *session) deleteKeys(args, files []string) ([]api.Key, error) {
	if (len(args) == 0) == (len(files) == 0) {
		return nil, usage(s.cmd, fault.T("Say what to delete: KIND NAME…, or -f FILE.", "请指明要删除的对象：KIND NAME… 或 -f FILE。"))
	}
	var keys []api.Key
	if len(files) > 0 {
		objs, err := readManifests(s.in, files)
		if err != nil {
			return nil, err
		}
		for _, o := range objs {
			k := api.KeyOf(o)
			if k.Name == "" {
				return nil, fault.New(fault.Invalid, "NoName", fault.T(
					"The manifest of %q has no metadata.name.", "%q 的清单没有 metadata.name。", o.GetMeta().DisplayName))
			}
			k.Project = first(k.Project, s.project(k.Kind))
			keys = append(keys, k)
		}
		return keys, nil
	}
	info, names, err := kindAndNames(args)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, usage(s.cmd, fault.T("Missing: the name of the %s to delete.", "缺少要删除的 %s 的名称。", info.Singular))
	}
	for _, n := range names {
		keys = append(keys, api.Key{Kind: info.Kind, Project: s.project(info.Kind), Name: n})
	}
	return keys, nil
}
