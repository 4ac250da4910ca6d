package cluster

import (
	"context"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/farewell"
	"github.com/fermi-cluster/fermi/internal/cli/object"
	"github.com/fermi-cluster/fermi/internal/cli/roundtrip"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func ZoneCommand(a *call.Shell) *cobra.Command {
	apart := roundtrip.Commands(roundtrip.Shell{Both: speech.Both, Need: usage.Need, Online: func(run func(context.Context, *roundtrip.Session, []string) error) func(*cobra.Command, []string) error {
		return a.Online(func(ctx context.Context, s *call.Session, args []string) error {
			given := &roundtrip.Session{Client: s.Client, Lang: s.Lang, Ago: s.Ago, Describe: func(ctx context.Context, o api.Object) error { return object.Describe(ctx, s, o) }, Line: func(line string) { show.Line(s.Out, line) }}
			if s.Structured() {
				given.Data = s.Data
			}
			given.Table = func(heads []fault.Text, rows [][]string) error {
				columns, table := make([]show.Column, len(heads)), make([][]show.Cell, len(rows))
				for i, h := range heads {
					columns[i] = show.Column{Head: h, Fixed: i < len(heads)-1, Right: i > 1 && i < len(heads)-1}
				}
				for i, row := range rows {
					for _, one := range row {
						table[i] = append(table[i], show.Text(one))
					}
				}
				return show.Write(s.Out, columns, table, s.Lang, show.ScreenOf(s.Out))
			}
			return run(ctx, given, args)
		})
	}})
	return usage.Group("zone", speech.Both("Availability zones", "可用区"), append(apart,
		object.ListCommand(a, api.KindZone, "list", speech.Both("List zones", "列出可用区")), farewell.Outage(farewells(a)), farewell.Recover(farewells(a)))...)
}
