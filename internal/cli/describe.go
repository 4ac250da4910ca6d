package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/card"
	"github.com/fermi-cluster/fermi/internal/cli/recovery"
	"github.com/fermi-cluster/fermi/internal/cli/roundtrip"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func (a *app) describeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "describe KIND NAME", Short: Both("Show everything about one object", "查看对象详情"),
		Args: needArgs(1, 2, "KIND NAME"), Example: "  fermi describe task gpt-7x2k9",
		ValidArgsFunction: completeKinds,
		RunE: a.online(func(ctx context.Context, s *session, args []string) error {
			info, names, err := kindAndNames(args)
			if err != nil {
				return err
			}
			if len(names) != 1 {
				return usage(s.cmd, fault.T("Missing: KIND NAME.", "缺少参数：KIND NAME。"))
			}
			obj, err := s.client.Get(ctx, info.Kind, s.project(info.Kind), names[0])
			if err != nil {
				return err
			}
			if s.structured() {
				return s.data(manifest{obj})
			}
			return s.describe(ctx, obj)
		}),
	}
}

// sheetWriter prints aligned "key: value" lines; empty values are left out.
type sheetWriter struct {
	w     io.Writer
	s     *session
	lines [][2]string
}

func (d *sheetWriter) add(en, zh, value string) {
	if value != "" && value != "-" {
		d.lines = append(d.lines, [2]string{fault.Text{EN: en, ZH: zh}.In(d.s.lang), clean(value)})
	}
}

func (d *sheetWriter) flush() {
	n := 0
	for _, l := range d.lines {
		n = max(n, cells(l[0]))
	}
	for _, l := range d.lines {
		putLine(d.w, pad(l[0]+":", n+2, false)+l[1])
	}
	d.lines = nil
}

func (d *sheetWriter) section(en, zh string) {
	d.flush()
	putLine(d.w, "\n"+fault.Text{EN: en, ZH: zh}.In(d.s.lang))
}

func (s *session) describe(ctx context.Context, obj api.Object) error {
	d := &sheetWriter{w: s.out, s: s}
	m := obj.GetMeta()
	d.add("Name", "名称", m.Name)
	d.add("Display name", "显示名", m.DisplayName)
	d.add("Kind", "类型", string(obj.Kind()))
	d.add("ID", "ID", m.ID)
	d.add("Project", "项目", m.Project)
	d.add("Owner", "所有者", m.Owner)
	d.add("Labels", "标签", labels(m.Labels))
	d.add("Created", "创建时间", s.when(&m.CreatedAt))
	d.add("Deletion asked", "请求删除", s.when(m.DeletedAt))
	if n, ok := obj.(*api.Node); ok {
		for _, l := range n.Status.Launchers {
			d.add("Launchers", "启动器", card.Launchers(l).In(s.lang))
		}
		for _, line := range card.Sheet(n, s.lang, s.clock.Now()) {
			d.add(line[0], line[0], line[1])
		}
	}
	if p, ok := obj.(*api.Project); ok {
		s.describeKept(d, p)
	}
	var err error
	if t, ok := obj.(*api.TrainingTask); ok {
		err = s.describeTask(ctx, d, t)
	} else {
		err = s.describeSpec(d, obj)
	}
	d.flush()
	if err != nil {
		return err
	}
	return s.describeEvents(ctx, d, obj)
}

// when is a time and how long ago that is.
func (s *session) when(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return stamp(*t) + " (" + since(s.clock.Now().Sub(*t)).In(s.lang) + ")"
}

