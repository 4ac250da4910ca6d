package server

import (
	"context"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
)

// finder finds objects for a caller. Safe for concurrent use.
type finder struct {
	truth   *truth
	judge   *judge
	history history.History
	kinds   *kinds
}

func newFinder(t *truth, j *judge, h history.History, k *kinds) *finder {
	return &finder{truth: t, judge: j, history: h, kinds: k}
}

// found is an object and whether it is archived.
type found struct {
	object   api.Object
	archived bool
}

// resolve finds an object by name or id among the live, then the archived ones. What the caller
// may not see is not there.
func (s *finder) resolve(ctx context.Context, c *call, row api.KindInfo, nameOrID string) (found, error) {
	f, err := s.look(ctx, c, row, nameOrID)
	if err != nil {
		return found{}, err
	}
	ok, err := s.judge.mayRead(ctx, c.who, f.object)
	if err != nil {
		return found{}, err
	}
	if !ok {
		return found{}, missing(row, nameOrID)
	}
	return f, nil
}

func (s *finder) look(ctx context.Context, c *call, row api.KindInfo, nameOrID string) (found, error) {
	if called := s.kinds.by[row.Kind].called; called != nil {
		var err error
		if nameOrID, err = called(ctx, nameOrID); err != nil {
			return found{}, err
		}
	}
	if !api.IsName(nameOrID) || c.q.has("project") && !api.IsName(c.q.text("project")) {
		return found{}, missing(row, nameOrID)
	}
	project, minRevision := c.q.text("project"), c.q.number("minRevision")
	named := func(project string) (found, error) {
		o, err := s.truth.find(ctx, api.Key{Kind: row.Kind, Project: project, Name: nameOrID}, minRevision)
		return found{object: o}, err
	}
	anywhere := project == ""
	if !row.Project {
		project = ""
	}
	var f found
	var err error
	if row.Project && anywhere {
		f, err = s.inHomes(ctx, c, row, nameOrID, named)
	} else {
		f, err = named(project)
	}
	if err == nil || !fault.Is(err, fault.NotFound) {
		return f, err
	}
	o, err := s.truth.GetByID(ctx, row.Kind, nameOrID, max(minRevision, s.truth.newest()))
	if err == nil && (anywhere || o.GetMeta().Project == project) {
		return found{object: o}, nil
	} else if err != nil && !fault.Is(err, fault.NotFound) {
		return found{}, err
	}
	if now := s.truth.newer(ctx, minRevision); now > minRevision {
		c.q.atLeast(now)
		return s.look(ctx, c, row, nameOrID)
	}
	if !row.Phased {
		return found{}, missing(row, nameOrID)
	}
	return s.lookArchived(ctx, c, row, project, nameOrID)
}

func (s *finder) lookArchived(ctx context.Context, c *call, row api.KindInfo, project, nameOrID string) (found, error) {
	named := func(project string) (found, error) {
		a, err := s.history.GetArchived(ctx, row.Kind, project, nameOrID)
		if err != nil {
			return found{}, err
		}
		return found{object: a.Object, archived: true}, nil
	}
	var f found
	var err error
	if project != "" {
		f, err = named(project)
	} else if f, err = s.inHomes(ctx, c, row, nameOrID, named); fault.Is(err, fault.NotFound) {
		f, err = named("")
		if err == nil && f.object.GetMeta().ID != nameOrID { // a name of another project
			return found{}, missing(row, nameOrID)
		}
	}
	if fault.Is(err, fault.NotFound) {
		return found{}, missing(row, nameOrID)
	}
	return f, err
}

// inHomes finds an object by name in the projects that a caller who names none may mean.
func (s *finder) inHomes(ctx context.Context, c *call, row api.KindInfo, name string, find func(project string) (found, error)) (found, error) {
	mine, err := s.judge.homes(ctx, c.who)
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
