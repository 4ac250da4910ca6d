// Command fermi is the whole platform: control plane, launcher and client in one binary.
package main

import (
	"context"
	"os"

	"github.com/fermi-cluster/fermi/internal/app"
	"github.com/fermi-cluster/fermi/internal/app/gate"
	"github.com/fermi-cluster/fermi/internal/app/kinds"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/cli/env"
	"github.com/fermi-cluster/fermi/internal/cli/service"
)

// Set by the linker.
var version, commit, date = "dev", "", ""

func main() {
	kinds.Ship()
	kinds.ShipServices()
	root := cli.Root(cli.BuildInfo{Version: version, Commit: commit, Date: date})
	app.Join(root, version)
	root.AddCommand(gate.Command(version))
	env.Add(root)
	service.Add(root)
	os.Exit(cli.Execute(context.Background(), root))
}
