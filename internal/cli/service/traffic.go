package service

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/cli/online"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func canary() *cobra.Command {
	var off, manual bool
	var steps []int
	var every, latency time.Duration
	var requests int
	var failures float64
	var check string
	c := &cobra.Command{
		Use: "canary NAME", Short: cli.Both("Have new revisions take over step by step, judged by their answers", "设置灰度发布：新修订版按步骤承接流量，并按应答情况自动推进或回滚"), Args: cobra.ExactArgs(1),
		Example: "  fermi service canary spirals --steps 5,50,100 --every 1m --max-errors 1 --max-latency 500ms\n  fermi service update spirals --model-task spiral-2",
		RunE: with(func(cmd *cobra.Command, w *where, args []string) error {
			return w.change(cmd.Context(), args[0], func(s *serving.ServiceSpec) error {
				if s.Traffic == nil {
					s.Traffic = &serving.ServiceTraffic{}
				}
				if off {
					s.Traffic = nil
					return nil
				}
				s.Traffic.Canary = &serving.Canary{Steps: steps, Every: api.Duration(every), MinRequests: requests, MaxErrors: failures, MaxLatency: api.Duration(latency), Check: check, Manual: manual}
				return nil
			})
		}),
	}
	f := c.Flags()
	f.BoolVar(&off, "off", false, cli.Both("new revisions take over replica by replica, without sharing", "取消灰度，恢复逐个副本替换"))
	f.IntSliceVar(&steps, "steps", nil, cli.Both("percent of requests, step by step (5,50,100)", "各步骤的流量百分比（默认 5,50,100）"))
	f.DurationVar(&every, "every", 0, cli.Both("how long a step lasts (1m)", "每步时长（默认 1m）"))
	f.IntVar(&requests, "min-requests", 0, cli.Both("answers before a step is judged (20)", "评判前的最少应答数（默认 20）"))
	f.Float64Var(&failures, "max-errors", 0, cli.Both("percent of answers that may fail (1)", "允许失败的应答百分比（默认 1）"))
	f.DurationVar(&latency, "max-latency", 0, cli.Both("95 of 100 answers begin within this", "95% 的应答应在此时间内开始"))
	f.StringVar(&check, "check", "", cli.Both("path that must answer 2xx at each step", "每步须返回 2xx 的检查路径"))
	f.BoolVar(&manual, "manual", false, cli.Both("each step waits for fermi service promote", "每步需 fermi service promote 确认"))
	return c
}

// rule reads KIND:NAME=VALUE:TRACK, such as header:X-Group=b:canary, user:ann:stable, percent:10:canary.
func rule(text string) (serving.TrafficRule, error) {
	bad := fault.New(fault.Invalid, "BadRule", fault.T("%q is no rule, such as header:X-Group=b:canary, cookie:group=b:canary, user:ann:stable or percent:10:canary.", "%q 不是合法的规则，例如 header:X-Group=b:canary、cookie:group=b:canary、user:ann:stable、percent:10:canary。", text))
	kind, rest, ok := strings.Cut(text, ":")
	i := strings.LastIndexByte(rest, ':')
	if !ok || i < 0 {
		return serving.TrafficRule{}, bad
	}
	r := serving.TrafficRule{To: serving.Track(rest[i+1:])}
	name, value, _ := strings.Cut(rest[:i], "=")
	switch kind {
	case "header":
		r.Header, r.Value = name, value
	case "cookie":
		r.Cookie, r.Value = name, value
	case "user":
		r.User = name
	case "percent":
		n, err := strconv.Atoi(name)
		if err != nil {
			return r, bad
		}
		r.Percent = n
	default:
		return r, bad
	}
	return r, nil
}

