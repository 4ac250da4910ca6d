package roundtrip

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/roundtrip"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
	"github.com/fermi-cluster/fermi/internal/fault"
)

var columns = []show.Column{
	show.Fixed("FROM", "从"), show.Fixed("TO", "到"), show.Number("DECLARED", "标称"), show.Number("MEASURED", "实测"), show.Number("USED", "采用"), show.Number("EFFICIENCY", "估算效率"), show.Col("MEASURED BETWEEN, WHEN", "测量节点与时间"),
}

// Commands are `fermi zone matrix` and `fermi zone show`; describe prints everything about an object.
func Commands(a *call.Shell, describe func(context.Context, *call.Session, api.Object) error) []*cobra.Command {
	matrix := &cobra.Command{
		Use: "matrix [ZONE]", Short: speech.Both("Show how far zones are from each other: declared, measured, and what is used", "查看可用区之间的往返延迟：标称、实测及采用的数值"),
		Args: usage.Need(0, 1, "[ZONE]"), Example: "  fermi zone matrix\n  fermi zone matrix beijing-1",
		RunE: a.Online(func(ctx context.Context, s *call.Session, args []string) error {
			zone := ""
			if len(args) > 0 { // it may be called by its display name
				o, err := s.Client.Get(ctx, api.KindZone, "", args[0])
				if err != nil {
					return err
				}
				zone = o.GetMeta().Name
			}
			m, err := client.ZoneMatrix(ctx, s.Client)
			if err != nil {
				return err
			}
			m.Items = of(m.Items, zone)
			if s.Structured() {
				return s.Data(m)
			}
			return table(s, m.Items)
		}),
	}
	one := &cobra.Command{
		Use: "show ZONE", Short: speech.Both("Show a zone, and how far it is from the others", "查看可用区及其到其他可用区的往返延迟"), Args: usage.Need(1, 1, "ZONE"),
		RunE: a.Online(func(ctx context.Context, s *call.Session, args []string) error {
			o, err := s.Client.Get(ctx, api.KindZone, "", args[0])
			if err != nil {
				return err
			}
			if s.Structured() {
				return s.Data(o)
			}
			m, err := client.ZoneMatrix(ctx, s.Client)
			if err != nil {
				return err
			}
			if err := describe(ctx, s, o); err != nil {
				return err
			}
			show.Line(s.Out, "")
			return table(s, of(m.Items, o.GetMeta().Name))
		}),
	}
	return []*cobra.Command{matrix, one}
}

// of are the pairs that a zone is one of, seen from it; all if it is "".
func of(items []roundtrip.ZoneDistance, zone string) []roundtrip.ZoneDistance {
	if zone == "" {
		return items
	}
	out := []roundtrip.ZoneDistance{}
	for _, d := range items {
		switch zone {
		case d.To:
			d.From, d.To = d.To, d.From
			if d.Measured != nil {
				back := *d.Measured
				back.FromNode, back.ToNode = back.ToNode, back.FromNode
				d.Measured = &back
			}
			fallthrough
		case d.From:
			out = append(out, d)
		}
	}
	return out
}

func table(s *call.Session, items []roundtrip.ZoneDistance) error {
	if len(items) == 0 {
		show.Line(s.Out, fault.T("There are no two zones.", "没有两个可用区。").In(s.Lang))
		return nil
	}
	rows := make([][]show.Cell, len(items))
	for i, d := range items {
		declared, measured := "-", "-"
		if d.DeclaredMs != nil {
			declared = Millis(*d.DeclaredMs)
		}
		if d.Measured != nil {
			measured = Millis(d.Measured.P50Ms)
		}
		rows[i] = []show.Cell{
			show.Text(d.From), show.Text(d.To), show.Text(declared), show.Text(measured), show.Text(Millis(d.UsedMs) + " " + Source(d.Source).In(s.Lang)),
			show.Text(strconv.FormatFloat(d.Efficiency, 'f', 0, 64) + "%"), show.Text(Note(d, s.Ago).In(s.Lang)),
		}
	}
	return show.Write(s.Out, columns, rows, s.Lang, show.ScreenOf(s.Out))
}

// Millis shows milliseconds, no finer than a hundredth.
func Millis(ms float64) string {
	text := strconv.FormatFloat(ms, 'f', 2, 64)
	for len(text) > 0 && text[len(text)-1] == '0' {
		text = text[:len(text)-1]
	}
	if text[len(text)-1] == '.' {
		text = text[:len(text)-1]
	}
	return text + "ms"
}

// Console is the declared round trip from a zone to the console.
func Console(z *api.Zone) string {
	if z.Spec.ConsoleLatencyMs == 0 {
		return "-"
	}
	return strconv.FormatFloat(z.Spec.ConsoleLatencyMs, 'f', -1, 64) + "ms"
}

// Source says where a figure comes from.
func Source(source string) fault.Text {
	switch source {
	case "measured":
		return fault.T("measured", "实测")
	case "declared":
		return fault.T("declared", "标称")
	}
	return fault.T("assumed", "推测")
}

