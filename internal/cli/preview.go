package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/roundtrip"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// preview shows where a task would stand and what that means. A server that has no planner at hand
// is no failure of the check that went before.
func (s *session) preview(ctx context.Context, task *api.TrainingTask) error {
	p, err := s.client.Preview(ctx, task)
	if fault.Is(err, fault.Unavailable) {
		e := fault.From(err)
		s.say("No preview: %s", "无法预览：%s", strings.TrimSpace(e.Message.In(s.lang)+" "+e.Hint.In(s.lang)))
		return nil
	} else if err != nil {
		return err
	}
	switch {
	case p.Fits:
		putLine(s.out, s.t("It would start now.", "将立即启动。"))
	default:
		putLine(s.out, clean(s.t("It would wait: ", "将会等待：")+p.Message.In(s.lang)+" ["+p.Reason+"]"))
	}
	if n := task.Spec.Spares(); n > 0 {
		putLine(s.out, s.t("%d of its replicas are spares: placed and charged like the others, they hold no rank until one is lost.", "其中 %d 个为备用副本：与其他副本一样占用位置并计费，在有副本丢失前不承担 rank。", n))
	}
	list := p.Alternatives
	if p.Planned != nil {
		list = append([]api.PlacementOption{*p.Planned}, list...)
	}
	if len(list) == 0 {
		return nil
	}
	if err := s.options(list); err != nil {
		return err
	}
	if p.Planned != nil {
		s.priceLines(p.Planned)
	}
	for _, a := range list {
		if line := strings.Trim(a.Change.In(s.lang)+"; "+a.Text.In(s.lang), "; "); line != "" || a.Name != "planned" {
			putLine(s.out, clean(optionWord(a.Name).In(s.lang)+": "+line))
		}
	}
	for _, w := range p.Windows {
		s.windowLine(w)
	}
	return nil
}

var optionColumns = []column{
	fixed("OPTION", "方案"), col("ZONES", "可用区"), number("NODES", "节点"), number("LATENCY", "延迟"), number("EFFICIENCY", "效率"),
	number("PRICE/H", "每小时价格"), number("CO₂/H", "每小时碳排"), number("RACK LOSS", "单机架损失"),
}

func (s *session) options(list []api.PlacementOption) error {
	rows := make([][]cell, len(list))
	for i, o := range list {
		var zones, prices []string
		for _, z := range o.Zones {
			zones = append(zones, z.Zone)
		}
		for _, p := range o.Prices {
			prices = append(prices, money(p.Total, p.Currency))
		}
		carbon := "-"
		if o.Energy.GramsPerHour != nil {
			carbon = fmt.Sprintf("≈%.1f kg", *o.Energy.GramsPerHour/1000)
		}
		latency := "-"
		if o.Latency.Source != "" {
			latency = strconv.FormatFloat(o.Latency.P50Ms, 'f', -1, 64) + "ms " + roundtrip.Source(o.Latency.Source).In(s.lang)
		}
		rows[i] = []cell{
			text(optionWord(o.Name).In(s.lang)), text(strings.Join(zones, ",")), text(strconv.Itoa(o.NodeCount)), text(latency),
			text(efficiency(o.Efficiency)), text(strings.Join(prices, " + ")), text(carbon), text(fmt.Sprintf("%d%%", o.RackLoss.Percent)),
		}
	}
	return writeTable(s.out, optionColumns, rows, s.lang, screenOf(s.out))
}

// priceLines takes the planned price apart.
func (s *session) priceLines(o *api.PlacementOption) {
	for _, p := range o.Prices {
		line := s.t("devices %s + CPU %s + memory %s = %s an hour", "加速卡 %s + CPU %s + 内存 %s = 每小时 %s",
			money(p.Devices, p.Currency), money(p.CPU, p.Currency), money(p.Memory, p.Currency), money(p.Total, p.Currency))
		if p.CrossingGB > 0 {
			line += s.t("; traffic between zones apart: %s a GB, how much is not measured", "；跨区流量另计：每 GB %s，用量未计量", money(p.CrossingGB, p.Currency))
		}
		if p.Spot {
			line += s.t(" (spot)", "（竞价）")
		}
		putLine(s.out, line)
	}
	if e := o.Efficiency; e.Basis == "measured" {
		putLine(s.out, s.t("efficiency: measured from %d [run|runs] of the same recipe", "效率：由 %d 次同类任务实测", e.Runs))
	} else if o.NodeCount > 1 {
		putLine(s.out, s.t("efficiency: estimated", "效率：估算"))
	}
	if o.Expected != nil {
		putLine(s.out, s.t("the whole run: %s", "全程合计：%s", s.totals(*o.Expected)))
	}
	for _, z := range o.Zones {
		if len(o.Zones) > 1 {
			putLine(s.out, clean(s.t("without %s %[2]d of %[3]d [replica is|replicas are] left", "失去 %s 后剩余 %d/%d 个副本", z.Zone, z.LossLeaves, z.LossLeaves+z.Replicas)))
		}
	}
	if o.Moving > 0 {
		putLine(s.out, s.t("moving its data there: %s", "搬运数据到该处：%s", o.Moving))
	}
	if o.Latency.Source != "" {
		putLine(s.out, clean(o.Latency.From+" – "+o.Latency.To+": "+o.Latency.Action.In(s.lang)))
	}
}

// efficiency is marked where it is only estimated.
func efficiency(e api.EfficiencyNote) string {
	if e.Basis == "measured" {
		return fmt.Sprintf("%.0f%%", e.Percent)
	}
	return fmt.Sprintf("≈%.0f%%", e.Percent)
}

func (s *session) totals(t api.ExpectedTotals) string {
	var parts []string
	for _, p := range t.Prices {
		parts = append(parts, money(p.Total, p.Currency))
	}
	parts = append(parts, fmt.Sprintf("≈%.1f kWh", t.KWh))
	if t.Grams != nil {
		parts = append(parts, fmt.Sprintf("≈%.1f kg CO₂", *t.Grams/1000))
	}
	return strings.Join(parts, ", ")
}

func (s *session) windowLine(w api.StartWindow) {
	at := stamp(w.Start)
	if w.For == "carbon" {
		putLine(s.out, s.t("cleanest start %s: %s", "最低碳的启动时间 %s：%s", at, s.totals(w.Totals)))
		return
	}
	putLine(s.out, s.t("cheapest start %s: %s", "最便宜的启动时间 %s：%s", at, s.totals(w.Totals)))
}

func optionWord(name string) fault.Text {
	switch name {
	case "current":
		return fault.T("now", "当前")
	case "planned":
		return fault.T("planned", "计划")
	case "cheaper":
		return fault.T("cheaper", "更便宜")
	case "faster":
		return fault.T("faster network", "网络更快")
	case "greener":
		return fault.T("greener", "更低碳")
	case "safer":
		return fault.T("safer", "更安全")
	case "sooner":
		return fault.T("sooner", "更早")
	}
	return fault.Text{EN: name, ZH: name}
}

func money(amount float64, currency string) string {
	if currency == api.DefaultCurrency {
		return fmt.Sprintf("¥%.2f", amount)
	}
	return fmt.Sprintf("%.2f %s", amount, currency)
}
