// Command program is fermi with a further kind of work: test code, which nobody ships.
package main

import (
	"context"
	"os"

	"github.com/fermi-cluster/fermi/internal/app"
	"github.com/fermi-cluster/fermi/internal/app/kinds"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/test/workload/probe"
)

func main() {
	kinds.Register(probe.Row)
	root := cli.Root(cli.BuildInfo{Version: "probe"})
	root.AddCommand(app.Commands("probe")...)
	os.Exit(cli.Execute(context.Background(), root))
}
