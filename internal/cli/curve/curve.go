// Package curve is `fermi train metrics`: the curves of a task, listed, drawn in the terminal, or given to programs.
//
// Place: layer 5, below cli, which hands in what it knows of the command line.
// Promise: what is no finite number is said to be so, never drawn as 0; nothing that a task named acts on the terminal.
// Enemies: a picture that hides a peak.
package curve

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Shell is what the command has of the command line.
type Shell struct {
	Read    func(ctx context.Context, path string, query url.Values) (json.RawMessage, error)
	Project string
	Out     io.Writer
	Output  string // format that was asked for; "": for people
	Width   int    // of the terminal; 0: it is none
	T       func(en, zh string, args ...any) string
	Data    func(v any) error     // prints JSON or YAML
	Clean   func(s string) string // one line that does nothing to a terminal
}

// Name is a name under which a task has curves.
type Name struct {
	Name        string   `json:"name"`
	Ranks       []int    `json:"ranks"`
	Replicas    []string `json:"replicas"`
	Generations []int64  `json:"generations"`
}

// Curve is points of one curve.
type Curve struct {
	Name       string      `json:"name"`
	Replica    string      `json:"replica,omitempty"`
	Role       string      `json:"role"`
	Rank       *int        `json:"rank,omitempty"`
	Generation int64       `json:"generation"`
	Steps      []int64     `json:"steps"`
	Times      []int64     `json:"times"` // Unix milliseconds
	Values     []*float64  `json:"values"`
	NotFinite  []NotFinite `json:"notFinite,omitempty"`
	Total      int64       `json:"total"`
}

// NotFinite is a value that JSON has no number for.
type NotFinite struct {
	At int    `json:"at"`
	Is string `json:"is"`
}

type flags struct {
	ranks, replicas                        []string
	generation, by, since, until, from, to string
	points                                 int
	log                                    bool
}

// Command makes it; both joins a text's two languages, online runs what needs a server.
func Command(both func(en, zh string) string, online func(func(context.Context, *Shell, []string) error) func(*cobra.Command, []string) error) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use: "metrics NAME [CURVE...]", Short: both("Show the curves of a task", "查看任务的指标曲线"), Args: cobra.MinimumNArgs(1),
		Long:        both("Without a curve it lists what there is; with some it draws them. -o json and -o csv give the points.", "不指定曲线时列出全部名称；指定后在终端绘制。-o json 与 -o csv 输出数据点。"),
		Example:     "  fermi train metrics gpt-7x2k9\n  fermi train metrics gpt-7x2k9 loss --log\n  fermi train metrics gpt-7x2k9 step_time --rank all -o csv",
		Annotations: map[string]string{"output": "csv"},
	}
	cmd.Flags().StringSliceVar(&f.ranks, "rank", nil, both("ranks, or all; the lowest when absent", "rank 编号或 all；默认最小的 rank"))
	cmd.Flags().StringSliceVar(&f.replicas, "replica", nil, both("replicas (worker-0) of curves of whole replicas, or all", "整副本曲线所属副本（如 worker-0）或 all"))
	cmd.Flags().StringVar(&f.generation, "generation", "", both("newest, all, or a number; newest when absent", "newest、all 或代次编号；默认 newest"))
	cmd.Flags().StringVar(&f.by, "by", "step", both("step or time", "横轴：step 或 time"))
	cmd.Flags().StringVar(&f.from, "from-step", "", both("not before this step", "起始步"))
	cmd.Flags().StringVar(&f.to, "to-step", "", both("not after this step", "结束步"))
	cmd.Flags().StringVar(&f.since, "since", "", both("RFC 3339, or how long ago (10m)", "起始时间：RFC 3339 或多久以前（10m）"))
	cmd.Flags().StringVar(&f.until, "until", "", both("RFC 3339, or how long ago", "结束时间：RFC 3339 或多久以前"))
	cmd.Flags().IntVar(&f.points, "points", 1000, both("at most about so many points of each curve; extremes stay", "每条曲线的最多点数；保留极值"))
	cmd.Flags().BoolVar(&f.log, "log", false, both("draw with a logarithmic axis", "纵轴使用对数刻度"))
	cmd.RunE = online(func(ctx context.Context, s *Shell, args []string) error { return f.run(ctx, s, args) })
	return cmd
}

