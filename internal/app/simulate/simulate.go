// Package simulate is `fermi sim`: the planner on a cluster that is only said.
//
// Place: part of the assembly, on sim. Promise: nothing is asked or changed but what its flags name. Enemies: input without end.
package simulate

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/sim"
)

// simFlags are the settings of `fermi sim`.
type simFlags struct {
	nodes               string
	format, queueBy     string
	history             time.Duration
	faults, fixed       bool
	seed                uint64
	checkpoint, restart time.Duration
	live                bool
	scenario            string
	change              sim.Change
	csv, html           string
}

// Command is `fermi sim`.
func Command() *cobra.Command {
	var f simFlags
	cmd := &cobra.Command{
		Use: "sim [TRACE]", Short: cli.Both("Replay a trace, or this cluster's history or present, through the planner in virtual time", "在虚拟时间中用调度器回放轨迹、本集群历史或现状"),
		Args: cobra.MaximumNArgs(1),
		Example: `  fermi sim jobs.csv --nodes 120x8:A100 --html report.html
  fermi sim openb_pod_list_default.csv --format openb --nodes openb_node_list_gpu_node.csv
  fermi sim --history 720h --add 4x8:A100@beijing-2
  fermi sim --live --add "4 nodes in 北京-2" --weight team-b=2x --html what-if.html
  fermi sim --scenario overload --html overload.html
  fermi sim --scenario services --html day.html`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.nodes, "nodes", "16x8:A100", cli.Both("the cluster: COUNTxDEVICES:TYPE, or an OpenB node list (.csv)", "集群规模：节点数x每节点卡数:卡型，或 OpenB 节点列表（.csv）"))
	fl.StringVar(&f.format, "format", "chronus", cli.Both("of the trace: chronus or openb", "轨迹格式：chronus 或 openb"))
	fl.StringVar(&f.queueBy, "queue-by", "none", cli.Both("one queue for each: none or user", "按何划分队列：none 或 user"))
	fl.DurationVar(&f.history, "history", 0, cli.Both("instead of a trace: this cluster and what ran on it this long back", "不用轨迹，回放本集群最近这段时间的任务"))
	fl.BoolVar(&f.faults, "faults", false, cli.Both("let nodes and large jobs fail as published clusters do", "按公开集群的故障模型注入故障"))
	fl.BoolVar(&f.fixed, "no-preemption", false, cli.Both("nobody's place is taken away", "不抢占"))
	fl.Uint64Var(&f.seed, "seed", 1, cli.Both("of the faults, or of the scenario", "故障或场景的随机种子"))
	fl.DurationVar(&f.checkpoint, "checkpoint", 30*time.Minute, cli.Both("how often jobs save", "检查点间隔"))
	fl.DurationVar(&f.restart, "restart", 2*time.Minute, cli.Both("what beginning again costs", "重启开销"))
	fl.BoolVar(&f.live, "live", false, cli.Both("instead of a trace: this cluster with all that runs and waits now", "不用轨迹，以本集群当前运行与等待的任务为起点"))
	fl.StringVar(&f.scenario, "scenario", "", cli.Both("instead of a trace: a generated one on its own cluster, from --seed: "+strings.Join(sim.Scenarios(), ", ")+"; "+sim.Services+", a day of an inference service's requests", "不用轨迹，按 --seed 生成场景及其集群："+strings.Join(sim.Scenarios(), "、")+"；"+sim.Services+" 为一个推理服务一天的请求"))
	fl.StringArrayVar(&f.change.Add, "add", nil, cli.Both(`what if there were more: "4 nodes in ZONE" or COUNTxDEVICES:TYPE[@ZONE]; may be repeated`, `假设增加节点："4 nodes in 可用区" 或 节点数x卡数:卡型[@可用区]，可重复`))
	fl.StringArrayVar(&f.change.Remove, "remove", nil, cli.Both(`what if there were fewer: "4 nodes in ZONE" or a node's name; may be repeated`, `假设减少节点："4 nodes in 可用区" 或节点名，可重复`))
	fl.StringArrayVar(&f.change.Weight, "weight", nil, cli.Both("what if a queue weighed QUEUE=3, or QUEUE=2x what it does; may be repeated", "假设调整队列权重：队列=3 或 队列=2x，可重复"))
	fl.Float64Var(&f.change.Elastic, "elastic", 0, cli.Both("what if every gang could go on with this share of its replicas, such as 0.5", "假设所有作业都可缩容到该比例的副本数，例如 0.5"))
	fl.BoolVar(&f.change.Moves, "moves", false, cli.Both("what if jobs that save were moved so that a waiting one finds room in one piece", "假设会保存检查点的作业可被迁移，为等待的作业腾出整块空位"))
	fl.StringVar(&f.csv, "csv", "", cli.Both("write one line a job to this file", "将逐作业结果写入该文件"))
	fl.StringVar(&f.html, "html", "", cli.Both("write a page with plots to this file", "将图表报告写入该文件"))
	return cmd
}

