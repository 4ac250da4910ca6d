package launch

import (
	"math"
	"slices"
	"testing"

	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/internal/launch/editor"
)

// TestPages: what an environment wishes is what its launcher starts and looks at.
func TestPages(t *testing.T) {
	e := &devenv.DevEnvironment{Spec: devenv.Spec{Type: devenv.Notebook, Ways: devenv.Ways{VSCode: true}}}
	command := e.Workload().Roles[0].Command
	own, is := devenv.WithoutVSCode(command)
	if p := pagesOf(command); !p.editor || !p.notebook || !is || !slices.Equal(own, notebookCommand) || command[1] != editor.Word || editor.Port != devenv.VSCodePort {
		t.Errorf("%v: %+v", command, p)
	}
	if p := pagesOf(command); p.least(devenv.NotebookPort) != math.MaxInt || p.least(devenv.VSCodePort) < 100 || p.least(6006) != 0 {
		t.Errorf("signs of work: %d, %d, %d", p.least(devenv.NotebookPort), p.least(devenv.VSCodePort), p.least(6006))
	}
	if p := pagesOf([]string{"python3"}); p != (pages{}) || p.least(devenv.NotebookPort) != 0 {
		t.Errorf("a plain command: %+v", p)
	}
}
