package setup

import (
	"github.com/fermi-cluster/fermi/internal/launch/inspect"
	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/preflight"
)

// Facts are what the ranks will find here, without running anything; nil where nobody wants to know.
func (e *Enclosure) Facts() *preflight.Facts {
	if !e.Home.Replica.Preflight {
		return nil
	}
	f := inspect.FactsOf(e.Home.Steward, e.Home.Replica.Command, environ(e.Home.Replica, e.Home.Dir, nil, credentials{}, e.base(), e.over.userName(e.Home.Replica.Project), e.Place), e.Home.Dir)
	if e.image != nil {
		f.Versions["image"] = e.image.Digest[:min(len(e.image.Digest), 39)]
	}
	return f
}

// Interpret runs the interpreter of the ranks with other arguments, where they would run.
func (e *Enclosure) Interpret(out uintptr, args ...string) (*process.Set, error) {
	r := e.Home.Replica
	r.Recipe, r.SecretFiles, r.Credentials = nil, nil, nil
	env := environ(r, e.Home.Dir, nil, credentials{}, e.base(), e.over.userName(e.Home.Replica.Project), e.Place)
	dir, err := e.Home.WorkDir(r)
	if err != nil {
		return nil, err
	}
	r.Command = append([]string{inspect.PythonOf(e.Home.Steward, r.Command, env, dir)}, args...)
	return inspect.BeginTrial(r, env, out, e.Starter())
}
