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
	"github.com/fermi-cluster/fermi/internal/cli/farewell"
)

var outageColumns = []column{
	fixed("TASK", "任务"), number("REPLICAS", "副本"), number("LOST", "丢失"), col("GOES TO, OR WHY IT WAITS", "去向或等待原因"),
}

// farewells is what the commands that give up nodes and zones have of this one.
func (a *app) farewells() farewell.Shell {
	return farewell.Shell{Both: Both, Need: needArgs, Online: func(run farewell.Run) func(*cobra.Command, []string) error {
		return a.online(func(ctx context.Context, s *session, args []string) error {
			call := &farewell.Session{
				Client: s.client, In: s.in, Err: s.err, Lang: s.lang, Clean: clean, Line: func(line string) { putLine(s.out, line) },
				Tasks: func(tasks []api.OutageTask, zone bool) error {
					columns := drainColumns
					if zone {
						columns = outageColumns
					}
					return writeTable(s.out, columns, s.outageRows(tasks), s.lang, screenOf(s.out))
				},
			}
			if s.structured() {
				call.Data = s.data
			}
			return run(ctx, call, args)
		})
	}}
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
