package env

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/activity"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// rests are the flags about when an environment is stopped by itself.
type rests struct {
	idle, starts, stops, zone string
	counts                    []string
}

func (r *rests) bind(f *pflag.FlagSet) {
	f.StringVar(&r.idle, "idle", "", cli.Both("stop it after so long without activity, as 2h; never", "无活动多久后停止，如 2h；never 表示不停止"))
	f.StringSliceVar(&r.counts, "idle-counts", nil, cli.Both("what counts as activity, such as terminal,notebook,cpu; all when absent", "计入活动的信号，如 terminal,notebook,cpu；默认全部"))
	f.StringVar(&r.starts, "starts", "", cli.Both("when it is started by itself, as cron has it: \"0 9 * * 1-5\"", "自动启动时间（cron 格式），如 \"0 9 * * 1-5\""))
	f.StringVar(&r.stops, "stops", "", cli.Both("when it is stopped by itself, likewise", "自动停止时间，格式同上"))
	f.StringVar(&r.zone, "time-zone", "", cli.Both("time zone of --starts and --stops, as Asia/Shanghai; UTC when absent", "上述时间的时区，如 Asia/Shanghai；默认 UTC"))
}

func (r *rests) into(out *devenv.Rest) error {
	if r.idle != "" || len(r.counts) > 0 {
		out.Idle = &devenv.Idle{Never: r.idle == "never"}
		for _, c := range r.counts {
			out.Idle.Counts = append(out.Idle.Counts, activity.Name(c))
		}
		if !out.Idle.Never && r.idle != "" {
			after, err := api.ParseDuration(r.idle)
			if err != nil {
				text := fault.T("%q is no time such as 2h, nor never.", "%q 不是合法的时长（如 2h），也不是 never。", r.idle)
				return fault.New(fault.Invalid, "Usage", text).WithFields(fault.Field{Path: "--idle", Message: text})
			}
			out.Idle.After = after
		}
	}
	if r.starts != "" || r.stops != "" {
		out.Schedule = &devenv.Schedule{Start: r.starts, Stop: r.stops, TimeZone: r.zone}
	} else if r.zone != "" {
		text := fault.T("It is that of --starts and --stops.", "需与 --starts 或 --stops 一起使用。")
		return fault.New(fault.Invalid, "Usage", text).WithFields(fault.Field{Path: "--time-zone", Message: text})
	}
	return nil
}

func keep() *cobra.Command {
	return &cobra.Command{
		Use: "keep NAME", Short: cli.Both("Keep an environment that would be stopped because nothing happens in it", "保留即将因无活动而停止的环境"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			if err := client.Verb(cmd.Context(), w.Client, devenv.Kind, w.Project, args[0], "keep", nil); err != nil {
				return err
			}
			kept := fault.T("%s is kept; the time without activity begins anew.", "%s 已保留，无活动时间重新计算。", args[0])
			fmt.Fprintln(cmd.OutOrStdout(), kept.In(w.Lang))
			return nil
		},
	}
}

// seen is what the server says of an environment's activity.
type seen struct {
	Running bool            `json:"running"`
	After   api.Duration    `json:"after"`
	Counts  []activity.Name `json:"counts"`
	Signals []struct {
		Name   activity.Name `json:"name"`
		Active bool          `json:"active"`
		Last   *time.Time    `json:"last"`
		Value  fault.Text    `json:"value"`
	} `json:"signals"`
	Message  fault.Text   `json:"message"`
	StopsAt  *time.Time   `json:"stopsAt"`
	Idle     api.Duration `json:"idle"`
	CostHour float64      `json:"costHour"`
	IdleCost float64      `json:"idleCost"`
}

func show() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Aliases: []string{"describe"}, Short: cli.Both("Show an environment, what keeps it running, and when it stops by itself", "查看环境、使其保持运行的信号以及自动停止时间"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o := output(cmd); o != "table" && o != "wide" {
				return plainly(cmd, args...)
			}
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			e, err := w.get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if err := w.table(e); err != nil {
				return err
			}
			if m := e.Status.Message.In(w.Lang); m != "" && e.Status.Phase != api.PhaseRunning {
				fmt.Fprintln(cmd.OutOrStdout(), "\n"+m)
			}
			w.schedule(e)
			if e.Status.Phase != api.PhaseRunning {
				return nil
			}
			var s seen
			if err := client.View(cmd.Context(), w.Client, devenv.Kind, e.Meta.Project, e.Meta.Name, "activity", &s); err != nil {
				return err
			}
			return w.activity(&s)
		},
	}
}