func traffic() *cobra.Command {
	var rules []string
	var shadow int
	var plain bool
	c := &cobra.Command{
		Use: "traffic NAME", Short: cli.Both("Show or change how requests are shared among revisions", "查看或修改流量分配"), Args: cobra.ExactArgs(1),
		Example: "  fermi service traffic spirals --rule header:X-Group=b:canary --shadow 10",
		RunE: with(func(cmd *cobra.Command, w *where, args []string) error {
			var copies *int // nil: as it is
			if cmd.Flags().Changed("shadow") {
				copies = &shadow
			}
			if plain || len(rules) > 0 || copies != nil {
				if err := w.change(cmd.Context(), args[0], func(s *serving.ServiceSpec) error { return share(s, rules, copies, plain) }); err != nil {
					return err
				}
			}
			s, err := w.get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if !online.IsTable(cmd) {
				return online.Plainly(cmd, "service", args[0])
			}
			return w.shares(s)
		}),
	}
	f := c.Flags()
	f.StringArrayVar(&rules, "rule", nil, cli.Both("KIND:NAME=VALUE:canary|stable, may be repeated; header, cookie, user or percent", "规则 KIND:NAME=VALUE:canary|stable，可重复；KIND 为 header、cookie、user 或 percent"))
	f.IntVar(&shadow, "shadow", 0, cli.Both("percent of requests that the new revision gets copies of; 0: none", "复制给新修订版的请求百分比；0 为不复制"))
	f.BoolVar(&plain, "no-rules", false, cli.Both("forget the rules", "清除规则"))
	return c
}

// share changes how requests are shared; what is not said stays as it is.
func share(s *serving.ServiceSpec, rules []string, shadow *int, plain bool) error {
	if s.Traffic == nil {
		s.Traffic = &serving.ServiceTraffic{Canary: &serving.Canary{}}
	}
	if plain || len(rules) > 0 {
		s.Traffic.Rules = nil
	}
	for _, text := range rules {
		r, err := rule(text)
		if err != nil {
			return err
		}
		s.Traffic.Rules = append(s.Traffic.Rules, r)
	}
	if shadow != nil {
		if s.Traffic.Shadow = nil; *shadow > 0 {
			s.Traffic.Shadow = &serving.Shadow{Percent: *shadow}
		}
	}
	return nil
}

// shares shows which revision gets how much.
func (w *where) shares(s *serving.InferenceService) error {
	var rows [][]string
	for _, r := range s.Status.Revisions {
		track, percent := "", 0
		switch c := s.Status.Canary; {
		case c == nil && r.Number == s.Status.Revision:
			track, percent = string(serving.TrackStable), 100
		case c != nil && r.Number == c.Stable:
			track, percent = string(serving.TrackStable), 100-c.Percent
		case c != nil && r.Number == c.Revision:
			track, percent = string(serving.TrackCanary), c.Percent
			if c.Verdict != "" {
				track = fault.T("rolled back", "已回滚").In(w.Lang)
			}
		}
		rows = append(rows, []string{strconv.Itoa(r.Number), track, fmt.Sprintf("%d%%", percent), r.CreatedAt.Local().Format(time.DateTime)})
	}
	return w.show(rows, fault.T("REVISION", "修订版"), fault.T("TRACK", "流量组"), fault.T("REQUESTS", "流量"), fault.T("OPENED", "创建时间"))
}

func promote() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "promote NAME", Short: cli.Both("Have the new revision go on to its next step, or take over", "推进灰度到下一步，或直接全量"), Args: cobra.ExactArgs(1),
		RunE: with(func(cmd *cobra.Command, w *where, args []string) error {
			return client.VerbWith(cmd.Context(), w.Client, serving.Kind, w.Project, args[0], "promote", map[string]any{"all": all}, nil)
		}),
	}
	c.Flags().BoolVar(&all, "all", false, cli.Both("all steps at once", "一次完成全部步骤"))
	return c
}

func rollback() *cobra.Command {
	var to int
	c := &cobra.Command{
		Use: "rollback NAME", Short: cli.Both("Go back to an earlier revision", "回滚到先前的修订版"), Args: cobra.ExactArgs(1),
		RunE: with(func(cmd *cobra.Command, w *where, args []string) error {
			return client.VerbWith(cmd.Context(), w.Client, serving.Kind, w.Project, args[0], "rollback", map[string]any{"revision": to}, nil)
		}),
	}
	c.Flags().IntVar(&to, "to", 0, cli.Both("revision; the stable one or the one before when absent", "目标修订版；不填则为稳定版或上一个修订版"))
	return c
}