func (f *flags) run(ctx context.Context, s *Shell, args []string) error {
	path := "/training-tasks/" + url.PathEscape(args[0]) + "/metrics"
	q := url.Values{}
	if s.Project != "" {
		q.Set("project", s.Project)
	}
	if len(args) == 1 && s.Output != "csv" {
		return list(ctx, s, path, q)
	}
	for name, v := range map[string]string{"generation": f.generation, "by": f.by, "fromStep": f.from, "toStep": f.to, "since": f.since, "until": f.until, "points": strconv.Itoa(f.points)} {
		if v != "" {
			q.Set(name, v)
		}
	}
	q["name"], q["rank"], q["replica"] = args[1:], f.ranks, f.replicas
	raw, err := s.Read(ctx, path+"/points", q)
	if err != nil {
		return err
	}
	if s.Output == "json" || s.Output == "yaml" {
		return s.Data(raw)
	}
	var answer struct {
		Items []Curve `json:"items"`
		Left  int     `json:"left"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return fault.New(fault.Internal, "BadAnswer", fault.T("The server's answer can't be read.", "无法读取服务的应答。")).Because(err)
	}
	if s.Output == "csv" {
		return table(s.Out, answer.Items)
	}
	if len(answer.Items) == 0 {
		fmt.Fprintln(s.Out, s.T("There is no such curve; `fermi train metrics %s` lists those there are.", "没有这样的曲线；用 `fermi train metrics %s` 查看全部名称。", s.Clean(args[0])))
		return nil
	}
	for _, c := range answer.Items {
		draw(s, c, f.by == "time", f.log)
	}
	if answer.Left > 0 {
		fmt.Fprintln(s.Out, s.T("… and %d more; choose fewer ranks", "…… 另有 %d 条；请减少 rank", answer.Left))
	}
	return nil
}

func list(ctx context.Context, s *Shell, path string, q url.Values) error {
	raw, err := s.Read(ctx, path, q)
	if err != nil {
		return err
	}
	if s.Output == "json" || s.Output == "yaml" {
		return s.Data(raw)
	}
	var answer struct {
		Items   []Name `json:"items"`
		Dropped int64  `json:"dropped"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return fault.New(fault.Internal, "BadAnswer", fault.T("The server's answer can't be read.", "无法读取服务的应答。")).Because(err)
	}
	if len(answer.Items) == 0 {
		fmt.Fprintln(s.Out, s.T("The task has no curves yet: it reports with fermi.report(step, loss=…), or prints lines with steps.", "任务尚无曲线：可用 fermi.report(step, loss=…) 上报，或打印带步数的日志行。"))
	}
	for _, n := range answer.Items {
		who := s.T("%d [rank|ranks]", "%d 个 rank", len(n.Ranks))
		if len(n.Ranks) == 0 {
			who = s.T("%d [replica|replicas]", "%d 个副本", len(n.Replicas))
		}
		line := s.Clean(n.Name)
		if s.Output != "name" {
			line = fmt.Sprintf("%-32s %s", line, who)
			if len(n.Generations) > 1 {
				line += ", " + s.T("generations %d to %d", "第 %d 至 %d 代", n.Generations[0], n.Generations[len(n.Generations)-1])
			}
		}
		fmt.Fprintln(s.Out, line)
	}
	if answer.Dropped > 0 && s.Output != "name" {
		fmt.Fprintln(s.Out, s.T("%d points are missing: launchers had no room for them while no server was there", "缺少 %d 个数据点：服务不可用期间启动器空间不足", answer.Dropped))
	}
	return nil
}

// table writes all points as CSV. Values that are no finite numbers are NaN, Infinity and -Infinity.
func table(w io.Writer, curves []Curve) error {
	out := csv.NewWriter(w)
	if err := out.Write([]string{"name", "role", "replica", "rank", "generation", "step", "time", "value"}); err != nil {
		return err
	}
	for _, c := range curves {
		odd := c.odd()
		for i := range c.Values {
			value := odd[i]
			if v := c.Values[i]; v != nil {
				value = strconv.FormatFloat(*v, 'g', -1, 64)
			}
			if err := out.Write([]string{c.Name, c.Role, c.Replica, c.rank(), strconv.FormatInt(c.Generation, 10), strconv.FormatInt(c.Steps[i], 10), time.UnixMilli(c.Times[i]).UTC().Format(time.RFC3339Nano), value}); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

func (c *Curve) odd() map[int]string {
	out := map[int]string{}
	for _, n := range c.NotFinite {
		out[n.At] = n.Is
	}
	return out
}

func (c *Curve) rank() string {
	if c.Rank == nil {
		return ""
	}
	return strconv.Itoa(*c.Rank)
}

// title is one line about a curve.
func (c *Curve) title(s *Shell) string {
	parts := []string{s.Clean(c.Name)}
	if c.Rank != nil {
		parts = append(parts, s.T("rank %d", "rank %d", *c.Rank))
	} else {
		parts = append(parts, s.Clean(c.Replica))
	}
	parts = append(parts, s.T("%d [point|points]", "%d 个点", c.Total))
	for i := len(c.Values) - 1; i >= 0; i-- {
		if v := c.Values[i]; v != nil {
			parts = append(parts, s.T("last %s", "最新 %s", number(*v)))
			break
		}
	}
	return strings.Join(parts, "  ")
}

// number is short, and long enough to tell neighbours apart.
func number(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }
