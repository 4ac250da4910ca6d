package cli

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
)

// queueListCommand is the tree of queues with what they use; other formats have the objects.
func (a *app) queueListCommand() *cobra.Command {
	l := &listFlags{}
	cmd := &cobra.Command{Use: "list", Short: Both("List queues and what they use", "列出队列及其用量"), Aliases: []string{"ls"}, Args: needArgs(0, 0, "")}
	l.add(cmd, false)
	cmd.RunE = a.online(func(ctx context.Context, s *session, _ []string) error {
		objs, err := l.collect(ctx, s, api.KindQueue)
		if err != nil {
			return err
		}
		if s.structured() || s.wide() || len(objs) == 0 {
			return s.list(api.KindQueue, objs)
		}
		shares, err := s.client.Shares(ctx)
		if err != nil {
			return err
		}
		return writeTable(s.out, queueColumns, s.queueRows(objs, shares, isTerminal(s.out)), s.lang, screenOf(s.out))
	})
	return cmd
}

var queueColumns = []column{
	fixed("QUEUE", "队列"), fixed("STATE", "状态"), number("WEIGHT", "权重"), number("FAIR", "应得"), number("SHARE", "占用"),
	number("RUNNING", "运行"), number("WAITING", "等待"), col("USED OF LIMIT", "已用/上限"),
}

// queueRows has one row a queue, children below their parents.
func (s *session) queueRows(objs []api.Object, shares []api.QueueShare, bars bool) [][]cell {
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
	var rows [][]cell
	var add func(parent string, depth int)
	add = func(parent string, depth int) {
		for _, q := range below[parent] {
			x := by[q.Meta.Name]
			rows = append(rows, []cell{
				text(strings.Repeat("  ", depth) + q.Meta.Name), queueState(q, s.lang), text(strconv.Itoa(max(q.Spec.Weight, 1))),
				text(percent(x.FairShare)), text(percent(x.Share)), text(strconv.Itoa(x.Running)), text(strconv.Itoa(x.Waiting)), usedCell(x, bars),
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
func usedCell(x api.QueueShare, bars bool) cell {
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
			return text("-")
		}
		return text(amount(x.Used[x.Dominant]) + " " + x.Dominant)
	}
	c := text(fmt.Sprintf("%s/%s %s", amount(x.Used[name]), amount(x.Limit[name]), name))
	if bars {
		c.text = bar(most) + " " + c.text
	}
	if most >= 1 {
		c.tone = busy
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

func (a *app) queueDescribeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "describe NAME", Short: Both("What a queue may use, uses and is owed, and who waits in it and why", "查看队列的额度、用量、应得份额，以及谁在等待及原因"), Args: needArgs(1, 1, "NAME"),
		RunE: a.online(func(ctx context.Context, s *session, args []string) error {
			x, err := s.client.Share(ctx, args[0])
			if err != nil {
				return err
			}
			if s.structured() {
				return s.data(x)
			}
			return s.describeQueue(&x)
		}),
	}
}

func (s *session) describeQueue(x *api.QueueShare) error {
	d := &sheetWriter{w: s.out, s: s}
	d.add("Queue", "队列", x.Queue)
	d.add("Parent", "上级", x.Parent)
	d.add("Below it", "下级", strings.Join(x.Children, ", "))
	state := s.t("open", "开放")
	if x.Paused {
		state = s.t("paused", "已暂停")
	}
	d.add("State", "状态", state)
	d.add("Weight", "权重", strconv.Itoa(x.Weight))
	d.add("Fair share now", "当前应得", percent(x.FairShare))
	share := percent(x.Share)
	if x.Dominant != "" {
		share += " (" + x.Dominant + ")"
	}
	d.add("Share now", "当前占用", share)
	d.add("Warning", "警告", x.Warning.In(s.lang))
	d.flush()
	if rows := resourceRows(x, isTerminal(s.out)); len(rows) > 0 {
		putLine(s.out, "")
		if err := writeTable(s.out, resourceColumns, rows, s.lang, screenOf(s.out)); err != nil {
			return err
		}
	}
	for _, part := range []struct {
		en, zh string
		count  int
		tasks  []api.ShareTask
		cols   []column
	}{{"Waiting", "等待", x.Waiting, x.Waits, waitColumns}, {"Running", "运行", x.Running, x.Runs, runColumns}} {
		d.section(fmt.Sprintf("%s: %d", part.en, part.count), fmt.Sprintf("%s：%d", part.zh, part.count))
		if len(part.tasks) > 0 {
			if err := writeTable(s.out, part.cols, s.shareRows(part.tasks, len(part.cols)), s.lang, screenOf(s.out)); err != nil {
				return err
			}
		}
	}
	return nil
}

var resourceColumns = []column{
	fixed("RESOURCE", "资源"), number("USED", "已用"), number("GUARANTEE", "保障"), number("LIMIT", "上限"), number("BORROWED", "借用"), col("", ""),
}

// resourceRows has one row for each resource that is used, guaranteed or limited.
func resourceRows(x *api.QueueShare, bars bool) [][]cell {
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
	var rows [][]cell
	for _, r := range sorted {
		shown := func(m map[string]float64) cell {
			if v, ok := m[r]; ok {
				return text(amount(v))
			}
			return text("-")
		}
		gauge := cell{}
		if limit, ok := x.Limit[r]; ok && bars && limit > 0 {
			gauge.text = bar(x.Used[r] / limit)
		}
		rows = append(rows, []cell{text(withUnit(r)), text(amount(x.Used[r])), shown(x.Guarantee), shown(x.Limit), shown(x.Borrowed), gauge})
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
	runColumns  = []column{col("TASK", "任务"), col("QUEUE", "队列"), number("DEVICES", "加速卡"), fixed("SINCE", "开始")}
	waitColumns = []column{col("TASK", "任务"), col("QUEUE", "队列"), number("DEVICES", "加速卡"), fixed("SINCE", "提交"), fixed("REASON", "原因"), fixed("EXPECTED", "预计开始"), col("", "")}
)

func (s *session) shareRows(tasks []api.ShareTask, columns int) [][]cell {
	rows := make([][]cell, len(tasks))
	for i, t := range tasks {
		name := cell{t.Project + "/" + t.Name, plain}
		if t.Name == "" {
			name = cell{s.t("(of others)", "（他人任务）"), faint}
		}
		since, start := "-", "-"
		if t.Since != nil {
			since = s.ago(*t.Since)
		}
		if t.EstimatedStart != nil {
			start = s.ago(*t.EstimatedStart)
		}
		rows[i] = []cell{name, text(t.Queue), text(amount(t.Devices)), text(since), text(t.Reason), text(start), text(t.Message.In(s.lang))}[:columns]
	}
	return rows
}