func (f *simFlags) run(cmd *cobra.Command, args []string) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if f.scenario == sim.Services {
		return f.services(cmd, args)
	}
	cfg, err := f.config(cmd, args)
	if err != nil {
		return err
	}
	cfg.Seed, cfg.Checkpoint, cfg.Restart, cfg.Preemptible = f.seed, f.checkpoint, f.restart, !f.fixed
	if f.faults {
		cfg.Faults = sim.DefaultFaults()
	}
	lang := cli.Language(cmd)
	names, configs := []string{fault.T("as it is", "现状").In(lang)}, []sim.Config{cfg}
	if !f.change.Empty() {
		changed, err := cfg.With(f.change)
		if err != nil {
			return err
		}
		names, configs = append(names, f.change.String()), append(configs, changed)
	}
	var all []sim.Variant
	for i, c := range configs {
		c.Progress = progressOn(cmd.ErrOrStderr(), names[i])
		r, err := sim.Run(ctx, c)
		if err != nil {
			return err
		}
		all = append(all, sim.Variant{Name: names[i], Report: r})
	}
	return f.write(cmd.OutOrStdout(), lang, all)
}

// services plays the scenario that has requests instead of jobs, and no cluster: of the other flags only the seed and where it is
// written mean something to it.
func (f *simFlags) services(cmd *cobra.Command, args []string) error {
	var other []string
	cmd.Flags().Visit(func(fl *pflag.Flag) {
		if cmd.InheritedFlags().Lookup(fl.Name) == nil && !slices.Contains([]string{"scenario", "seed", "html", "csv"}, fl.Name) {
			other = append(other, "--"+fl.Name)
		}
	})
	if other = append(other, args...); len(other) > 0 {
		return fault.New(fault.Invalid, "BadFlag", fault.T("The scenario %s has requests, not jobs: it does not go with %s.", "场景 %s 模拟请求而非作业，不能与 %s 同用。", sim.Services, strings.Join(other, ", "))).
			WithHint(fault.T("It takes --seed, --html and --csv.", "可用的选项：--seed、--html、--csv。"))
	}
	lang := cli.Language(cmd)
	days := sim.PlayServices(f.seed)
	heads, rows := sim.ServicesTable(lang, f.seed, days)
	return errors.Join(
		cli.Table(cmd.OutOrStdout(), heads, rows),
		writeTo(f.csv, func(w io.Writer) error { return sim.WriteServicesCSV(w, days) }),
		writeTo(f.html, func(w io.Writer) error { return sim.WriteServicesHTML(w, lang, f.seed, days) }))
}

// shownStarts is how many starts the table on the terminal has.
const shownStarts = 20

