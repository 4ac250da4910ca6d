// Package booking has `fermi booking` and `fermi node maintenance`: nodes that are a project's, or nobody's, from one time to another.
//
// Place: layer 5, on cli. Promise: times are read as people write them, on their own clock, and shown so. Enemies: a time zone that nobody meant.
package booking

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/booking"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/cli/online"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Add puts `fermi booking` under root, and `fermi node maintenance` under node.
func Add(root *cobra.Command) {
	c := &cobra.Command{
		Use: "booking", Aliases: []string{"bookings", "reservation", "reservations"}, Short: cli.Both("Nodes for a project, or for a maintenance, from one time to another", "按时间段为项目或维护预订节点"), GroupID: cli.GroupCluster,
		Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(create(), list(), end(), remove())
	root.AddCommand(c)
	if node, _, err := root.Find([]string{"node"}); err == nil && node != root {
		node.AddCommand(maintenance())
	}
}

// wish are the flags that say which nodes, when and why.
type wish struct {
	from, to, span, notice string
	zone, reason           string
	labels                 []string
}

func (w *wish) bind(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&w.from, "from", "", cli.Both("when it begins: 2026-11-20T22:00, with a zone as 2026-11-20T22:00:00Z, 22:00 for the next such time, or +2h; now when absent", "开始时间：2026-11-20T22:00，可带时区如 2026-11-20T22:00:00Z，22:00 表示下一个该时刻，或 +2h；默认现在"))
	f.StringVar(&w.to, "to", "", cli.Both("when it ends, likewise", "结束时间，写法相同"))
	f.StringVar(&w.span, "for", "", cli.Both("how long it lasts, as 4h, instead of --to", "持续时长，如 4h，代替 --to"))
	f.StringVar(&w.notice, "notice", "", cli.Both("work of unknown length is kept away so long before; 24h when absent", "提前多久不再放置时长未知的任务；默认 24h"))
	f.StringVar(&w.zone, "zone", "", cli.Both("nodes of this zone", "该可用区的节点"))
	f.StringArrayVarP(&w.labels, "label", "l", nil, cli.Both("nodes with this label, K=V; rack and leaf are labels too; may be repeated", "带此标签的节点，K=V，rack 与 leaf 也是标签；可重复"))
	f.StringVar(&w.reason, "reason", "", cli.Both("shown to those whose work waits because of it", "向因此等待的用户显示的原因"))
}

// spec reads the flags; nodes are named beside them.
func (w *wish) spec(nodes []string, now time.Time) (s booking.BookingSpec, err error) {
	s = booking.BookingSpec{Zone: w.zone, Nodes: nodes, Reason: w.reason}
	var bad []fault.Field
	refuse := func(flag string, why fault.Text) { bad = append(bad, fault.Field{Path: flag, Message: why}) }
	moment := func(flag, text string) time.Time {
		at, ok := Moment(text, now)
		if !ok {
			refuse(flag, fault.T("%q is no time; write it as 2026-11-20T22:00, 22:00 or +2h.", "%q 不是时间；应写作 2026-11-20T22:00、22:00 或 +2h。", text))
		}
		return at
	}
	s.From = now.UTC().Truncate(time.Second)
	if w.from != "" {
		s.From = moment("--from", w.from)
	}
	span := func(flag, text string) time.Duration {
		d, err := api.ParseDuration(text)
		if err != nil || d <= 0 {
			refuse(flag, fault.T("%q is no length of time; write it as 4h.", "%q 不是时长；应写作 4h。", text))
		}
		return d.Std()
	}
	switch {
	case w.to != "" && w.span != "":
		refuse("--for", fault.T("Give --to or --for, not both.", "--to 与 --for 只能填写一个。"))
	case w.to != "":
		s.To = moment("--to", w.to)
	case w.span != "":
		s.To = s.From.Add(span("--for", w.span))
	default:
		refuse("--to", fault.T("Say when it ends: --to or --for.", "请给出结束时间：--to 或 --for。"))
	}
	if w.notice != "" {
		s.Notice = api.Duration(span("--notice", w.notice))
	}
	for _, kv := range w.labels {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" || v == "" {
			refuse("--label", fault.T("A label is written K=V, not %q.", "标签应写作 K=V，而不是 %q。", kv))
			continue
		}
		if s.Labels == nil {
			s.Labels = map[string]string{}
		}
		s.Labels[k] = v
	}
	if len(bad) > 0 {
		err = fault.New(fault.Invalid, "Usage", fault.T("The command line has %d [mistake|mistakes].", "命令行参数有 %d 处错误。", len(bad))).WithFields(bad...)
	}
	return s, err
}

