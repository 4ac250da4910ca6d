package launch

import (
	"crypto/rand"
	"math"
	"slices"
	"sync"

	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/internal/launch/editor"
	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/launch/setup"
	"github.com/fermi-cluster/fermi/internal/launch/terminal"
)

// notebookCommand is what an environment of type notebook runs.
var notebookCommand = []string{"fermi", "notebook"}

// notebookSecret is what the notebook of this replica asks its callers for: made here, known to the server by asking.
var notebookSecret = sync.OnceValue(rand.Text)

// notebookPort is where it listens.
const notebookPort = devenv.NotebookPort

// pages are the programs with a page of their own that a replica has by itself.
type pages struct{ notebook, editor bool }

func pagesOf(command []string) (p pages) {
	command, p.editor = devenv.WithoutVSCode(command)
	p.notebook = slices.Equal(command, notebookCommand)
	return p
}

// lock gives a notebook its secret, unless the user chose one; and an editor, which asks for none, its word that nobody else is in its network.
func (p pages) lock(s *setup.Stage, apart bool) {
	add := func(name, value string) {
		if process.Lookup(s.Env, name) == "" {
			s.Env, s.Shell = append(slices.Clip(s.Env), name+"="+value), append(slices.Clip(s.Shell), name+"="+value)
		}
	}
	if p.notebook {
		add(terminal.NotebookToken, notebookSecret())
	}
	if p.editor && apart {
		add(editor.Apart, "1")
	}
}

// least is how many bytes a piece that is sent to a port must have to be a sign of work: open pages say small things all the time.
func (p pages) least(port int) int {
	switch {
	case p.notebook && port == notebookPort: // it is asked for its kernels
		return math.MaxInt
	case p.editor && port == devenv.VSCodePort:
		return 512
	}
	return 0
}
