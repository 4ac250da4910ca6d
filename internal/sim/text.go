package sim

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// rows is the report as pairs of a name and a value: table and page show these.
func (r *Report) rows(lang string) [][2]string {
	t := func(en, zh string, args ...any) string { return fault.T(en, zh, args...).In(lang) }
	minutes := func(d time.Duration) string {
		return strconv.FormatFloat(d.Minutes(), 'f', 1, 64) + t(" min", " 分钟")
	}
	all := func(s Spread) string {
		return t("mean %s, p50 %s, p99 %s, max %s", "平均 %s，p50 %s，p99 %s，最长 %s", minutes(s.Mean), minutes(s.P50), minutes(s.P99), minutes(s.Max))
	}
	out := [][2]string{
		{t("trace, seed", "轨迹与种子"), fmt.Sprintf("%s, %d", r.Trace, r.Seed)},
		{t("cluster", "集群"), t("%d nodes, %.0f devices", "%d 个节点，%.0f 张卡", r.Nodes, r.Devices)},
		{t("jobs", "作业"), t("%d, ended %d, never started %d", "%d，已结束 %d，未能启动 %d", r.Jobs, r.Ended, r.Never)},
		{t("makespan", "总时长"), minutes(r.Makespan)},
		{t("utilisation", "利用率"), fmt.Sprintf("%.2f %%", 100*r.Utilisation)},
		{t("wait", "等待"), all(r.Wait)},
		{t("wait of ≥ 8 devices", "≥ 8 卡作业等待"), all(r.BigWait)},
		{t("job completion time", "作业完成时间"), all(r.JCT)},
		{t("fairness over users", "用户公平性"), t("%.3f (Jain's index of the inverse slowdown; 1 is equal)", "%.3f（减速比倒数的 Jain 指数，1 为完全公平）", r.Fairness)},
		{t("stops of running jobs", "运行中断"), t("%d; %d gave way to others; %d faults of nodes", "%d 次；其中让位 %d 次；节点故障 %d 次", r.Stops, r.Evictions, r.Faults)},
		{t("work done twice", "重复计算"), t("%.1f of %.1f device-hours", "%.1f 卡时，共 %.1f 卡时", r.Lost, r.DeviceHours)},
		{t("cost", "费用"), strconv.FormatFloat(r.Cost, 'f', 2, 64)},
	}
	if r.Due > 0 {
		out = append(out, [2]string{t("deadlines missed", "错过截止时间"), t("%d of %d", "%d，共 %d", r.Missed, r.Due)})
	}
	return out
}

// WriteText prints the table in a language, zh or en.
func (r *Report) WriteText(w io.Writer, lang string) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, row := range r.rows(lang) {
		fmt.Fprintf(t, "%s\t%s\n", row[0], row[1])
	}
	return t.Flush()
}

// WriteCSV writes one line a job, times in minutes since the trace's begin.
func (r *Report) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	minutes := func(d time.Duration) string {
		if d < 0 {
			return ""
		}
		return strconv.FormatFloat(d.Minutes(), 'f', 3, 64)
	}
	if err := out.Write([]string{"id", "name", "user", "queue", "devices", "submit", "start", "end", "length", "wait", "stops"}); err != nil {
		return err
	}
	for _, l := range r.Lives {
		err := out.Write([]string{
			l.ID, l.Name, l.User, l.Queue, strconv.FormatFloat(l.Devices, 'f', -1, 64), minutes(l.Submit), minutes(l.Start),
			minutes(l.End), minutes(l.Length), minutes(l.Wait), strconv.Itoa(l.Stops),
		})
		if err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}
