package sim

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Variant is a report with the name it is shown by.
type Variant struct {
	Name string
	*Report
}

// said is a text in a language.
func said(lang, en, zh string, args ...any) string { return fault.T(en, zh, args...).In(lang) }

// rows is the report as pairs of a name and a value: table and page show these. All reports have
// the same names in the same order.
func (r *Report) rows(lang string) [][2]string {
	t := func(en, zh string, args ...any) string { return said(lang, en, zh, args...) }
	minutes := func(d time.Duration) string { return strconv.FormatFloat(d.Minutes(), 'f', 1, 64) }
	all := func(s Spread) string {
		return strings.Join([]string{minutes(s.Mean), minutes(s.P50), minutes(s.P90), minutes(s.P99), minutes(s.Max)}, " / ")
	}
	number := func(x float64, digits int) string { return strconv.FormatFloat(x, 'f', digits, 64) }
	return [][2]string{
		{t("cluster", "集群"), t("%d nodes, %.0f devices", "%d 个节点，%.0f 张卡", r.Nodes, r.Devices)},
		{t("jobs, ended, never started", "作业数，已结束，未能启动"), fmt.Sprintf("%d, %d, %d", r.Jobs, r.Ended, r.Never)},
		{t("makespan, min", "总时长（分钟）"), minutes(r.Makespan)},
		{t("utilisation", "利用率"), number(100*r.Utilisation, 2) + " %"},
		{t("wait, min: mean / p50 / p90 / p99 / max", "等待（分钟）：平均 / p50 / p90 / p99 / 最长"), all(r.Wait)},
		{t("wait of ≥ 8 devices, min", "≥ 8 卡作业等待（分钟）"), all(r.BigWait)},
		{t("job completion time, min", "作业完成时间（分钟）"), all(r.JCT)},
		{t("fairness of queues (1 is equal)", "队列公平性（1 为完全公平）"), number(r.Fairness, 3)},
		{t("fairness of users' slowdown", "用户减速比公平性"), number(r.Slowdowns, 3)},
		{t("preemptions; moves; changes of elastic gangs' size", "抢占次数；迁移次数；弹性作业规模变化次数"), fmt.Sprintf("%d; %d; %d", r.Evictions, r.Moves, r.Resizes)},
		{t("stops of running jobs; faults of nodes", "运行中断次数；节点故障次数"), fmt.Sprintf("%d; %d", r.Stops, r.Faults)},
		{t("device-hours; of them lost", "卡时；其中损失"), number(r.DeviceHours, 1) + "; " + number(r.Lost, 1)},
		{t("cost", "费用"), number(r.Cost, 2)},
		{t("deadlines missed, of", "错过截止时间，共"), fmt.Sprintf("%d, %d", r.Missed, r.Due)},
	}
}

// Table is the reports side by side: the names of the variants after an empty one, and rows.
func Table(lang string, variants ...Variant) (heads []string, rows [][]string) {
	heads = []string{said(lang, "trace %s, seed %d", "轨迹 %s，种子 %d", variants[0].Trace, variants[0].Seed)}
	for i, v := range variants {
		heads = append(heads, v.Name)
		for k, row := range v.rows(lang) {
			if i == 0 {
				rows = append(rows, []string{row[0]})
			}
			rows[k] = append(rows[k], row[1])
		}
	}
	return heads, rows
}

// Starts lists who starts when, of the jobs that did not stand at the begin. With several variants
// it is those for whom they differ, most first, else who starts first. left says how many are left
// out and why; "" when none is.
func Starts(lang string, most int, variants ...Variant) (heads []string, rows [][]string, left string) {
	heads = []string{said(lang, "task", "任务"), said(lang, "queue", "队列"), said(lang, "devices", "卡数")}
	for _, v := range variants {
		heads = append(heads, said(lang, "starts, %s", "启动（%s）", v.Name))
	}
	first := variants[0].Lives
	order, gap, same := make([]int, 0, len(first)), make([]time.Duration, len(first)), 0
	for i, l := range first {
		if l.Start != never && l.Start < 0 {
			continue
		}
		for _, v := range variants[1:] {
			gap[i] = max(gap[i], difference(l.Start, v.Lives[i].Start))
		}
		if len(variants) > 1 && gap[i] < time.Minute {
			same++
			continue
		}
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(gap[b], gap[a]), cmp.Compare(uint64(first[a].Start), uint64(first[b].Start))) // never is last
	})
	for _, i := range order[:min(most, len(order))] {
		l := first[i]
		row := []string{l.Name, l.Queue, strconv.FormatFloat(l.Devices, 'f', -1, 64)}
		for _, v := range variants {
			row = append(row, after(lang, v.Lives[i].Start))
		}
		rows = append(rows, row)
	}
	if more := len(order) - len(rows); more > 0 {
		left = said(lang, "%d more are not shown. ", "另有 %d 个未列出。", more)
	}
	if same > 0 {
		left += said(lang, "%d start at the same time.", "%d 个启动时间不变。", same)
	}
	return heads, rows, left
}

func difference(a, b time.Duration) time.Duration {
	switch {
	case a == b:
		return 0
	case a == never || b == never:
		return 1<<63 - 1
	}
	return max(a-b, b-a)
}

// after is a time since the begin in words.
func after(lang string, d time.Duration) string {
	if d == never {
		return said(lang, "never", "无法启动")
	}
	if d < 0 {
		return said(lang, "runs", "运行中")
	}
	switch d = d.Round(time.Minute); {
	case d < time.Minute:
		return said(lang, "at once", "立即")
	case d < time.Hour:
		return said(lang, "+%d min", "%d 分钟后", int(d.Minutes()))
	case d < 24*time.Hour:
		return said(lang, "+%d h %02d min", "%d 小时 %02d 分钟后", int(d.Hours()), int(d.Minutes())%60)
	}
	return said(lang, "+%d d %02d h", "%d 天 %02d 小时后", int(d.Hours())/24, int(d.Hours())%24)
}

// WriteCSV writes one line a job and variant, times in minutes since the trace's begin.
func WriteCSV(w io.Writer, variants ...Variant) error {
	out := csv.NewWriter(w)
	minutes := func(d time.Duration) string {
		if d == never {
			return ""
		}
		return strconv.FormatFloat(d.Minutes(), 'f', 3, 64)
	}
	if err := out.Write([]string{"variant", "id", "name", "user", "queue", "devices", "submit", "start", "end", "length", "wait", "stops"}); err != nil {
		return err
	}
	for _, v := range variants {
		for _, l := range v.Lives {
			err := out.Write([]string{
				v.Name, l.ID, l.Name, l.User, l.Queue, strconv.FormatFloat(l.Devices, 'f', -1, 64), minutes(l.Submit), minutes(l.Start),
				minutes(l.End), minutes(l.Length), minutes(l.Wait), strconv.Itoa(l.Stops),
			})
			if err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}
