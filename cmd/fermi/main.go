// Command fermi is the whole platform: control plane, launcher and client in one binary.
package main

import (
	"context"
	"os"

	"github.com/fermi-cluster/fermi/internal/app"
	"github.com/fermi-cluster/fermi/internal/app/kinds"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/cli/env"
)

// Set by the linker.
var version, commit, date = "dev", "", ""

func main() {
	kinds.Ship()
	root := cli.Root(cli.BuildInfo{Version: version, Commit: commit, Date: date})
	app.Join(root, version)
	env.Add(root)
	os.Exit(cli.Execute(context.Background(), root))
}
