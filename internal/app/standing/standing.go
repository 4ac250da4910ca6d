// Package standing says whose a replica is that shows a pass, and how many of them this machine bears.
//
// Place: layer 6, a part of the assembly, between the door and what knows of attempts. Promise: an attempt that is over, or has not begun, stands for
// nobody. Enemies: a pass that was kept, a name that was made up.
package standing

import (
	"context"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
)

// Of is the link token of a replica whose attempt runs now, and the work that it is of; current refuses attempts that are not of now.
func Of(ctx context.Context, replica string, current func(context.Context, link.Parts) error, find func(context.Context, string) (api.Work, error), mint func(engine.Name) string) (token string, of api.Object, err error) {
	parts, err := link.ParseName(engine.Name(replica))
	if err != nil {
		return "", nil, err
	}
	if err := current(ctx, parts); err != nil {
		return "", nil, err
	}
	work, err := find(ctx, parts.TaskID)
	if err != nil {
		return "", nil, err
	}
	w := work.Workload()
	if w.Role(parts.Role) == nil || parts.Attempt < 1 || w.Phase == api.PhasePending { // nothing of it runs: it waits for another attempt
		return "", nil, fault.New(fault.NotFound, "NotFound", fault.T("There is no such replica.", "不存在该副本。"))
	}
	return mint(engine.Name(replica)), work, nil
}

// Environment is work where only an environment will do.
func Environment(work api.Work, err error) (*devenv.DevEnvironment, error) {
	if err != nil {
		return nil, err
	}
	e, ok := work.(*devenv.DevEnvironment)
	if !ok {
		return nil, fault.New(fault.NotFound, "NotFound", fault.T("%s is no environment.", "%s 不是环境。", work.GetMeta().ID))
	}
	return e, nil
}
