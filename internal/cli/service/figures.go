package service

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/cli/online"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// figure is how a part of the requests was answered.
type figure struct {
	serving.ServedCount
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
}

// cells are a figure's, after the name of what it is of.
func (f *figure) cells(name string) []string {
	good := "—"
	if n := f.Requests - f.Refused; n > 0 {
		good = strconv.FormatFloat(100*float64(n-f.Errors)/float64(n), 'f', 2, 64) + "%"
	}
	soon := func(s float64) string {
		if s == 0 {
			return "—"
		}
		return "≤ " + time.Duration(s*float64(time.Second)).String()
	}
	return []string{name, strconv.FormatInt(f.Requests, 10), good, strconv.FormatInt(f.Refused, 10), soon(f.P50), soon(f.P95), strconv.FormatInt(f.Tokens, 10)}
}

func figures() *cobra.Command {
	var since time.Duration
	var keys bool
	c := &cobra.Command{
		Use: "figures NAME", Aliases: []string{"stats"}, Short: cli.Both("How it answered: requests, success, latency, tokens, cost, error budget; by revision or key", "应答情况：请求数、成功率、延迟、词元、费用与错误预算；可按修订版或密钥查看"), Args: cobra.ExactArgs(1),
		Example: "  fermi service figures spirals --since 24h\n  fermi service figures spirals --keys --since 720h",
		RunE: with(func(cmd *cobra.Command, w *where, args []string) error {
			q := url.Values{"project": {w.Project}, "since": {since.String()}}
			raw, err := w.Client.Raw(cmd.Context(), "/inference-services/"+url.PathEscape(args[0])+"/figures", q)
			if err != nil {
				return err
			}
			if !online.IsTable(cmd) {
				var pretty any
				if err := json.Unmarshal(raw, &pretty); err != nil {
					return err
				}
				return w.Answer(pretty)
			}
			var got struct {
				Total     figure
				Revisions []struct {
					Revision int
					figure
				}
				Keys []struct {
					Key string
					serving.ServedCount
				}
				SLO *struct {
					Availability, Left, Burn float64
					Measured                 *float64
					Bad                      int64
				}
				CostHour        float64
				CostPerThousand *float64
			}
			if err := json.Unmarshal(raw, &got); err != nil {
				return err
			}
			if keys {
				var rows [][]string
				for _, k := range got.Keys {
					rows = append(rows, []string{k.Key, strconv.FormatInt(k.Requests, 10), strconv.FormatInt(k.Errors, 10), strconv.FormatInt(k.Refused, 10), strconv.FormatInt(k.Tokens, 10)})
				}
				return w.show(rows, fault.T("KEY", "密钥"), fault.T("REQUESTS", "请求数"), fault.T("ERRORS", "失败"), fault.T("REFUSED", "拒绝"), fault.T("TOKENS", "词元"))
			}
			rows := [][]string{}
			for _, r := range got.Revisions {
				rows = append(rows, r.cells(fault.T("revision %d", "修订版 %d", r.Revision).In(w.Lang)))
			}
			rows = append(rows, got.Total.cells(fault.T("all", "合计").In(w.Lang)))
			if err := w.show(rows, fault.T("OF", "范围"), fault.T("REQUESTS", "请求数"), fault.T("GOOD", "成功率"), fault.T("REFUSED", "拒绝"), fault.T("P50", "P50"), fault.T("P95", "P95"), fault.T("TOKENS", "词元")); err != nil {
				return err
			}
			say := func(t fault.Text) { fmt.Fprintln(cmd.OutOrStdout(), t.In(w.Lang)) }
			if got.CostPerThousand != nil {
				say(fault.T("Cost: %.4g an hour, %.4g for 1,000 requests.", "费用：每小时 %.4g，每千次请求 %.4g。", got.CostHour, *got.CostPerThousand))
			} else {
				say(fault.T("Cost: %.4g an hour.", "费用：每小时 %.4g。", got.CostHour))
			}
			if s := got.SLO; s != nil && s.Measured != nil {
				say(fault.T("SLO: %.4g%% promised, %.6g%% measured (%d bad); %.3g%% of the error budget is left, the last hour used it %.3g times as fast as allowed.",
					"SLO：承诺 %.4g%%，实测 %.6g%%（%d 个不达标）；错误预算剩余 %.3g%%，最近一小时的消耗速度为允许值的 %.3g 倍。", s.Availability, *s.Measured, s.Bad, s.Left, s.Burn))
			}
			return nil
		}),
	}
	c.Flags().DurationVar(&since, "since", time.Hour, cli.Both("so long ago until now, at most 31 days", "统计时间范围，最长 31 天"))
	c.Flags().BoolVar(&keys, "keys", false, cli.Both("what each key asked, in whole hours", "按密钥统计（整小时）"))
	return c
}

func slo() *cobra.Command {
	var availability float64
	var latency, window time.Duration
	var off bool
	c := &cobra.Command{
		Use: "slo NAME", Short: cli.Both("Say what it promises; fermi service figures shows its error budget", "设置服务承诺；fermi service figures 显示错误预算"), Args: cobra.ExactArgs(1),
		Example: "  fermi service slo spirals --availability 99.9 --latency 500ms",
		RunE: with(func(cmd *cobra.Command, w *where, args []string) error {
			return w.change(cmd.Context(), args[0], func(s *serving.ServiceSpec) error {
				if s.SLO = nil; !off {
					s.SLO = &serving.SLO{Availability: availability, Latency: api.Duration(latency), Window: api.Duration(window)}
				}
				return nil
			})
		}),
	}
	c.Flags().Float64Var(&availability, "availability", 99.9, cli.Both("percent of requests that are answered well", "应答成功的百分比"))
	c.Flags().DurationVar(&latency, "latency", 0, cli.Both("an answer that begins later is not a good one; any time when absent", "晚于此时间开始的应答视为不达标；默认不限"))
	c.Flags().DurationVar(&window, "window", 0, cli.Both("over which is counted (720h)", "统计窗口（默认 720h）"))
	c.Flags().BoolVar(&off, "off", false, cli.Both("promise nothing", "取消承诺"))
	return c
}
