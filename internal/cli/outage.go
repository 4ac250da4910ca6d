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
	return &cobra.Command{
		Use: "outage ZONE", Short: Both("Show where each task of a zone would go if the zone were lost; nothing changes", "预览可用区丢失后各任务的去向；不做任何更改"),
		Args: needArgs(1, 1, "ZONE"), Example: "  fermi zone outage beijing-1",
		RunE: a.online(func(ctx context.Context, s *session, args []string) error {
			out, err := s.client.Outage(ctx, args[0])
			if err != nil {
				return err
			}
			if s.structured() {
				return s.data(out)
			}
			putLine(s.out, s.t("Without %s %d [task|tasks] would start elsewhere and %d would wait.", "失去 %s 后，%d 个任务可在别处启动，%d 个需等待。", clean(out.Zone), out.Move, out.Wait))
			if len(out.Items) == 0 {
				return nil
			}
			if err := writeTable(s.out, outageColumns, s.outageRows(out.Items), s.lang, screenOf(s.out)); err != nil {
				return err
			}
			if out.More > 0 {
				putLine(s.out, s.t("and %d more that were not looked at", "另有 %d 个未逐一分析", out.More))
			}
			return nil
		}),
	}
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