// Moment reads a time: whole, on the clock of now, or so long after it.
func Moment(text string, now time.Time) (time.Time, bool) {
	if after, ok := strings.CutPrefix(text, "+"); ok {
		d, err := api.ParseDuration(after)
		return now.Add(d.Std()).UTC().Truncate(time.Second), err == nil && d >= 0
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at.UTC(), true
	}
	for _, form := range []string{"2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02T15:04:05"} {
		if at, err := time.ParseInLocation(form, text, now.Location()); err == nil {
			return at.UTC(), true
		}
	}
	hour, err := time.ParseInLocation("15:04", text, now.Location())
	if err != nil {
		return time.Time{}, false
	}
	at := time.Date(now.Year(), now.Month(), now.Day(), hour.Hour(), hour.Minute(), 0, 0, now.Location())
	if at.Before(now) {
		at = time.Date(now.Year(), now.Month(), now.Day()+1, hour.Hour(), hour.Minute(), 0, 0, now.Location())
	}
	return at.UTC(), true
}

// fieldFlags are the arguments behind the fields of a booking.
var fieldFlags = strings.NewReplacer("metadata.name", "NAME", "spec.from", "--from", "spec.to", "--to", "spec.notice", "--notice", "spec.zone", "--zone", "spec.labels", "--label", "spec.projects", "--for-project", "spec.reason", "--reason", "spec.devices.type", "--type", "spec.devices.count", "--devices", "spec.devices", "--devices", "spec.nodes", "NODE")

func submit(ctx context.Context, w *online.Where, b *booking.Booking) error {
	made, err := client.Create(ctx, w.Client, b)
	if err != nil {
		return online.ByFlag(err, fieldFlags)
	}
	if made, err = client.Get[*booking.Booking](ctx, w.Client, "", made.Meta.Name); err != nil { // with its nodes
		return err
	}
	if w.Structured() {
		return w.Answer(made)
	}
	fmt.Fprintln(w.Cmd.OutOrStdout(), made.Meta.Name)
	if made.Spec.Devices != nil {
		w.Say("The nodes with the devices are %s.", "所选节点：%s。", strings.Join(made.Spec.Nodes, ", "))
	}
	w.Say("%[2]d [node is|nodes are] booked: %[1]s.", "已预订 %[2]d 个节点：%[3]s。", made.Spec.Words(made.Meta.Name).EN, len(made.Status.Nodes), made.Spec.Words(made.Meta.Name).ZH)
	return nil
}

func create() *cobra.Command {
	var given wish
	var nodes, projects []string
	var devices int
	var kind string
	c := &cobra.Command{
		Use: "create NAME", Short: cli.Both("Book nodes for a project", "为项目预订节点"), Args: cobra.ExactArgs(1),
		Example: "  fermi booking create thesis --for-project vision --zone beijing-1 --label rack=r3 --from 2026-12-01T08:00 --for 72h\n  fermi booking create thesis --for-project vision --devices 32 --type A100 --from 2026-12-01T08:00 --for 72h",
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := online.Dial(cmd)
			if err != nil {
				return err
			}
			s, err := given.spec(nodes, clock.Real.Now())
			if err != nil {
				return err
			}
			s.Projects = projects
			if devices != 0 || kind != "" {
				s.Devices = &booking.Devices{Count: devices, Type: kind}
			}
			return submit(cmd.Context(), &w, &booking.Booking{Meta: api.Meta{Name: args[0]}, Spec: s})
		},
	}
	given.bind(c)
	c.Flags().StringSliceVar(&nodes, "node", nil, cli.Both("this node; may be repeated", "该节点；可重复"))
	c.Flags().IntVar(&devices, "devices", 0, cli.Both("so many accelerators: whole nodes that have them are chosen, close to each other", "所需加速卡数：自动选择彼此邻近、合计满足数量的整机节点"))
	c.Flags().StringVar(&kind, "type", "", cli.Both("type of --devices, such as A100; any when absent", "--devices 的型号，如 A100；默认不限"))
	c.Flags().StringSliceVar(&projects, "for-project", nil, cli.Both("whose work may stand there; may be repeated", "允许使用的项目；可重复"))
	_ = c.MarkFlagRequired("for-project") // it is one
	return c
}

