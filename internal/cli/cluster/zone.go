package cluster

import (
	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/farewell"
	"github.com/fermi-cluster/fermi/internal/cli/object"
	"github.com/fermi-cluster/fermi/internal/cli/roundtrip"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
)

func ZoneCommand(a *call.Shell) *cobra.Command {
	return usage.Group("zone", speech.Both("Availability zones", "可用区"), append(roundtrip.Commands(a, object.Describe),
		object.ListCommand(a, api.KindZone, "list", speech.Both("List zones", "列出可用区")), wayCommand(a), farewell.Outage(a, leaving), farewell.Recover(a))...)
}
