package cluster

import (
	"context"
	"encoding/csv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
)

var usageColumns = []show.Column{
	show.Fixed("NAME", "名称"), show.Number("REPLICAS", "副本"), show.Number("RUNNING", "运行中"), show.Number("DEVICE-HOURS", "卡时"), show.Number("CORE-HOURS", "核时"),
	show.Number("COST", "费用"), show.Number("kWh", "kWh"), show.Number("CO₂", "碳排"),
}

func UsageCommand(a *call.Shell) *cobra.Command {
	var o client.UsageOptions
	cmd := &cobra.Command{
		Use: "usage", Short: speech.Both("Who used how much, what it cost and what it burned", "查看用量、费用与能耗"), Args: usage.Need(0, 0, ""),
		Example: "  fermi usage --by user --since 168h\n  fermi usage --by task --since 2026-11-01T00:00:00+08:00 -o csv",
	}
	cmd.Flags().StringVar(&o.By, "by", "project", speech.Both("project, user, task, zone or device (its type)", "按 project、user、task、zone 或 device（卡型）汇总"))
	cmd.Flags().StringVar(&o.From, "since", "", speech.Both("RFC 3339, or how long ago (168h); 30 days ago when absent", "起始时间：RFC 3339 或多久以前（168h）；默认 30 天前"))
	cmd.Flags().StringVar(&o.To, "until", "", speech.Both("RFC 3339, or how long ago; now when absent", "结束时间：RFC 3339 或多久以前；默认现在"))
	cmd.Flags().IntVar(&o.Limit, "limit", 100, speech.Both("at most this many, dearest first", "最多条数，费用高者在前"))
	cmd.Annotations = map[string]string{call.AlsoOutput: "csv"}
	cmd.RunE = a.Online(func(ctx context.Context, s *call.Session, _ []string) error {
		o.Project = s.Project(api.KindTrainingTask)
		u, err := s.Client.Usage(ctx, o)
		if err != nil {
			return err
		}
		if s.Flags.Output == "csv" {
			return usageCSV(s, u)
		}
		if s.Structured() {
			return s.Data(u)
		}
		if len(u.Items) == 0 {
			s.Say("Nothing ran in that time.", "该时段内没有运行记录。")
			return nil
		}
		rows := u.Items
		if len(rows) > 1 {
			u.Total.Name = s.T("total", "合计")
			rows = append(rows, u.Total)
		}
		if err := show.Write(s.Out, usageColumns, usageRows(rows), s.Lang, show.ScreenOf(s.Out)); err != nil {
			return err
		}
		show.Line(s.Out, s.T("≈ estimated from tables of device power; traffic between zones: not measured", "≈ 按卡型功耗表估算；跨区流量：未计量"))
		return nil
	})
	return cmd
}

func usageRows(items []client.UsageSum) [][]show.Cell {
	amount := func(x float64) string { return strconv.FormatFloat(x, 'f', 3, 64) }
	rows := make([][]show.Cell, len(items))
	for i, u := range items {
		var costs []string
		for _, c := range u.Costs {
			costs = append(costs, show.Money(c.Total, c.Currency))
		}
		mark := ""
		if u.EnergyBasis == "estimated" {
			mark = "≈"
		}
		carbon := "-"
		if u.Grams != nil {
			carbon = mark + amount(*u.Grams/1000) + " kg"
		}
		rows[i] = []show.Cell{
			show.Text(call.First(u.Name, u.Key, "-")), show.Text(strconv.Itoa(u.Replicas)), show.Text(strconv.Itoa(u.Running)), show.Text(amount(u.DeviceHours)),
			show.Text(amount(u.CoreHours)), show.Text(strings.Join(costs, " + ")), show.Text(mark + amount(u.KWh)), show.Text(carbon),
		}
	}
	return rows
}

// usageCSV writes a line for each key, with a column for each currency. Fields that a spreadsheet
// would take for a formula are quoted as text.
func usageCSV(s *call.Session, u client.Usage) error {
	head := []string{u.By, "name", "from", "to", "replicas", "running", "device_hours", "core_hours", "memory_gib_hours", "kwh", "co2_grams", "energy_basis"}
	for _, c := range u.Total.Costs { // every currency there is
		head = append(head, "cost_"+c.Currency)
	}
	w := csv.NewWriter(s.Out)
	_ = w.Write(append(head, "crossing_traffic")) // Flush tells
	amount := func(x float64) string { return strconv.FormatFloat(x, 'f', 6, 64) }
	for _, i := range u.Items {
		grams := ""
		if i.Grams != nil {
			grams = amount(*i.Grams)
		}
		line := []string{
			noFormula(i.Key), noFormula(i.Name), u.From.Format(time.RFC3339Nano), u.To.Format(time.RFC3339Nano), strconv.Itoa(i.Replicas), strconv.Itoa(i.Running),
			amount(i.DeviceHours), amount(i.CoreHours), amount(i.MemoryGBh), amount(i.KWh), grams, i.EnergyBasis,
		}
		for _, c := range u.Total.Costs {
			at := slices.IndexFunc(i.Costs, func(p api.PriceTotal) bool { return p.Currency == c.Currency })
			if at < 0 {
				line = append(line, "")
				continue
			}
			line = append(line, amount(i.Costs[at].Total))
		}
		_ = w.Write(append(line, u.Crossing))
	}
	w.Flush()
	return w.Error()
}

func noFormula(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}