func maintenance() *cobra.Command {
	var given wish
	var name string
	c := &cobra.Command{
		Use: "maintenance [NODE...]", Short: cli.Both("Close nodes from one time to another: what would run into it stays away, what is there then leaves", "按时间段关闭节点：届时仍会运行的任务不再放置，在其上的任务会迁出"),
		Example: "  fermi node maintenance bj1-n03 bj1-n04 --from 22:00 --for 4h --reason 'GPU firmware'\n  fermi node maintenance --zone beijing-1 --from 2026-12-24T18:00 --to 2026-12-26T08:00",
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := online.Dial(cmd)
			if err != nil {
				return err
			}
			s, err := given.spec(args, clock.Real.Now())
			if err != nil {
				return err
			}
			if name == "" {
				name = "maintenance-" + s.From.Format("20060102-1504")
				if len(args) > 0 && len(args[0]) < 30 {
					name += "-" + args[0]
				}
			}
			return submit(cmd.Context(), &w, &booking.Booking{Meta: api.Meta{Name: name}, Spec: s})
		},
	}
	given.bind(c)
	c.Flags().StringVar(&name, "name", "", cli.Both("its name; made from the time when absent", "名称；默认由时间生成"))
	return c
}

func list() *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: cli.Both("List bookings and maintenances", "列出预订与维护"), Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w, err := online.Dial(cmd)
			if err != nil {
				return err
			}
			all := []*booking.Booking{}
			if err := w.Walk(cmd.Context(), booking.Kind, client.ListOptions{Limit: 500}, func(o api.Object) bool {
				all = append(all, o.(*booking.Booking))
				return true
			}); err != nil {
				return err
			}
			slices.SortStableFunc(all, func(a, b *booking.Booking) int { return a.Spec.From.Compare(b.Spec.From) })
			if w.Structured() {
				return w.Answer(map[string]any{"items": all})
			}
			heads := []fault.Text{fault.T("NAME", "名称"), fault.T("STATE", "状态"), fault.T("FROM", "开始"), fault.T("TO", "结束"), fault.T("NODES", "节点"), fault.T("FOR", "用于"), fault.T("REASON", "原因")}
			var words []string
			for _, h := range heads {
				words = append(words, h.In(w.Lang))
			}
			var rows [][]string
			for _, b := range all {
				whose := strings.Join(b.Spec.Projects, ", ")
				if b.Spec.Maintenance() {
					whose = fault.T("maintenance", "维护").In(w.Lang)
				}
				rows = append(rows, []string{b.Meta.Name, string(b.Status.Phase), b.Spec.From.Local().Format(time.DateTime), b.Spec.To.Local().Format(time.DateTime), fmt.Sprint(len(b.Status.Nodes)), whose, b.Spec.Reason})
			}
			return cli.Table(cmd.OutOrStdout(), words, rows)
		},
	}
}

func end() *cobra.Command {
	return &cobra.Command{
		Use: "end NAME...", Short: cli.Both("End bookings now; the nodes are everybody's again", "立即结束预订，节点恢复共用"), Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := online.Dial(cmd)
			if err != nil {
				return err
			}
			for _, name := range args {
				b, err := client.Get[*booking.Booking](cmd.Context(), w.Client, "", name)
				if err != nil {
					return err
				}
				now := clock.Real.Now().UTC()
				if b.Spec.PhaseAt(now) == booking.Active {
					b.Spec.To = now
					_, err = client.Update(cmd.Context(), w.Client, b)
				} else {
					err = w.Delete(cmd.Context(), booking.Kind, "", name)
				}
				if err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), "booking/"+name+" "+fault.T("has ended", "已结束").In(w.Lang))
			}
			return nil
		},
	}
}

func remove() *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME...", Short: cli.Both("Delete bookings", "删除预订"), Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := online.Dial(cmd)
			if err != nil {
				return err
			}
			for _, name := range args {
				if err := w.Delete(cmd.Context(), booking.Kind, "", name); err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), "booking/"+name+" "+fault.T("deleted", "已删除").In(w.Lang))
			}
			return nil
		},
	}
}
