package cluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/object"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
)

// queueListCommand is the tree of queues with what they use; other formats have the objects.
func queueListCommand(a *call.Shell) *cobra.Command {
	l := &object.ListFlags{}
	cmd := &cobra.Command{Use: "list", Short: speech.Both("List queues and what they use", "列出队列及其用量"), Aliases: []string{"ls"}, Args: usage.Need(0, 0, "")}
	l.Add(cmd, false)
	cmd.RunE = a.Online(func(ctx context.Context, s *call.Session, _ []string) error {
		objs, err := l.Collect(ctx, s, api.KindQueue)
		if err != nil {
			return err
		}
		if s.Structured() || s.Wide() || len(objs) == 0 {
			return object.List(s, api.KindQueue, objs)
		}
		shares, err := s.Client.Shares(ctx)
		if err != nil {
			return err
		}
		return show.Write(s.Out, queueColumns, queueRows(s, objs, shares, show.IsTerminal(s.Out)), s.Lang, show.ScreenOf(s.Out))
	})
	return cmd
}

var queueColumns = []show.Column{
	show.Fixed("QUEUE", "队列"), show.Fixed("STATE", "状态"), show.Number("WEIGHT", "权重"), show.Number("FAIR", "应得"), show.Number("SHARE", "占用"),
	show.Number("RUNNING", "运行"), show.Number("WAITING", "等待"), show.Col("USED OF LIMIT", "已用/上限"),
}

// queueRows has one row a queue, children below their parents.
func queueRows(s *call.Session, objs []api.Object, shares []api.QueueShare, bars bool) [][]show.Cell {
	by := map[string]api.QueueShare{}
	for _, x := range shares {
		by[x.Queue] = x
	}
	below, shown := map[string][]*api.Queue{}, map[string]bool{}
	for _, o := range objs {
		shown[o.GetMeta().Name] = true
	}
	for _, o := range objs {
		q := o.(*api.Queue)
		parent := q.Spec.Parent
		if !shown[parent] { // left out by a filter
			parent = ""
		}
		below[parent] = append(below[parent], q)
	}
	var rows [][]show.Cell
	var add func(parent string, depth int)
	add = func(parent string, depth int) {
		for _, q := range below[parent] {
			x := by[q.Meta.Name]
			rows = append(rows, []show.Cell{
				show.Text(strings.Repeat("  ", depth) + q.Meta.Name), object.QueueState(q, s.Lang), show.Text(strconv.Itoa(max(q.Spec.Weight, 1))),
				show.Text(percent(x.FairShare)), show.Text(percent(x.Share)), show.Text(strconv.Itoa(x.Running)), show.Text(strconv.Itoa(x.Waiting)), usedCell(x, bars),
			})
			add(q.Meta.Name, depth+1)
		}
	}
	add("", 0)
	return rows
}

func percent(x float64) string { return strconv.FormatFloat(x*100, 'f', 1, 64) + "%" }

// usedCell shows the resource nearest to its limit, with a bar where somebody looks; without a limit
// the dominant one.
func usedCell(x api.QueueShare, bars bool) show.Cell {
	name, most := "", -1.0
	for _, r := range slices.Sorted(maps.Keys(x.Limit)) {
		part := 1.0
		if x.Limit[r] > 0 {
			part = x.Used[r] / x.Limit[r]
		}
		if part > most {
			name, most = r, part
		}
	}
	if name == "" {
		if x.Dominant == "" {
			return show.Text("-")
		}
		return show.Text(amount(x.Used[x.Dominant]) + " " + x.Dominant)
	}
	c := show.Text(fmt.Sprintf("%s/%s %s", amount(x.Used[name]), amount(x.Limit[name]), name))
	if bars {
		c.Text = bar(most) + " " + c.Text
	}
	if most >= 1 {
		c.Tone = show.Busy
	}
	return c
}

const barCells = 10

// bar fills as many of its cells as are used, at least one when anything is.
func bar(part float64) string {
	n := min(max(int(math.Round(part*barCells)), 0), barCells)
	if part > 0 {
		n = max(n, 1)
	}
	return strings.Repeat("█", n) + strings.Repeat("░", barCells-n)
}

func amount(x float64) string {
	return strconv.FormatFloat(math.Round(x*1000)/1000, 'f', -1, 64)
}

func queueDescribeCommand(a *call.Shell) *cobra.Command {
	return &cobra.Command{
		Use: "describe NAME", Short: speech.Both("What a queue may use, uses and is owed, and who waits in it and why", "查看队列的额度、用量、应得份额，以及谁在等待及原因"), Args: usage.Need(1, 1, "NAME"),
		RunE: a.Online(func(ctx context.Context, s *call.Session, args []string) error {
			x, err := s.Client.Share(ctx, args[0])
			if err != nil {
				return err
			}
			if s.Structured() {
				return s.Data(x)
			}
			return describeQueue(s, &x)
		}),
	}
}

