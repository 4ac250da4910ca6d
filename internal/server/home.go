package server

import (
	"context"
	"slices"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Where a caller names no project, theirs is meant: the default project for those who look after the cluster and for its
// members; for anybody else the one they belong to. Who belongs to several is asked.

// homes are the projects that a caller who names none may mean, the likeliest first. It is never empty.
func (s *Server) homes(ctx context.Context, w *caller) ([]string, error) {
	if w.seesAll() || w.token.Spec.Task != "" {
		return []string{api.DefaultProject}, nil
	}
	snap, err := s.Store.List(ctx, api.KindProject, "", 0)
	if err != nil {
		return nil, err
	}
	mine := w.memberships(snap)
	if len(mine) == 0 { // who is refused there is told why
		return []string{api.DefaultProject}, nil
	}
	if i := slices.Index(mine, api.DefaultProject); i > 0 {
		mine = slices.Insert(slices.Delete(mine, i, i+1), 0, api.DefaultProject)
	}
	return mine, nil
}

// home is the project of something new of a caller who names none.
func (s *Server) home(ctx context.Context, w *caller) (string, error) {
	mine, err := s.homes(ctx, w)
	switch {
	case err != nil:
		return "", err
	case len(mine) == 1 || mine[0] == api.DefaultProject:
		return mine[0], nil
	}
	return "", whichProject(fault.T("Say in which project: you belong to %s.", "请指明项目：您属于 %s。", strings.Join(mine, ", ")))
}

func whichProject(message fault.Text) error {
	return fault.New(fault.Invalid, "WhichProject", message).WithFields(fault.Field{Path: "metadata.project", Message: message}).
		WithHint(fault.T("On the command line: --project NAME, or fermi project use NAME once for all.", "命令行：--project NAME，或用 fermi project use NAME 设为默认。"))
}

// inHomes finds an object by name in the projects that a caller who names none may mean.
func (s *Server) inHomes(ctx context.Context, c *call, row api.KindInfo, name string, find func(project string) (found, error)) (found, error) {
	mine, err := s.homes(ctx, c.who)
	if err != nil {
		return found{}, err
	}
	var at []string
	var one found
	for _, project := range mine {
		f, err := find(project)
		switch {
		case fault.Is(err, fault.NotFound):
			continue
		case err != nil:
			return found{}, err
		case project == api.DefaultProject:
			return f, nil
		}
		one, at = f, append(at, project)
	}
	switch len(at) {
	case 0:
		return found{}, missing(row, name)
	case 1:
		return one, nil
	}
	return found{}, whichProject(fault.T("There is a %s %q in each of %s: say which.", "以下项目中都有 %[1]s %[2]q：%[3]s；请指明。", row.Singular, clip(name, 128), strings.Join(at, ", ")))
}
