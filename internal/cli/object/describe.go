package object

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/card"
	"github.com/fermi-cluster/fermi/internal/cli/recovery"
	"github.com/fermi-cluster/fermi/internal/cli/roundtrip"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func DescribeCommand(a *call.Shell) *cobra.Command {
	return &cobra.Command{
		Use: "describe KIND NAME", Short: speech.Both("Show everything about one object", "查看对象详情"),
		Args: usage.Need(1, 2, "KIND NAME"), Example: "  fermi describe task gpt-7x2k9",
		ValidArgsFunction: completeKinds,
		RunE: a.Online(func(ctx context.Context, s *call.Session, args []string) error {
			info, names, err := kindAndNames(args)
			if err != nil {
				return err
			}
			if len(names) != 1 {
				return usage.Wrong(s.Cmd, fault.T("Missing: KIND NAME.", "缺少参数：KIND NAME。"))
			}
			obj, err := s.Client.Get(ctx, info.Kind, s.Project(info.Kind), names[0])
			if err != nil {
				return err
			}
			if s.Structured() {
				return s.Data(call.Manifest{Obj: obj})
			}
			return Describe(ctx, s, obj)
		}),
	}
}

func Describe(ctx context.Context, s *call.Session, obj api.Object) error {
	d := &show.Sheet{W: s.Out, Lang: s.Lang}
	m := obj.GetMeta()
	d.Add("Name", "名称", m.Name)
	d.Add("Display name", "显示名", m.DisplayName)
	d.Add("Kind", "类型", string(obj.Kind()))
	d.Add("ID", "ID", m.ID)
	d.Add("Project", "项目", m.Project)
	d.Add("Owner", "所有者", m.Owner)
	d.Add("Labels", "标签", labels(m.Labels))
	d.Add("Created", "创建时间", when(s, &m.CreatedAt))
	d.Add("Deletion asked", "请求删除", when(s, m.DeletedAt))
	if n, ok := obj.(*api.Node); ok {
		describeAgent(s, d, n)
		for _, l := range n.Status.Launchers {
			d.Add("Launchers", "启动器", card.Launchers(l).In(s.Lang))
		}
		for _, line := range card.Sheet(n, s.Lang, s.Clock.Now()) {
			d.Add(line[0], line[0], line[1])
		}
	}
	if p, ok := obj.(*api.Project); ok {
		describeKept(s, d, p)
	}
	var err error
	if t, ok := obj.(*api.TrainingTask); ok {
		err = describeTask(ctx, s, d, t)
	} else {
		err = describeSpec(s, d, obj)
	}
	d.Flush()
	if err != nil {
		return err
	}
	return describeEvents(ctx, s, d, obj)
}

// when is a time and how long ago that is.
func when(s *call.Session, t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return show.Stamp(*t) + " (" + show.Since(s.Clock.Now().Sub(*t)).In(s.Lang) + ")"
}

func describeTask(ctx context.Context, s *call.Session, d *show.Sheet, t *api.TrainingTask) error {
	st := t.Status
	d.Add("State", "状态", PhaseCell(t, s.Lang).Text)
	d.Add("Why", "原因", whyLine(st.Reason, st.Message.In(s.Lang)))
	d.Add("Description", "描述", t.Spec.Description)
	d.Add("Queue", "队列", t.Spec.Queue)
	d.Add("Priority", "优先级", priority(t))
	d.Add("Framework", "框架", string(t.Spec.Framework))
	d.Add("Placed", "放置时间", when(s, st.PlacedAt))
	d.Add("Started", "开始时间", when(s, st.StartedAt))
	d.Add("Finished", "结束时间", when(s, st.FinishedAt))
	d.Add("Duration", "运行时长", Duration(t, s.Clock.Now()))
	d.Add("Zones", "可用区", strings.Join(st.Zones, ", "))
	d.Add("Exit code", "退出码", exitCode(t))
	if n := len(st.Restarts); n > 0 {
		d.Add("Restarts", "重启次数", fmt.Sprint(n))
	}
	for _, spare := range st.Spares {
		d.Add("Spare", "备用副本", fmt.Sprintf("%s-%d @ %s: %s", t.Spec.Roles[0].Name, spare.Index, spare.Node, spareWord(spare.State).In(s.Lang)))
	}
	if f := st.Failure; f != nil {
		d.Add("First failure", "首个故障", fmt.Sprintf("%s-%d @ %s: %s (exit %d%s)", f.Role, f.Index, f.Node, f.Reason, f.ExitCode, prefixed(", ", f.Signal)))
		if f.Rank != nil {
			d.Add("Failed rank", "故障 rank", fmt.Sprint(*f.Rank))
		}
		if f.Cause != "" {
			d.Add("Cause", "原因", fmt.Sprintf("%s (%s)%s", f.Cause, f.Action, prefixed(": ", f.Line)))
			d.Add("Advice", "建议", f.Advice.In(s.Lang))
		}
	}
	if pf := st.Preflight; pf != nil && pf.FinishedAt != nil {
		d.Add("Preflight", "启动前检查", roundtrip.Preflight(pf, show.Size).In(s.Lang))
		roundtrip.Describe(ctx, s.Client, pf, s.Lang, d.Add)
		for _, f := range pf.Findings {
			d.Add("  "+f.Field, "  "+f.Field, f.Message.In(s.Lang))
		}
	}
	describePace(s, d, st.Pace)
	describeUse(s, d, st.Use)
	describeStragglers(s, d, st.Stragglers)
	DescribeIntervals(s, d, st.Intervals)
	(&recovery.Sheet{Lang: s.Lang, Now: s.Clock.Now(), Add: d.Add, Stamp: show.Stamp}).Describe(&st)
	if c := t.Spec.Code; c != nil {
		d.Add("Code", "代码", call.First(c.Archive, c.Folder))
	}
	var hp []string
	for _, k := range slices.Sorted(maps.Keys(t.Spec.HyperParameters)) {
		hp = append(hp, fmt.Sprintf("%s=%v", k, t.Spec.HyperParameters[k]))
	}
	d.Add("Hyper-parameters", "超参数", strings.Join(hp, " "))
	for _, r := range t.Spec.Roles {
		d.Section("Role "+r.Name, "角色 "+r.Name)
		d.Add("  Replicas", "  副本", replicaRange(&r))
		d.Add("  Command", "  命令", show.Quote(append(slices.Clone(r.Command), r.Args...)))
		d.Add("  CPU", "  CPU", zeroless(r.Resources.CPU == 0, r.Resources.CPU.String()))
		d.Add("  Memory", "  内存", zeroless(r.Resources.Memory == 0, r.Resources.Memory.String()))
		d.Add("  Devices", "  加速卡", zeroless(r.Resources.Accelerators.Count == 0, Devices(map[string]int{r.Resources.Accelerators.Type: r.Resources.Accelerators.Count})))
	}
	if !st.Phase.Finished() && st.Phase != api.PhaseRunning {
		if e, err := s.Client.Why(ctx, t.Meta.Project, t.Meta.Name); err == nil {
			d.Section("Why", "为何等待")
			for _, line := range whyLines(s, e) {
				show.Line(s.Out, "  "+line)
			}
		}
	}
	return describeReplicas(ctx, s, d, t)
}

