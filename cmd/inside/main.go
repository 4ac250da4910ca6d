// Command inside is the first process of a replica, and the process that has become its tenant: what
// the packages inside and deed do in their inits, and nothing else. It is built into fermi.
package main

import (
	"os"

	_ "github.com/fermi-cluster/fermi/internal/launch/deed"
	_ "github.com/fermi-cluster/fermi/internal/launch/inside"
)

func main() {
	_, _ = os.Stderr.WriteString("this program is a part of fermi, and nothing alone\n")
	os.Exit(2)
}
