package cluster

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
	"github.com/fermi-cluster/fermi/internal/fault"
)

var topColumns = []show.Column{
	{Head: fault.T("TYPE", "卡型"), Fixed: true}, {Head: fault.T("TOTAL", "总数"), Right: true, Fixed: true},
	{Head: fault.T("USED", "已用"), Right: true, Fixed: true}, {Head: fault.T("FREE", "空闲"), Right: true, Fixed: true},
	{Head: fault.T("CORDONED", "隔离"), Right: true, Fixed: true}, {Head: fault.T("STRANDED", "碎片"), Right: true, Fixed: true},
	{Head: fault.T("GANG 8", "8 卡"), Fixed: true}, {Head: fault.T("32", "32 卡"), Fixed: true}, {Head: fault.T("64", "64 卡"), Fixed: true},
	{Head: fault.T("LARGEST", "最大"), Right: true, Fixed: true},
}

func TopCommand(a *call.Shell) *cobra.Command {
	return &cobra.Command{
		Use: "top", Short: speech.Both("What is used and free of each device type, and which gangs would start now", "查看各卡型用量与可立即启动的最大任务"), Args: usage.Need(0, 0, ""),
		RunE: a.Online(func(ctx context.Context, s *call.Session, _ []string) error {
			items, err := s.Client.Capacity(ctx)
			if err != nil {
				return err
			}
			if s.Structured() {
				return s.Data(map[string]any{"items": items})
			}
			if len(items) == 0 {
				s.Say("No node has an accelerator.", "没有节点带加速卡。")
				return nil
			}
			return show.Write(s.Out, topColumns, topRows(s, items), s.Lang, show.ScreenOf(s.Out))
		}),
	}
}

func topRows(s *call.Session, items []client.Capacity) [][]show.Cell {
	number := func(x float64) show.Cell { return show.Text(strconv.FormatFloat(x, 'f', -1, 64)) }
	starts := func(c client.Capacity, size int) show.Cell {
		if c.Largest >= size {
			return show.Cell{Text: s.T("starts", "可启动"), Tone: show.Good}
		}
		return show.Cell{Text: s.T("waits", "需等待"), Tone: show.Busy}
	}
	rows := make([][]show.Cell, len(items))
	for i, c := range items {
		rows[i] = []show.Cell{
			show.Text(c.Type), number(c.Total), number(c.Used), number(c.Free), number(c.Cordoned), number(c.Stranded),
			starts(c, 8), starts(c, 32), starts(c, 64), show.Text(strconv.Itoa(c.Largest)),
		}
	}
	return rows
}