// Note says between whom and when it was measured, or why it was not; and that the way is encrypted.
func Note(d roundtrip.ZoneDistance, ago func(time.Time) string) fault.Text {
	text := measuredWhen(d, ago)
	if d.Encrypted {
		text = join(text, fault.T("; encrypted", "；已加密"))
	}
	return text
}

func measuredWhen(d roundtrip.ZoneDistance, ago func(time.Time) string) fault.Text {
	m := d.Measured
	switch {
	case m == nil && d.OneMachine:
		return fault.T("both are on one machine: not measured", "两者的节点在同一台机器上：未测量")
	case m == nil:
		return fault.T("not measured yet: the next task over both zones does it", "尚未测量：下一个跨这两个可用区的任务会测量")
	}
	when := ago(m.At)
	who := fault.T("reported by an operator", "由运维人员上报")
	if m.FromNode != "" {
		who = fault.T("%s – %s", "%s – %s", m.FromNode, m.ToNode)
	}
	old := fault.Text{}
	if m.Stale {
		old = fault.T(", too old to be used", "，已过期，不再采用")
		if d.DeclaredMs == nil {
			old = fault.T(", old", "，较旧")
		}
	}
	return fault.Text{EN: who.EN + ", " + when + old.EN, ZH: who.ZH + "，" + when + old.ZH}
}

// Preflight sums up the checks before the start. Size shows bytes.
func Preflight(pf *api.PreflightStatus, size func(int64) string) fault.Text {
	devices := map[string]fault.Text{
		api.DevicesComputed: fault.T("; a test computation was right", "；试算结果正确"),
		api.DevicesTested:   fault.T("; devices tested", "；加速卡已检查"), api.DevicesVirtual: fault.T("; virtual devices have nothing to test", "；虚拟加速卡无可检查"),
		api.DevicesUntested: fault.T("; devices untested: no driver to ask", "；加速卡未检查：没有可查询的驱动"),
	}[pf.Devices]
	line := fault.T("%d [pair connects|pairs connect]", "%d 对连接正常", pf.Pairs)
	if pf.LatencyMs > 0 {
		line = join(line, fault.T(", round trip up to %.2f ms", "，往返最长 %.2f 毫秒", pf.LatencyMs))
	}
	if pf.Rate > 0 {
		line = join(line, fault.T(", at least %s/s", "，速率至少 %s/秒", size(int64(pf.Rate))))
	}
	switch {
	case pf.OneMachine == pf.Pairs && pf.Pairs > 0:
		line = join(line, fault.T(", the nodes are on one machine: no round trip was measured", "，节点在同一台机器上：未测量往返延迟"))
	case pf.OneMachine > 0:
		line = join(line, fault.T(", %d of them on one machine and not measured", "，其中 %d 对在同一台机器上，未测量", pf.OneMachine))
	}
	line = join(line, fault.T(", %d [finding|findings] in %s", "，发现 %d 项问题，耗时 %s", len(pf.Findings), pf.FinishedAt.Sub(pf.StartedAt).Round(time.Millisecond)))
	return join(line, devices)
}

func join(a, b fault.Text) fault.Text { return fault.Text{EN: a.EN + b.EN, ZH: a.ZH + b.ZH} }

// Crossing says what it costs a task to run in two zones: measured beside declared. Declared asks what is known of both now.
func Crossing(c roundtrip.Crossing, known *roundtrip.ZoneDistance) fault.Text {
	line := fault.T("%s – %s: not measured", "%s – %s：未测量", c.From, c.To)
	switch {
	case c.OneMachine:
		line = fault.T("%s – %s: both are on one machine: not measured", "%s – %s：两者的节点在同一台机器上：未测量", c.From, c.To)
	case c.Pairs > 0:
		line = fault.T("%s – %s: %s measured between %s and %s, up to %s", "%s – %s：实测 %s（%s 与 %s 之间），最长 %s", c.From, c.To, Millis(c.LatencyMs), c.FromNode, c.ToNode, Millis(c.SlowestMs))
	}
	if known == nil {
		return line
	}
	if known.DeclaredMs != nil {
		line = join(line, fault.T("; declared %s", "；标称 %s", Millis(*known.DeclaredMs)))
	}
	return join(join(line, fault.T("; estimated efficiency %.0f %%: ", "；估算效率 %.0f %%：", known.Efficiency)), known.Action)
}

// Describe adds what a task's crossings are to a sheet. Ask reads the matrix where there is one to show.
func Describe(ctx context.Context, c *client.Client, pf *api.PreflightStatus, lang string, add func(en, zh, value string)) {
	if len(pf.Crossings) == 0 {
		return
	}
	m, _ := client.ZoneMatrix(ctx, c) // what was measured is known without it
	for _, crossing := range pf.Crossings {
		var known *roundtrip.ZoneDistance
		for i := range m.Items {
			if d := &m.Items[i]; d.From == crossing.From && d.To == crossing.To {
				known = d
			}
		}
		add("Crosses zones", "跨可用区", Crossing(crossing, known).In(lang))
	}
}
