// Command fermi is the whole platform: control plane, launcher and client in one binary.
package main

import (
	"context"
	"os"

	"github.com/fermi-cluster/fermi/internal/app"
	"github.com/fermi-cluster/fermi/internal/app/agent"
	"github.com/fermi-cluster/fermi/internal/app/gate"
	"github.com/fermi-cluster/fermi/internal/app/kinds"
	"github.com/fermi-cluster/fermi/internal/app/mirror"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/cli/array"
	"github.com/fermi-cluster/fermi/internal/cli/asset"
	"github.com/fermi-cluster/fermi/internal/cli/booking"
	"github.com/fermi-cluster/fermi/internal/cli/env"
	"github.com/fermi-cluster/fermi/internal/cli/image"
	"github.com/fermi-cluster/fermi/internal/cli/migrant"
	"github.com/fermi-cluster/fermi/internal/cli/service"
	"github.com/fermi-cluster/fermi/internal/cli/tool"
	"github.com/fermi-cluster/fermi/internal/engine/inventory"
)

// Set by the linker.
var version, commit, date = "dev", "", ""

func main() {
	kinds.Ship()
	kinds.ShipServices()
	kinds.ShipAssets()
	kinds.ShipImages()
	kinds.ShipArrays()
	kinds.ShipBookings()
	if inner := app.Inner(os.Args[1:], version); inner != nil {
		os.Exit(cli.Execute(context.Background(), inner))
	}
	root := cli.Root(cli.BuildInfo{Version: version, Commit: commit, Date: date, NoCards: !inventory.SeesNVIDIA})
	app.Join(root, version)
	root.AddCommand(gate.Command(version), agent.Command(version), mirror.Command())
	env.Add(root)
	service.Add(root)
	migrant.Add(root)
	asset.Add(root)
	image.Add(root)
	tool.Add(root)
	array.Add(root)
	booking.Add(root)
	os.Exit(cli.Execute(context.Background(), root))
}