// schedule says when the clock speaks next.
func (w *where) schedule(e *devenv.DevEnvironment) {
	s := e.Spec.Schedule
	if s == nil {
		return
	}
	_, _, _, next := s.Due(time.Now(), time.Now())
	zone := s.TimeZone
	if zone == "" {
		zone = "UTC"
	}
	text := fault.T("Schedule: starts %[1]s, stops %[2]s (%[3]s); next at %[4]s", "定时：启动 %[1]s，停止 %[2]s（%[3]s）；下一次 %[4]s", or(s.Start), or(s.Stop), zone, next.Local().Format("2006-01-02 15:04"))
	fmt.Fprintln(w.Cmd.OutOrStdout(), "\n"+text.In(w.Lang))
}

// span is a time in its two largest units.
func span(d time.Duration, lang string) string {
	var parts []string
	for _, u := range []struct {
		of   time.Duration
		word fault.Text
	}{{24 * time.Hour, fault.T("d", "天")}, {time.Hour, fault.T("h", "小时")}, {time.Minute, fault.T("min", "分钟")}, {time.Second, fault.T("s", "秒")}} {
		n := d / u.of
		if d -= n * u.of; n > 0 && len(parts) < 2 {
			parts = append(parts, fmt.Sprintf("%d %s", n, u.word.In(lang)))
		}
	}
	if len(parts) == 0 {
		return fmt.Sprintf("0 %s", fault.T("s", "秒").In(lang))
	}
	return strings.Join(parts, " ")
}

func or(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// activity shows the table of signals.
func (w *where) activity(s *seen) error {
	out := w.Cmd.OutOrStdout()
	say := func(en, zh string, args ...any) { fmt.Fprintln(out, fault.T(en, zh, args...).In(w.Lang)) }
	fmt.Fprintln(out, "\n"+s.Message.In(w.Lang))
	switch {
	case s.After == 0:
		say("It is not stopped by itself.", "不会因无活动而停止。")
	case s.StopsAt != nil:
		say("It stops after %v without activity: at %v at the earliest.", "无活动 %v 后停止：最早 %v。", span(s.After.Std(), w.Lang), s.StopsAt.Local().Format("2006-01-02 15:04:05"))
	}
	if s.Idle.Std() >= time.Minute {
		say("Nothing has happened for %v; that cost ¥%.2f (¥%.2f an hour).", "已 %v 无活动，费用 ¥%.2f（每小时 ¥%.2f）。", span(s.Idle.Std(), w.Lang), s.IdleCost, s.CostHour)
	}
	fmt.Fprintln(out)
	heads := []string{fault.T("SIGNAL", "信号").In(w.Lang), fault.T("NOW", "当前").In(w.Lang), fault.T("LAST", "最后活动").In(w.Lang), fault.T("SEEN", "观测值").In(w.Lang), fault.T("COUNTS", "计入").In(w.Lang)}
	yes := map[bool]string{true: fault.T("yes", "是").In(w.Lang), false: fault.T("no", "否").In(w.Lang)}
	active := map[bool]string{true: fault.T("active", "活动").In(w.Lang), false: fault.T("quiet", "安静").In(w.Lang)}
	var rows [][]string
	for _, x := range s.Signals {
		last := "-"
		if x.Last != nil {
			last = x.Last.Local().Format("15:04:05")
		}
		counts := false
		for _, c := range s.Counts {
			counts = counts || c == x.Name
		}
		rows = append(rows, []string{x.Name.Text().In(w.Lang), active[x.Active], last, or(strings.TrimSpace(x.Value.In(w.Lang))), yes[counts]})
	}
	return cli.Table(out, heads, rows)
}

// uptime is how long it has run since its last start.
func uptime(e *devenv.DevEnvironment) string {
	if e.Status.Phase != api.PhaseRunning || e.Status.StartedAt == nil {
		return ""
	}
	d := time.Since(*e.Status.StartedAt)
	switch {
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return d.Round(time.Minute).String()
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