func (f *simFlags) write(out io.Writer, lang string, all []sim.Variant) error {
	heads, rows := sim.Table(lang, all...)
	if err := cli.Table(out, heads, rows); err != nil {
		return err
	}
	withStarts := f.live || len(all) > 1
	if withStarts {
		heads, rows, left := sim.Starts(lang, shownStarts, all...)
		fmt.Fprintln(out)
		if len(rows) > 0 {
			if err := cli.Table(out, heads, rows); err != nil {
				return err
			}
		}
		if left != "" {
			fmt.Fprintln(out, left)
		}
	}
	return errors.Join(
		writeTo(f.csv, func(w io.Writer) error { return sim.WriteCSV(w, all...) }),
		writeTo(f.html, func(w io.Writer) error { return sim.WriteHTML(w, lang, withStarts, all...) }))
}

// progressOn writes a line a second at most; nothing for what takes less.
func progressOn(w io.Writer, name string) func(float64) {
	last := time.Now()
	return func(share float64) {
		if now := time.Now(); now.Sub(last) >= time.Second {
			last = now
			fmt.Fprintf(w, "%s: %.0f %%\n", name, 100*share)
		}
	}
}

func writeTo(path string, write func(io.Writer) error) error {
	if path == "" {
		return nil
	}
	f, err := os.Create(path)
	if err != nil {
		return fault.New(fault.Invalid, "CantWrite", fault.T("Can't write %s.", "无法写入 %s。", path)).Because(err)
	}
	return errors.Join(write(f), f.Close())
}

func (f *simFlags) config(cmd *cobra.Command, args []string) (sim.Config, error) {
	sources := len(args)
	for _, on := range []bool{f.history > 0, f.live, f.scenario != ""} {
		if on {
			sources++
		}
	}
	if sources != 1 || f.queueBy != "none" && f.queueBy != "user" {
		return sim.Config{}, fault.New(fault.Invalid, "BadFlag", fault.T("Give one of: a trace, --history, --live, --scenario; --queue-by is none or user.", "轨迹文件、--history、--live、--scenario 须且只能给出一个；--queue-by 只能为 none 或 user。")).
			WithHint(fault.T("Such as: fermi sim --live, or fermi sim --history 720h.", "例如：fermi sim --live，或 fermi sim --history 720h。"))
	}
	if f.scenario != "" {
		return sim.Scenario(f.scenario, f.seed)
	}
	if len(args) == 0 {
		c, err := cli.Dial(cmd)
		if err != nil {
			return sim.Config{}, err
		}
		if f.live {
			return sim.Live(cmd.Context(), c, time.Now().UTC())
		}
		return sim.Recorded(cmd.Context(), c, f.history, time.Now().UTC())
	}
	read, ok := map[string]func(io.Reader, bool) (sim.Trace, error){"chronus": sim.ReadChronus, "openb": sim.ReadOpenB}[f.format]
	if !ok {
		return sim.Config{}, fault.New(fault.Invalid, "BadFlag", fault.T("--format is chronus or openb.", "--format 只能为 chronus 或 openb。"))
	}
	trace, err := readFile(args[0], func(r io.Reader) (sim.Trace, error) { return read(r, f.queueBy == "user") })
	if err != nil {
		return sim.Config{}, err
	}
	cfg := sim.Config{Trace: trace, Begin: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	if !strings.HasSuffix(f.nodes, ".csv") {
		return cfg, cfg.AddNodes(f.nodes)
	}
	nodes, err := readFile(f.nodes, sim.ReadOpenBNodes)
	if err != nil {
		return sim.Config{}, err
	}
	cfg.Nodes = sim.OpenBNodes("openb", nodes)
	cfg.Zones = []*api.Zone{{Meta: api.Meta{Name: "openb"}, Spec: api.ZoneSpec{Region: "openb", Price: api.Price{Currency: api.DefaultCurrency}}}}
	return cfg, nil
}

// readFile opens a file for its reader.
func readFile[T any](path string, read func(io.Reader) (T, error)) (T, error) {
	f, err := os.Open(path)
	if err != nil {
		var none T
		return none, fault.New(fault.NotFound, "NoSuchFile", fault.T("Can't read %s.", "无法读取 %s。", path)).Because(err)
	}
	defer f.Close()
	return read(f)
}
