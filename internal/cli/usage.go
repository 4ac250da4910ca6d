package cli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/fault"
)

var usageColumns = []column{
	{head: fault.T("NAME", "名称"), fixed: true}, {head: fault.T("REPLICAS", "副本"), right: true, fixed: true},
	{head: fault.T("RUNNING", "运行中"), right: true, fixed: true}, {head: fault.T("DEVICE-HOURS", "卡时"), right: true, fixed: true},
	{head: fault.T("CORE-HOURS", "核时"), right: true, fixed: true}, {head: fault.T("COST", "费用"), right: true, fixed: true},
}

func (a *app) usageCommand() *cobra.Command {
	var o client.UsageOptions
	cmd := &cobra.Command{
		Use: "usage", Short: Both("Who used how much, and what it cost", "查看用量与费用"), Args: needArgs(0, 0, ""),
		Example: "  fermi usage --by user --from 168h",
	}
	cmd.Flags().StringVar(&o.By, "by", "project", Both("project, user, task, zone or type (of the devices)", "按 project、user、task、zone 或 type（卡型）汇总"))
	cmd.Flags().StringVar(&o.From, "from", "", Both("RFC 3339, or how long ago (168h); 30 days ago when absent", "起始时间：RFC 3339 或多久以前（168h）；默认 30 天前"))
	cmd.Flags().StringVar(&o.To, "to", "", Both("RFC 3339, or how long ago; now when absent", "结束时间：RFC 3339 或多久以前；默认现在"))
	cmd.Flags().IntVar(&o.Limit, "limit", 100, Both("at most this many, dearest first", "最多条数，费用高者在前"))
	cmd.RunE = a.online(func(ctx context.Context, s *session, _ []string) error {
		o.Project = s.project(api.KindTrainingTask)
		u, err := s.client.Usage(ctx, o)
		if err != nil {
			return err
		}
		if s.structured() {
			return s.data(u)
		}
		if len(u.Items) == 0 {
			s.say("Nothing ran in that time.", "该时段内没有运行记录。")
			return nil
		}
		return writeTable(s.out, usageColumns, usageRows(u.Items), s.lang, screenOf(s.out))
	})
	return cmd
}

func usageRows(items []client.UsageSum) [][]cell {
	number := func(x float64) cell { return text(strconv.FormatFloat(x, 'f', 3, 64)) }
	rows := make([][]cell, len(items))
	for i, u := range items {
		rows[i] = []cell{
			text(first(u.Name, u.Key, "-")), text(strconv.Itoa(u.Replicas)), text(strconv.Itoa(u.Running)),
			number(u.DeviceHours), number(u.CoreHours), text(strconv.FormatFloat(u.Cost, 'f', 4, 64)),
		}
	}
	return rows
}