func describeQueue(s *call.Session, x *api.QueueShare) error {
	d := &show.Sheet{W: s.Out, Lang: s.Lang}
	d.Add("Queue", "队列", x.Queue)
	d.Add("Parent", "上级", x.Parent)
	d.Add("Below it", "下级", strings.Join(x.Children, ", "))
	state := s.T("open", "开放")
	if x.Paused {
		state = s.T("paused", "已暂停")
	}
	d.Add("State", "状态", state)
	d.Add("Weight", "权重", strconv.Itoa(x.Weight))
	d.Add("Fair share now", "当前应得", percent(x.FairShare))
	share := percent(x.Share)
	if x.Dominant != "" {
		share += " (" + x.Dominant + ")"
	}
	d.Add("Share now", "当前占用", share)
	d.Add("Warning", "警告", x.Warning.In(s.Lang))
	d.Flush()
	if rows := resourceRows(x, show.IsTerminal(s.Out)); len(rows) > 0 {
		show.Line(s.Out, "")
		if err := show.Write(s.Out, resourceColumns, rows, s.Lang, show.ScreenOf(s.Out)); err != nil {
			return err
		}
	}
	for _, part := range []struct {
		en, zh string
		count  int
		tasks  []api.ShareTask
		cols   []show.Column
	}{{"Waiting", "等待", x.Waiting, x.Waits, waitColumns}, {"Running", "运行", x.Running, x.Runs, runColumns}} {
		d.Section(fmt.Sprintf("%s: %d", part.en, part.count), fmt.Sprintf("%s：%d", part.zh, part.count))
		if len(part.tasks) > 0 {
			if err := show.Write(s.Out, part.cols, shareRows(s, part.tasks, len(part.cols)), s.Lang, show.ScreenOf(s.Out)); err != nil {
				return err
			}
		}
	}
	return nil
}

var resourceColumns = []show.Column{
	show.Fixed("RESOURCE", "资源"), show.Number("USED", "已用"), show.Number("GUARANTEE", "保障"), show.Number("LIMIT", "上限"), show.Number("BORROWED", "借用"), show.Col("", ""),
}

// resourceRows has one row for each resource that is used, guaranteed or limited.
func resourceRows(x *api.QueueShare, bars bool) [][]show.Cell {
	names := map[string]bool{}
	for _, m := range []map[string]float64{x.Used, x.Guarantee, x.Limit} {
		for r := range m {
			names[r] = true
		}
	}
	order := func(r string) int { return slices.Index([]string{"cpu", "memory", "devices"}, r) + 1 }
	sorted := slices.SortedFunc(maps.Keys(names), func(a, b string) int {
		if order(a) == 0 || order(b) == 0 {
			return cmp.Or(cmp.Compare(order(b), order(a)), cmp.Compare(a, b))
		}
		return cmp.Compare(order(a), order(b))
	})
	var rows [][]show.Cell
	for _, r := range sorted {
		shown := func(m map[string]float64) show.Cell {
			if v, ok := m[r]; ok {
				return show.Text(amount(v))
			}
			return show.Text("-")
		}
		gauge := show.Cell{}
		if limit, ok := x.Limit[r]; ok && bars && limit > 0 {
			gauge.Text = bar(x.Used[r] / limit)
		}
		rows = append(rows, []show.Cell{show.Text(withUnit(r)), show.Text(amount(x.Used[r])), shown(x.Guarantee), shown(x.Limit), shown(x.Borrowed), gauge})
	}
	return rows
}

func withUnit(resource string) string {
	if resource == "memory" {
		return "memory (GiB)"
	}
	return resource
}

var (
	runColumns  = []show.Column{show.Col("TASK", "任务"), show.Col("QUEUE", "队列"), show.Number("DEVICES", "加速卡"), show.Fixed("SINCE", "开始")}
	waitColumns = []show.Column{show.Col("TASK", "任务"), show.Col("QUEUE", "队列"), show.Number("DEVICES", "加速卡"), show.Fixed("SINCE", "提交"), show.Fixed("REASON", "原因"), show.Fixed("EXPECTED", "预计开始"), show.Col("", "")}
)

func shareRows(s *call.Session, tasks []api.ShareTask, columns int) [][]show.Cell {
	rows := make([][]show.Cell, len(tasks))
	for i, t := range tasks {
		name := show.Cell{Text: t.Project + "/" + t.Name, Tone: show.Plain}
		if t.Name == "" {
			name = show.Cell{Text: s.T("(of others)", "（他人任务）"), Tone: show.Faint}
		}
		since, start := "-", "-"
		if t.Since != nil {
			since = s.Ago(*t.Since)
		}
		if t.EstimatedStart != nil {
			start = s.Ago(*t.EstimatedStart)
		}
		rows[i] = []show.Cell{name, show.Text(t.Queue), show.Text(amount(t.Devices)), show.Text(since), show.Text(t.Reason), show.Text(start), show.Text(t.Message.In(s.Lang))}[:columns]
	}
	return rows
}

func QueueCommand(a *call.Shell) *cobra.Command {
	return usage.Group("queue", speech.Both("Queues", "队列"),
		queueListCommand(a), queueDescribeCommand(a), queueCreateCommand(a), shareCommand(a),
		pauseCommand(a, "pause", true, speech.Both("Let everything in the queue wait", "暂停队列，其中任务保持等待")),
		pauseCommand(a, "resume", false, speech.Both("Let the queue go on", "恢复队列")))
}

func pauseCommand(a *call.Shell, use string, paused bool, short string) *cobra.Command {
	return &cobra.Command{
		Use: use + " NAME", Short: short, Args: usage.Need(1, 1, "NAME"),
		RunE: a.Online(func(ctx context.Context, s *call.Session, args []string) error {
			_, err := object.Change(ctx, s, args[0], func(q *api.Queue) { q.Spec.Paused = paused })
			if err != nil {
				return err
			}
			if paused {
				show.Line(s.Out, "queue/"+args[0]+" "+s.T("paused", "已暂停"))
			} else {
				show.Line(s.Out, "queue/"+args[0]+" "+s.T("resumed", "已恢复"))
			}
			return nil
		}),
	}
}