func autoscale() *cobra.Command {
	var off bool
	var said serving.ServiceAutoscale
	var metrics []string
	c := &cobra.Command{
		Use: "autoscale NAME", Short: cli.Both("Have as many replicas as are needed, and show why there are so many", "设置自动伸缩，并查看每次伸缩的原因"), Args: cobra.ExactArgs(1),
		Example: "  fermi service autoscale spirals --min 0 --max 8 --metric concurrency=8\n  fermi service autoscale spirals",
		RunE: with(func(cmd *cobra.Command, w *where, args []string) error {
			f := cmd.Flags()
			if off || slices.ContainsFunc([]string{"min", "max", "metric", "window", "up", "down"}, f.Changed) {
				if err := w.change(cmd.Context(), args[0], func(s *serving.ServiceSpec) error {
					if off {
						s.Autoscale = nil
						for i := range s.Zones { // bounds of what does not scale any more
							s.Zones[i].MinReplicas, s.Zones[i].MaxReplicas = 0, 0
						}
						return nil
					}
					return scales(s, f.Changed, said, metrics)
				}); err != nil {
					return err
				}
			}
			s, err := w.get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if !online.IsTable(cmd) {
				return online.Plainly(cmd, "service", args[0])
			}
			return w.scaleLog(s)
		}),
	}
	f := c.Flags()
	f.BoolVar(&off, "off", false, cli.Both("as many as spec.replicas says", "取消自动伸缩"))
	f.IntVar(&said.MinReplicas, "min", 0, cli.Both("fewest replicas; 0: none while nobody asks", "最少副本数；0 表示空闲时缩容到零"))
	f.IntVar(&said.MaxReplicas, "max", 0, cli.Both("most replicas", "最多副本数"))
	f.StringArrayVar(&metrics, "metric", nil, cli.Both("TYPE=TARGET of a replica, may be repeated: concurrency, qps, queue, tokens, latency (seconds), cpu, device (percent)", "指标 TYPE=TARGET（每副本），可重复：concurrency、qps、queue、tokens、latency（秒）、cpu、device（百分比）"))
	f.DurationVar((*time.Duration)(&said.Policy.Window), "window", 0, cli.Both("over which is measured (1m)", "统计窗口（默认 1m）"))
	f.DurationVar((*time.Duration)(&said.Policy.Up), "up", 0, cli.Both("time between two steps up (none)", "两次扩容的间隔（默认无）"))
	f.DurationVar((*time.Duration)(&said.Policy.Down), "down", 0, cli.Both("time without a change before a step down (1m)", "缩容前的稳定时间（默认 1m）"))
	return c
}

// scales changes how it scales; what was not said stays as it is.
func scales(s *serving.ServiceSpec, isSaid func(flag string) bool, said serving.ServiceAutoscale, metrics []string) error {
	if s.Autoscale == nil {
		s.Autoscale = &serving.ServiceAutoscale{}
	}
	a := s.Autoscale
	for flag, take := range map[string]func(){
		"min": func() { a.MinReplicas = said.MinReplicas }, "max": func() { a.MaxReplicas = said.MaxReplicas }, "metric": func() { a.Metrics = nil },
		"window": func() { a.Policy.Window = said.Policy.Window }, "up": func() { a.Policy.Up = said.Policy.Up }, "down": func() { a.Policy.Down = said.Policy.Down },
	} {
		if isSaid(flag) {
			take()
		}
	}
	for _, text := range metrics {
		name, value, _ := strings.Cut(text, "=")
		target, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return fault.New(fault.Invalid, "BadMetric", fault.T("%q is no metric with its target, such as concurrency=8.", "%q 不是合法的指标与目标，例如 concurrency=8。", text))
		}
		a.Metrics = append(a.Metrics, serving.ScaleMetric{Type: serving.MetricType(name), Target: target})
	}
	return nil
}

// scaleLog shows each change of the number of replicas, and why.
func (w *where) scaleLog(s *serving.InferenceService) error {
	var rows [][]string
	if s.Status.Scale != nil {
		for _, l := range s.Status.Scale.Log {
			rows = append(rows, []string{l.At.Local().Format(time.DateTime), strconv.Itoa(l.From), strconv.Itoa(l.To), l.Reason, l.Message.In(w.Lang)})
		}
	}
	return w.show(rows, fault.T("TIME", "时间"), fault.T("FROM", "原副本数"), fault.T("TO", "新副本数"), fault.T("REASON", "原因"), fault.T("MESSAGE", "说明"))
}
