package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
)

var outageColumns = []column{
	fixed("TASK", "任务"), number("REPLICAS", "副本"), number("LOST", "丢失"), col("GOES TO, OR WHY IT WAITS", "去向或等待原因"),
}

func (a *app) outageCommand() *cobra.Command {
	f := new(farewell)
	cmd := &cobra.Command{
		Use: "outage ZONE", Short: Both("Take a zone out: it takes no work, and what stands there leaves; first show where each task would go", "将可用区标记为中断：不再接收任务，其上的任务迁出；先预览各任务的去向"),
		Args: needArgs(1, 1, "ZONE"), Example: "  fermi zone outage beijing-1 --preview\n  fermi zone outage beijing-1 --yes\n  fermi zone recover beijing-1",
		RunE: a.online(func(ctx context.Context, s *session, args []string) error {
			out, err := s.client.Outage(ctx, args[0])
			if err != nil {
				return err
			}
			if s.structured() && !f.yes {
				return s.data(out)
			}
			putLine(s.out, s.t("Without %s %d [task|tasks] would start elsewhere and %d would wait.", "失去 %s 后，%d 个任务可在别处启动，%d 个需等待。", clean(out.Zone), out.Move, out.Wait))
			if err := writeTable(s.out, outageColumns, s.outageRows(out.Items), s.lang, screenOf(s.out)); err != nil {
				return err
			}
			if out.More > 0 {
				putLine(s.out, s.t("and %d more that were not looked at", "另有 %d 个未逐一分析", out.More))
			}
			return f.takeOut(ctx, s, args[0], len(out.Items)+out.More)
		}),
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.preview, "preview", false, Both("only show what would become of the tasks there", "仅预览其上任务的去向"))
	return cmd
}

func (s *session) outageRows(items []api.OutageTask) [][]cell {
	rows := make([][]cell, len(items))
	for i, t := range items {
		where := cell{t.Message.In(s.lang) + " [" + t.Reason + "]", busy}
		if len(t.To) > 0 {
			var zones []string
			for _, z := range slices.Sorted(maps.Keys(t.To)) {
				zones = append(zones, fmt.Sprintf("%s × %d", z, t.To[z]))
			}
			where = cell{strings.Join(zones, ", "), good}
		}
		rows[i] = []cell{text(t.Project + "/" + t.Name), text(strconv.Itoa(t.Replicas)), text(strconv.Itoa(t.Lost)), where}
	}
	return rows
}
