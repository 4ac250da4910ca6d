package call

import (
	"bufio"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Insist is the flag of commands that may end more than what they name.
type Insist struct{ yes bool }

func (i *Insist) Add(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&i.yes, "yes", "y", false, speech.Both("don't ask: end also what trains inside the task", "不再询问：同时结束在该任务内训练的任务"))
}

// Run does it; where the server says that another task would end too, a person is asked.
func (i *Insist) Run(s *Session, do func(opts ...client.Option) error) error {
	if i.yes {
		return do(client.Force)
	}
	err := do()
	if fault.ReasonOf(err) != "InUse" || !s.asked(err) {
		return err
	}
	return do(client.Force)
}

// asked puts a refusal to who sits at the terminal; false where nobody does, or who says no.
func (s *Session) asked(err error) bool {
	if f, ok := s.In.(*os.File); ok && !term.IsTerminal(int(f.Fd())) {
		return false
	}
	io.WriteString(s.Err, show.Clean(fault.From(err).Message.In(s.Lang))+" "+s.T("End both? [y/N]: ", "是否一并结束？[y/N]："))
	line, _ := bufio.NewReader(io.LimitReader(s.In, 64)).ReadString('\n')
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes" || answer == "是"
}
