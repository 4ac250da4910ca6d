package cli

import (
	"io"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/logs"
	"github.com/fermi-cluster/fermi/internal/cli/ship"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/clock"
)

// BuildInfo is what the linker knows about the binary.
type BuildInfo = call.BuildInfo

// Both is a help text in the two languages, for Short, Long, Example and flags of commands under Root.
func Both(en, zh string) string { return speech.Both(en, zh) }

// Language is the one to answer in: --lang, FERMI_LANG, LC_ALL, LC_MESSAGES, LANG; "zh" or "en".
func Language(cmd *cobra.Command) string { return speech.Language(cmd) }

// Table prints rows under their heads in columns, for what is shown beside the API.
func Table(w io.Writer, heads []string, rows [][]string) error { return show.Table(w, heads, rows) }

// Logs is the command that shows what work of a kind wrote, for kinds whose commands live outside this package.
func Logs(kind api.Kind, short, example string) *cobra.Command { return logs.Of(kind, short, example) }

// Dial is for commands that live outside this package: the same server and token as every verb.
func Dial(cmd *cobra.Command) (*client.Client, error) { return call.Outside(cmd).Dial() }

// Project is the one that such a command means; "" leaves it to the server.
func Project(cmd *cobra.Command) string { return call.Outside(cmd).Project(api.KindTrainingTask) }

// Data writes a value for a program, as -o json or -o yaml say, for such a command.
func Data(cmd *cobra.Command, v any) error { return call.Outside(cmd).Data(v) }

// Ship packs a folder and sends it, unless the server has it, for such a command, and gives its digest.
func Ship(cmd *cobra.Command, c *client.Client, dir string) (string, error) {
	s := call.Outside(cmd)
	s.Client, s.Clock = c, clock.Real
	p, err := ship.Ship(cmd.Context(), s, dir)
	return p.Digest, err
}
