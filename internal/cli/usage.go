package cli

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
)

var usageColumns = []column{
	fixed("NAME", "名称"), number("REPLICAS", "副本"), number("RUNNING", "运行中"), number("DEVICE-HOURS", "卡时"), number("CORE-HOURS", "核时"),
	number("COST", "费用"), number("kWh", "kWh"), number("CO₂", "碳排"),
}

func (a *app) usageCommand() *cobra.Command {
	var o client.UsageOptions
	cmd := &cobra.Command{
		Use: "usage", Short: Both("Who used how much, what it cost and what it burned", "查看用量、费用与能耗"), Args: needArgs(0, 0, ""),
		Example: "  fermi usage --by user --since 168h\n  fermi usage --by task --since 2026-11-01T00:00:00+08:00 -o csv",
	}
	cmd.Flags().StringVar(&o.By, "by", "project", Both("project, user, task, zone or device (its type)", "按 project、user、task、zone 或 device（卡型）汇总"))
	cmd.Flags().StringVar(&o.From, "since", "", Both("RFC 3339, or how long ago (168h); 30 days ago when absent", "起始时间：RFC 3339 或多久以前（168h）；默认 30 天前"))
	cmd.Flags().StringVar(&o.To, "until", "", Both("RFC 3339, or how long ago; now when absent", "结束时间：RFC 3339 或多久以前；默认现在"))
	cmd.Flags().IntVar(&o.Limit, "limit", 100, Both("at most this many, dearest first", "最多条数，费用高者在前"))
	cmd.Annotations = map[string]string{alsoOutput: "csv"}
	cmd.RunE = a.online(func(ctx context.Context, s *session, _ []string) error {
		o.Project = s.project(api.KindTrainingTask)
		u, err := s.client.Usage(ctx, o)
		if err != nil {
			return err
		}
		if s.flags.output == "csv" {
			return s.usageCSV(u)
		}
		if s.structured() {
			return s.data(u)
		}
		if len(u.Items) == 0 {
			s.say("Nothing ran in that time.", "该时段内没有运行记录。")
			return nil
		}
		rows := u.Items
		if len(rows) > 1 {
			u.Total.Name = s.t("total", "合计")
			rows = append(rows, u.Total)
		}
		if err := writeTable(s.out, usageColumns, usageRows(rows), s.lang, screenOf(s.out)); err != nil {
			return err
		}
		putLine(s.out, s.t("≈ estimated from tables of device power; traffic between zones: not measured", "≈ 按卡型功耗表估算；跨区流量：未计量"))
		return nil
	})
	return cmd
}

func usageRows(items []client.UsageSum) [][]cell {
	amount := func(x float64) string { return strconv.FormatFloat(x, 'f', 3, 64) }
	rows := make([][]cell, len(items))
	for i, u := range items {
		var costs []string
		for _, c := range u.Costs {
			costs = append(costs, money(c.Total, c.Currency))
		}
		mark := ""
		if u.EnergyBasis == "estimated" {
			mark = "≈"
		}
		carbon := "-"
		if u.Grams != nil {
			carbon = mark + amount(*u.Grams/1000) + " kg"
		}
		rows[i] = []cell{
			text(first(u.Name, u.Key, "-")), text(strconv.Itoa(u.Replicas)), text(strconv.Itoa(u.Running)), text(amount(u.DeviceHours)),
			text(amount(u.CoreHours)), text(strings.Join(costs, " + ")), text(mark + amount(u.KWh)), text(carbon),
		}
	}
	return rows
}

// usageCSV writes a line for each key, with a column for each currency. Fields that a spreadsheet
// would take for a formula are quoted as text.
func (s *session) usageCSV(u client.Usage) error {
	head := []string{u.By, "name", "from", "to", "replicas", "running", "device_hours", "core_hours", "memory_gib_hours", "kwh", "co2_grams", "energy_basis"}
	for _, c := range u.Total.Costs { // every currency there is
		head = append(head, "cost_"+c.Currency)
	}
	w := csv.NewWriter(s.out)
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
