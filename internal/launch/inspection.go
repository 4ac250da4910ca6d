package launch

import (
	"github.com/fermi-cluster/fermi/internal/launch/inspect"
	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/preflight"
)

// facts are the launcher's, where they are wanted.
func (l *launcher) facts() *preflight.Facts {
	if !l.replica.Preflight {
		return nil
	}
	f := inspect.FactsOf(l.steward, l.replica.Command, environ(l.replica, l.dir, nil, credentials{}, l.base(), l.place), l.dir)
	if l.image != nil {
		f.Versions["image"] = l.image.Digest[:min(len(l.image.Digest), 39)]
	}
	return f
}

// interpret runs the interpreter of the ranks with other arguments, where they would run.
func (l *launcher) interpret(out uintptr, args ...string) (*process.Set, error) {
	r := l.replica
	r.Recipe, r.SecretFiles, r.Credentials = nil, nil, nil
	env := environ(r, l.dir, nil, credentials{}, l.base(), l.place)
	dir, err := l.workDir(r)
	if err != nil {
		return nil, err
	}
	r.Command = append([]string{inspect.PythonOf(l.steward, r.Command, env, dir)}, args...)
	return inspect.BeginTrial(r, env, out, l.starter())
}
