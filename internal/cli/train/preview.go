package train

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/roundtrip"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// preview shows where a task would stand and what that means. A server that has no planner at hand
// is no failure of the check that went before.
func preview(ctx context.Context, s *call.Session, task *api.TrainingTask) error {
	p, err := s.Client.Preview(ctx, task)
	if fault.Is(err, fault.Unavailable) {
		e := fault.From(err)
		s.Say("No preview: %s", "无法预览：%s", strings.TrimSpace(e.Message.In(s.Lang)+" "+e.Hint.In(s.Lang)))
		return nil
	} else if err != nil {
		return err
	}
	switch {
	case p.Fits:
		show.Line(s.Out, s.T("It would start now.", "将立即启动。"))
	default:
		show.Line(s.Out, show.Clean(s.T("It would wait: ", "将会等待：")+p.Message.In(s.Lang)+" ["+p.Reason+"]"))
	}
	if n := task.Spec.Spares(); n > 0 {
		show.Line(s.Out, s.T("%d of its replicas are spares: placed and charged like the others, they hold no rank until one is lost.", "其中 %d 个为备用副本：与其他副本一样占用位置并计费，在有副本丢失前不承担 rank。", n))
	}
	list := p.Alternatives
	if p.Planned != nil {
		list = append([]api.PlacementOption{*p.Planned}, list...)
	}
	if len(list) == 0 {
		return nil
	}
	if err := options(s, list); err != nil {
		return err
	}
	if p.Planned != nil {
		priceLines(s, p.Planned)
	}
	for _, a := range list {
		if line := strings.Trim(a.Change.In(s.Lang)+"; "+a.Text.In(s.Lang), "; "); line != "" || a.Name != "planned" {
			show.Line(s.Out, show.Clean(optionWord(a.Name).In(s.Lang)+": "+line))
		}
	}
	for _, w := range p.Windows {
		windowLine(s, w)
	}
	return nil
}

var optionColumns = []show.Column{
	show.Fixed("OPTION", "方案"), show.Col("ZONES", "可用区"), show.Number("NODES", "节点"), show.Number("LATENCY", "延迟"), show.Number("EFFICIENCY", "效率"),
	show.Number("PRICE/H", "每小时价格"), show.Number("CO₂/H", "每小时碳排"), show.Number("RACK LOSS", "单机架损失"),
}

func options(s *call.Session, list []api.PlacementOption) error {
	rows := make([][]show.Cell, len(list))
	for i, o := range list {
		var zones, prices []string
		for _, z := range o.Zones {
			zones = append(zones, z.Zone)
		}
		for _, p := range o.Prices {
			prices = append(prices, show.Money(p.Total, p.Currency))
		}
		carbon := "-"
		if o.Energy.GramsPerHour != nil {
			carbon = fmt.Sprintf("≈%.1f kg", *o.Energy.GramsPerHour/1000)
		}
		latency := "-"
		if o.Latency.Source != "" {
			latency = strconv.FormatFloat(o.Latency.P50Ms, 'f', -1, 64) + "ms " + roundtrip.Source(o.Latency.Source).In(s.Lang)
		}
		rows[i] = []show.Cell{
			show.Text(optionWord(o.Name).In(s.Lang)), show.Text(strings.Join(zones, ",")), show.Text(strconv.Itoa(o.NodeCount)), show.Text(latency),
			show.Text(efficiency(o.Efficiency)), show.Text(strings.Join(prices, " + ")), show.Text(carbon), show.Text(fmt.Sprintf("%d%%", o.RackLoss.Percent)),
		}
	}
	return show.Write(s.Out, optionColumns, rows, s.Lang, show.ScreenOf(s.Out))
}

// priceLines takes the planned price apart.
func priceLines(s *call.Session, o *api.PlacementOption) {
	for _, p := range o.Prices {
		line := s.T("devices %s + CPU %s + memory %s = %s an hour", "加速卡 %s + CPU %s + 内存 %s = 每小时 %s",
			show.Money(p.Devices, p.Currency), show.Money(p.CPU, p.Currency), show.Money(p.Memory, p.Currency), show.Money(p.Total, p.Currency))
		if p.CrossingGB > 0 {
			line += s.T("; traffic between zones apart: %s a GB, how much is not measured", "；跨区流量另计：每 GB %s，用量未计量", show.Money(p.CrossingGB, p.Currency))
		}
		if p.Spot {
			line += s.T(" (spot)", "（竞价）")
		}
		show.Line(s.Out, line)
	}
	if e := o.Efficiency; e.Basis == "measured" {
		show.Line(s.Out, s.T("efficiency: measured from %d [run|runs] of the same recipe", "效率：由 %d 次同类任务实测", e.Runs))
	} else if o.NodeCount > 1 {
		show.Line(s.Out, s.T("efficiency: estimated", "效率：估算"))
	}
	if o.Expected != nil {
		show.Line(s.Out, s.T("the whole run: %s", "全程合计：%s", totals(s, *o.Expected)))
	}
	for _, z := range o.Zones {
		if len(o.Zones) > 1 {
			show.Line(s.Out, show.Clean(s.T("without %s %[2]d of %[3]d [replica is|replicas are] left", "失去 %s 后剩余 %d/%d 个副本", z.Zone, z.LossLeaves, z.LossLeaves+z.Replicas)))
		}
	}
	if o.Moving > 0 {
		show.Line(s.Out, s.T("moving its data there: %s", "搬运数据到该处：%s", o.Moving))
	}
	if o.Latency.Source != "" {
		show.Line(s.Out, show.Clean(o.Latency.From+" – "+o.Latency.To+": "+o.Latency.Action.In(s.Lang)))
	}
}

// efficiency is marked where it is only estimated.
func efficiency(e api.EfficiencyNote) string {
	if e.Basis == "measured" {
		return fmt.Sprintf("%.0f%%", e.Percent)
	}
	return fmt.Sprintf("≈%.0f%%", e.Percent)
}

func totals(s *call.Session, t api.ExpectedTotals) string {
	var parts []string
	for _, p := range t.Prices {
		parts = append(parts, show.Money(p.Total, p.Currency))
	}
	parts = append(parts, fmt.Sprintf("≈%.1f kWh", t.KWh))
	if t.Grams != nil {
		parts = append(parts, fmt.Sprintf("≈%.1f kg CO₂", *t.Grams/1000))
	}
	return strings.Join(parts, ", ")
}

func windowLine(s *call.Session, w api.StartWindow) {
	at := show.Stamp(w.Start)
	if w.For == "carbon" {
		show.Line(s.Out, s.T("cleanest start %s: %s", "最低碳的启动时间 %s：%s", at, totals(s, w.Totals)))
		return
	}
	show.Line(s.Out, s.T("cheapest start %s: %s", "最便宜的启动时间 %s：%s", at, totals(s, w.Totals)))
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
