package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/show"
)

var outageColumns = []show.Column{
	show.Fixed("TASK", "任务"), show.Number("REPLICAS", "副本"), show.Number("LOST", "丢失"), show.Col("GOES TO, OR WHY IT WAITS", "去向或等待原因"),
}

// leaving prints what becomes of tasks that leave a node, or a zone.
func leaving(s *call.Session, tasks []api.OutageTask, zone bool) error {
	columns := drainColumns
	if zone {
		columns = outageColumns
	}
	return show.Write(s.Out, columns, outageRows(s, tasks), s.Lang, show.ScreenOf(s.Out))
}

func outageRows(s *call.Session, items []api.OutageTask) [][]show.Cell {
	rows := make([][]show.Cell, len(items))
	for i, t := range items {
		where := show.Cell{Text: t.Message.In(s.Lang) + " [" + t.Reason + "]", Tone: show.Busy}
		if len(t.To) > 0 {
			var zones []string
			for _, z := range slices.Sorted(maps.Keys(t.To)) {
				zones = append(zones, fmt.Sprintf("%s × %d", z, t.To[z]))
			}
			where = show.Cell{Text: strings.Join(zones, ", "), Tone: show.Good}
		}
		rows[i] = []show.Cell{show.Text(t.Project + "/" + t.Name), show.Text(strconv.Itoa(t.Replicas)), show.Text(strconv.Itoa(t.Lost)), where}
	}
	return rows
}