// whyLine is a message, and the reason that programs read.
func whyLine(reason, message string) string {
	if message == "" || reason == "" {
		return call.First(message, reason)
	}
	return message + " [" + reason + "]"
}

// spareWord is how far a spare is.
func spareWord(state api.SpareState) fault.Text {
	switch state {
	case api.SpareReady:
		return fault.T("ready to take a place", "可随时接替")
	case api.SpareWarm:
		return fault.T("ready to take a place, its imports done", "可随时接替，导入已完成")
	case api.SpareLeaving:
		return fault.T("its node was at fault; it ends", "所在节点有故障，正在结束")
	}
	return fault.T("starting", "启动中")
}

func zeroless(zero bool, v string) string {
	if zero {
		return ""
	}
	return v
}

func prefixed(prefix, v string) string {
	if v == "" {
		return ""
	}
	return prefix + v
}

var replicaColumns = []show.Column{
	show.Fixed("REPLICA", "副本"), show.Fixed("STATE", "状态"), show.Col("NODE", "节点"), show.Col("ZONE", "可用区"), show.Number("EXIT", "退出码"), show.Col("REASON", "原因"),
}

func describeReplicas(ctx context.Context, s *call.Session, d *show.Sheet, t *api.TrainingTask) error {
	if t.Status.Attempt == 0 {
		return nil
	}
	replicas, err := s.Client.Replicas(ctx, t.Meta.Project, t.Meta.Name)
	if err != nil || len(replicas) == 0 {
		return nil // a sheet without them is better than none
	}
	d.Section("Replicas", "副本")
	return show.Write(s.Out, replicaColumns, replicaRows(replicas), s.Lang, show.ScreenOf(s.Out))
}

func replicaRows(replicas []client.Replica) [][]show.Cell {
	rows := make([][]show.Cell, len(replicas))
	for i, r := range replicas {
		name := r.Name
		if r.Role != "" {
			name = fmt.Sprintf("%s-%d", r.Role, r.Index)
		}
		code := ""
		if r.ExitCode != nil {
			code = fmt.Sprint(*r.ExitCode)
		}
		state := r.State
		if r.Spare != "" {
			state = "Spare" // beside Created, Running, Exited and Done
		}
		rows[i] = []show.Cell{show.Text(name), show.Text(state), show.Text(r.Node), show.Text(r.Zone), show.Text(code), show.Text(r.Reason)}
	}
	return rows
}

// describeSpec prints spec and status of a plain kind as YAML.
func describeSpec(s *call.Session, d *show.Sheet, obj api.Object) error {
	d.Flush()
	data, err := call.Encode(obj)
	if err != nil {
		return err
	}
	var parts map[string]any
	if err := yaml.Unmarshal(data, &parts); err != nil {
		return err
	}
	for _, part := range []struct{ key, en, zh string }{{"spec", "Spec", "规格"}, {"status", "Status", "状态"}} {
		v, ok := parts[part.key].(map[string]any)
		if !ok || len(v) == 0 {
			continue
		}
		body, err := yaml.Marshal(v)
		if err != nil {
			return err
		}
		d.Section(part.en, part.zh)
		for line := range strings.Lines(string(body)) {
			show.Line(s.Out, "  "+strings.TrimRight(line, "\n"))
		}
	}
	return nil
}

func describeEvents(ctx context.Context, s *call.Session, d *show.Sheet, obj api.Object) error {
	m := obj.GetMeta()
	events, err := s.Client.Events(ctx, client.EventOptions{Kind: obj.Kind(), Project: m.Project, Name: call.First(m.ID, m.Name), Limit: 100})
	if err != nil || len(events) == 0 {
		return nil
	}
	d.Section("Events", "事件")
	return showEvents(s, events)
}
