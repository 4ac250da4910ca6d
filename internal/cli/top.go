package cli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/fault"
)

var topColumns = []column{
	{head: fault.T("TYPE", "卡型"), fixed: true}, {head: fault.T("TOTAL", "总数"), right: true, fixed: true},
	{head: fault.T("USED", "已用"), right: true, fixed: true}, {head: fault.T("FREE", "空闲"), right: true, fixed: true},
	{head: fault.T("CORDONED", "隔离"), right: true, fixed: true}, {head: fault.T("STRANDED", "碎片"), right: true, fixed: true},
	{head: fault.T("GANG 8", "8 卡"), fixed: true}, {head: fault.T("32", "32 卡"), fixed: true}, {head: fault.T("64", "64 卡"), fixed: true},
	{head: fault.T("LARGEST", "最大"), right: true, fixed: true},
}

func (a *app) topCommand() *cobra.Command {
	return &cobra.Command{
		Use: "top", Short: Both("What is used and free of each device type, and which gangs would start now", "查看各卡型用量与可立即启动的最大任务"), Args: needArgs(0, 0, ""),
		RunE: a.online(func(ctx context.Context, s *session, _ []string) error {
			items, err := s.client.Capacity(ctx)
			if err != nil {
				return err
			}
			if s.structured() {
				return s.data(map[string]any{"items": items})
			}
			if len(items) == 0 {
				s.say("No node has an accelerator.", "没有节点带加速卡。")
				return nil
			}
			return writeTable(s.out, topColumns, s.topRows(items), s.lang, screenOf(s.out))
		}),
	}
}

func (s *session) topRows(items []client.Capacity) [][]cell {
	number := func(x float64) cell { return text(strconv.FormatFloat(x, 'f', -1, 64)) }
	starts := func(c client.Capacity, size int) cell {
		if c.Largest >= size {
			return cell{s.t("starts", "可启动"), good}
		}
		return cell{s.t("waits", "需等待"), busy}
	}
	rows := make([][]cell, len(items))
	for i, c := range items {
		rows[i] = []cell{
			text(c.Type), number(c.Total), number(c.Used), number(c.Free), number(c.Cordoned), number(c.Stranded),
			starts(c, 8), starts(c, 32), starts(c, 64), text(strconv.Itoa(c.Largest)),
		}
	}
	return rows
}