func (s *session) describeTask(ctx context.Context, d *sheetWriter, t *api.TrainingTask) error {
	st := t.Status
	d.add("State", "状态", phaseCell(t, s.lang).text)
	d.add("Why", "原因", whyLine(st.Reason, st.Message.In(s.lang)))
	d.add("Description", "描述", t.Spec.Description)
	d.add("Queue", "队列", t.Spec.Queue)
	d.add("Priority", "优先级", priority(t))
	d.add("Framework", "框架", string(t.Spec.Framework))
	d.add("Placed", "放置时间", s.when(st.PlacedAt))
	d.add("Started", "开始时间", s.when(st.StartedAt))
	d.add("Finished", "结束时间", s.when(st.FinishedAt))
	d.add("Duration", "运行时长", duration(t, s.clock.Now()))
	d.add("Zones", "可用区", strings.Join(st.Zones, ", "))
	d.add("Exit code", "退出码", exitCode(t))
	if n := len(st.Restarts); n > 0 {
		d.add("Restarts", "重启次数", fmt.Sprint(n))
	}
	for _, spare := range st.Spares {
		d.add("Spare", "备用副本", fmt.Sprintf("%s-%d @ %s: %s", t.Spec.Roles[0].Name, spare.Index, spare.Node, spareWord(spare.State).In(s.lang)))
	}
	if f := st.Failure; f != nil {
		d.add("First failure", "首个故障", fmt.Sprintf("%s-%d @ %s: %s (exit %d%s)", f.Role, f.Index, f.Node, f.Reason, f.ExitCode, prefixed(", ", f.Signal)))
		if f.Rank != nil {
			d.add("Failed rank", "故障 rank", fmt.Sprint(*f.Rank))
		}
		if f.Cause != "" {
			d.add("Cause", "原因", fmt.Sprintf("%s (%s)%s", f.Cause, f.Action, prefixed(": ", f.Line)))
			d.add("Advice", "建议", f.Advice.In(s.lang))
		}
	}
	if pf := st.Preflight; pf != nil && pf.FinishedAt != nil {
		d.add("Preflight", "启动前检查", roundtrip.Preflight(pf, size).In(s.lang))
		roundtrip.Describe(ctx, s.client, pf, s.lang, d.add)
		for _, f := range pf.Findings {
			d.add("  "+f.Field, "  "+f.Field, f.Message.In(s.lang))
		}
	}
	s.describePace(d, st.Pace)
	s.describeUse(d, st.Use)
	s.describeStragglers(d, st.Stragglers)
	s.describeIntervals(d, st.Intervals)
	(&recovery.Sheet{Lang: s.lang, Now: s.clock.Now(), Add: d.add, Stamp: stamp}).Describe(&st)
	if c := t.Spec.Code; c != nil {
		d.add("Code", "代码", first(c.Archive, c.Folder))
	}
	var hp []string
	for _, k := range slices.Sorted(maps.Keys(t.Spec.HyperParameters)) {
		hp = append(hp, fmt.Sprintf("%s=%v", k, t.Spec.HyperParameters[k]))
	}
	d.add("Hyper-parameters", "超参数", strings.Join(hp, " "))
	for _, r := range t.Spec.Roles {
		d.section("Role "+r.Name, "角色 "+r.Name)
		d.add("  Replicas", "  副本", replicaRange(&r))
		d.add("  Command", "  命令", quoteAll(append(slices.Clone(r.Command), r.Args...)))
		d.add("  CPU", "  CPU", zeroless(r.Resources.CPU == 0, r.Resources.CPU.String()))
		d.add("  Memory", "  内存", zeroless(r.Resources.Memory == 0, r.Resources.Memory.String()))
		d.add("  Devices", "  加速卡", zeroless(r.Resources.Accelerators.Count == 0, devices(map[string]int{r.Resources.Accelerators.Type: r.Resources.Accelerators.Count})))
	}
	if !st.Phase.Finished() && st.Phase != api.PhaseRunning {
		if e, err := s.client.Why(ctx, t.Meta.Project, t.Meta.Name); err == nil {
			d.section("Why", "为何等待")
			for _, line := range s.whyLines(e) {
				putLine(s.out, "  "+line)
			}
		}
	}
	return s.describeReplicas(ctx, d, t)
}

// whyLine is a message, and the reason that programs read.
func whyLine(reason, message string) string {
	if message == "" || reason == "" {
		return first(message, reason)
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

var replicaColumns = []column{
	fixed("REPLICA", "副本"), fixed("STATE", "状态"), col("NODE", "节点"), col("ZONE", "可用区"), number("EXIT", "退出码"), col("REASON", "原因"),
}

func (s *session) describeReplicas(ctx context.Context, d *sheetWriter, t *api.TrainingTask) error {
	if t.Status.Attempt == 0 {
		return nil
	}
	replicas, err := s.client.Replicas(ctx, t.Meta.Project, t.Meta.Name)
	if err != nil || len(replicas) == 0 {
		return nil // a sheet without them is better than none
	}
	d.section("Replicas", "副本")
	return writeTable(s.out, replicaColumns, replicaRows(replicas), s.lang, screenOf(s.out))
}

func replicaRows(replicas []client.Replica) [][]cell {
	rows := make([][]cell, len(replicas))
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
		rows[i] = []cell{text(name), text(state), text(r.Node), text(r.Zone), text(code), text(r.Reason)}
	}
	return rows
}

// describeSpec prints spec and status of a plain kind as YAML.
func (s *session) describeSpec(d *sheetWriter, obj api.Object) error {
	d.flush()
	data, err := encode(obj)
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
		d.section(part.en, part.zh)
		for line := range strings.Lines(string(body)) {
			putLine(s.out, "  "+strings.TrimRight(line, "\n"))
		}
	}
	return nil
}

func (s *session) describeEvents(ctx context.Context, d *sheetWriter, obj api.Object) error {
	m := obj.GetMeta()
	events, err := s.client.Events(ctx, client.EventOptions{Kind: obj.Kind(), Project: m.Project, Name: first(m.ID, m.Name), Limit: 100})
	if err != nil || len(events) == 0 {
		return nil
	}
	d.section("Events", "事件")
	return s.events(events)
}

// quoteAll shows a command so that it can be typed again.
func quoteAll(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = w
		if w == "" || strings.ContainsAny(w, " \t\n\"'$`\\*?;&|<>(){}[]#~") {
			out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}
