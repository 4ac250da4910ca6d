package app

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

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
	faults              bool
	seed                uint64
	checkpoint, restart time.Duration
	add                 []string
	csv, html           string
}

func simCommand() *cobra.Command {
	var f simFlags
	cmd := &cobra.Command{
		Use: "sim [TRACE]", Short: cli.Both("Replay a trace, or this cluster's own history, through the planner in virtual time", "在虚拟时间中用调度器回放轨迹或本集群历史"),
		Args: cobra.MaximumNArgs(1),
		Example: `  fermi sim jobs.csv --nodes 120x8:A100 --html report.html
  fermi sim --history 720h --add 4x8:A100@beijing-2`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.nodes, "nodes", "16x8:A100", cli.Both("the cluster: COUNTxDEVICES:TYPE", "集群规模：节点数x每节点卡数:卡型"))
	fl.StringVar(&f.format, "format", "chronus", cli.Both("of the trace: chronus", "轨迹格式：chronus"))
	fl.StringVar(&f.queueBy, "queue-by", "none", cli.Both("one queue for each: none or user", "按何划分队列：none 或 user"))
	fl.DurationVar(&f.history, "history", 0, cli.Both("instead of a trace: this cluster and what ran on it this long back", "不用轨迹，回放本集群最近这段时间的任务"))
	fl.BoolVar(&f.faults, "faults", false, cli.Both("let nodes and large jobs fail as published clusters do", "按公开集群的故障模型注入故障"))
	fl.Uint64Var(&f.seed, "seed", 1, cli.Both("of the faults", "故障随机种子"))
	fl.DurationVar(&f.checkpoint, "checkpoint", 30*time.Minute, cli.Both("how often jobs save", "检查点间隔"))
	fl.DurationVar(&f.restart, "restart", 2*time.Minute, cli.Both("what beginning again costs", "重启开销"))
	fl.StringArrayVar(&f.add, "add", nil, cli.Both("what if: COUNTxDEVICES:TYPE[@ZONE] more nodes; may be repeated", "假设增加节点：节点数x卡数:卡型[@可用区]，可重复"))
	fl.StringVar(&f.csv, "csv", "", cli.Both("write one line a job to this file", "将逐作业结果写入该文件"))
	fl.StringVar(&f.html, "html", "", cli.Both("write a page with plots to this file", "将图表报告写入该文件"))
	return cmd
}

func (f *simFlags) run(cmd *cobra.Command, args []string) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	cfg, err := f.config(cmd, args)
	if err != nil {
		return err
	}
	cfg.Seed, cfg.Checkpoint, cfg.Restart = f.seed, f.checkpoint, f.restart
	if f.faults {
		cfg.Faults = sim.DefaultFaults()
	}
	lang := cli.Language(cmd)
	names, configs := []string{fault.T("as it is", "现状").In(lang)}, []sim.Config{cfg}
	if len(f.add) > 0 {
		more := cfg
		if err := f.whatIf(&more); err != nil {
			return err
		}
		names, configs = append(names, fmt.Sprint("+", f.add)), append(configs, more)
	}
	var reports []*sim.Report
	for i, c := range configs {
		c.Progress = progressOn(cmd.ErrOrStderr(), names[i])
		r, err := sim.Run(ctx, c)
		if err != nil {
			return err
		}
		if len(configs) > 1 {
			fmt.Fprintf(cmd.OutOrStdout(), "# %s\n", names[i])
		}
		if err := r.WriteText(cmd.OutOrStdout(), lang); err != nil {
			return err
		}
		reports = append(reports, r)
	}
	return errors.Join(
		writeTo(f.csv, reports[0].WriteCSV),
		writeTo(f.html, func(w io.Writer) error { return sim.WriteHTML(w, lang, names, reports...) }))
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
	if f.history > 0 {
		c, err := cli.Dial(cmd)
		if err != nil {
			return sim.Config{}, err
		}
		return sim.Recorded(cmd.Context(), c, f.history, time.Now().UTC())
	}
	if len(args) == 0 {
		return sim.Config{}, fault.New(fault.Invalid, "NoTrace", fault.T("A trace is missing.", "缺少轨迹文件。")).
			WithHint(fault.T("Give a file, or --history 720h for this cluster's own.", "请给出文件，或用 --history 720h 回放本集群历史。"))
	}
	if f.format != "chronus" || f.queueBy != "none" && f.queueBy != "user" {
		return sim.Config{}, fault.New(fault.Invalid, "BadFlag", fault.T("--format is chronus; --queue-by is none or user.", "--format 只能为 chronus；--queue-by 只能为 none 或 user。"))
	}
	in, err := os.Open(args[0])
	if err != nil {
		return sim.Config{}, fault.New(fault.NotFound, "NoSuchFile", fault.T("Can't read %s.", "无法读取 %s。", args[0])).Because(err)
	}
	defer in.Close()
	trace, err := sim.ReadChronus(in, f.queueBy == "user")
	if err != nil {
		return sim.Config{}, err
	}
	cfg := sim.Config{Trace: trace, Begin: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	return cfg, addNodes(&cfg, f.nodes)
}

// whatIf changes a copy of the cluster; the base is not touched.
func (f *simFlags) whatIf(cfg *sim.Config) error {
	cfg.Nodes = append([]*api.Node{}, cfg.Nodes...)
	cfg.Zones = append([]*api.Zone{}, cfg.Zones...)
	for _, a := range f.add {
		if err := addNodes(cfg, a); err != nil {
			return err
		}
	}
	return nil
}

var nodesForm = regexp.MustCompile(`^(\d{1,6})x(\d{1,2}):([^@\s]{1,64})(?:@(\S{1,64}))?$`)

// addNodes adds COUNTxDEVICES:TYPE[@ZONE]; a zone that is not there is made with the default price.
func addNodes(cfg *sim.Config, text string) error {
	m := nodesForm.FindStringSubmatch(text)
	if m == nil {
		return fault.New(fault.Invalid, "BadNodes", fault.T("%q does not say nodes; such as 120x8:A100 or 4x8:A100@beijing-2.", "%q 不是有效的节点描述；例如 120x8:A100 或 4x8:A100@beijing-2。", text))
	}
	count, _ := strconv.Atoi(m[1])
	devices, _ := strconv.Atoi(m[2])
	if count == 0 || devices > 64 {
		return fault.New(fault.Invalid, "BadNodes", fault.T("At least one node, at most 64 devices each.", "至少一个节点，每节点最多 64 张卡。"))
	}
	zone := m[4]
	if zone == "" {
		zone = "sim"
	}
	known := false
	for _, z := range cfg.Zones {
		known = known || z.Meta.Name == zone
	}
	if !known {
		cfg.Zones = append(cfg.Zones, &api.Zone{Meta: api.Meta{Name: zone}, Spec: api.ZoneSpec{Region: zone, Price: api.Price{Currency: api.DefaultCurrency}}})
	}
	first := uint32(0)
	for _, n := range cfg.Nodes {
		first = max(first, n.Spec.Number)
	}
	cfg.Nodes = append(cfg.Nodes, sim.Nodes(zone, int(first)+1, count, devices, m[3])...)
	return nil
}
