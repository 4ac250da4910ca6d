package image

import (
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// own stands for the command that an image brings, until who lays the image out knows it; arguments follow.
var own = []string{"fermi", "image-command"}

// Argv is what replicas of a role run in an image: its command and arguments, or without a command what the image starts by itself. In the
// node's own system, image "", there is no such thing.
func Argv(r *api.Role, image string) []string {
	if len(r.Command) == 0 && image != "" {
		return slices.Concat(own, r.Args)
	}
	return slices.Concat(r.Command, r.Args)
}

// OwnArgs says whether a command stands for the image's own, and which arguments go in the place of the image's.
func OwnArgs(command []string) (args []string, is bool) {
	if len(command) < len(own) || !slices.Equal(command[:len(own)], own) {
		return nil, false
	}
	return command[len(own):], true
}
