package objects

import (
	"context"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/truth"
)

// Finder finds objects for a caller. Safe for concurrent use.
type Finder struct {
	Truth   *truth.Truth
	Judge   *access.Judge
	History history.History
	kinds   *Kinds
}

func NewFinder(t *truth.Truth, j *access.Judge, h history.History, k *Kinds) *Finder {
	return &Finder{Truth: t, Judge: j, History: h, kinds: k}
}

// Found is an object and whether it is archived.
type Found struct {
	Object   api.Object
	Archived bool
}

// Resolve finds an object by name or id among the live, then the archived ones. What the caller
// may not see is not there.
func (s *Finder) Resolve(ctx context.Context, c *rest.Call, row api.KindInfo, nameOrID string) (Found, error) {
	f, err := s.look(ctx, c, row, nameOrID)
	if err != nil {
		return Found{}, err
	}
	ok, err := s.Judge.MayRead(ctx, c.Who, f.Object)
	if err != nil {
		return Found{}, err
	}
	if !ok {
		return Found{}, refuse.Missing(row, nameOrID)
	}
	return f, nil
}

func (s *Finder) look(ctx context.Context, c *rest.Call, row api.KindInfo, nameOrID string) (Found, error) {
	if called := s.kinds.Of(row.Kind).Called; called != nil {
		var err error
		if nameOrID, err = called(ctx, nameOrID); err != nil {
			return Found{}, err
		}
	}
	if !api.IsName(nameOrID) || c.Query.Has("project") && !api.IsName(c.Query.Text("project")) {
		return Found{}, refuse.Missing(row, nameOrID)
	}
	project, minRevision := c.Query.Text("project"), c.Query.Number("minRevision")
	named := func(project string) (Found, error) {
		o, err := s.Truth.Find(ctx, api.Key{Kind: row.Kind, Project: project, Name: nameOrID}, minRevision)
		return Found{Object: o}, err
	}
	anywhere := project == ""
	if !row.Project {
		project = ""
	}
	var f Found
	var err error
	if row.Project && anywhere {
		f, err = s.inHomes(ctx, c, row, nameOrID, named)
	} else {
		f, err = named(project)
	}
	if err == nil || !fault.Is(err, fault.NotFound) {
		return f, err
	}
	o, err := s.Truth.GetByID(ctx, row.Kind, nameOrID, max(minRevision, s.Truth.Newest()))
	if err == nil && (anywhere || o.GetMeta().Project == project) {
		return Found{Object: o}, nil
	} else if err != nil && !fault.Is(err, fault.NotFound) {
		return Found{}, err
	}
	now, err := s.Truth.Newer(ctx, minRevision)
	if err != nil {
		return Found{}, err
	}
	if now > minRevision {
		c.Query.AtLeast(now)
		return s.look(ctx, c, row, nameOrID)
	}
	if !row.Phased {
		return Found{}, refuse.Missing(row, nameOrID)
	}
	return s.LookArchived(ctx, c, row, project, nameOrID)
}

func (s *Finder) LookArchived(ctx context.Context, c *rest.Call, row api.KindInfo, project, nameOrID string) (Found, error) {
	named := func(project string) (Found, error) {
		a, err := s.History.GetArchived(ctx, row.Kind, project, nameOrID)
		if err != nil {
			return Found{}, err
		}
		return Found{Object: a.Object, Archived: true}, nil
	}
	var f Found
	var err error
	if project != "" {
		f, err = named(project)
	} else if f, err = s.inHomes(ctx, c, row, nameOrID, named); fault.Is(err, fault.NotFound) {
		f, err = named("")
		if err == nil && f.Object.GetMeta().ID != nameOrID { // a name of another project
			return Found{}, refuse.Missing(row, nameOrID)
		}
	}
	if fault.Is(err, fault.NotFound) {
		return Found{}, refuse.Missing(row, nameOrID)
	}
	return f, err
}

// inHomes finds an object by name in the projects that a caller who names none may mean.
func (s *Finder) inHomes(ctx context.Context, c *rest.Call, row api.KindInfo, name string, find func(project string) (Found, error)) (Found, error) {
	mine, err := s.Judge.Homes(ctx, c.Who)
	if err != nil {
		return Found{}, err
	}
	var at []string
	var one Found
	for _, project := range mine {
		f, err := find(project)
		switch {
		case fault.Is(err, fault.NotFound):
			continue
		case err != nil:
			return Found{}, err
		case project == api.DefaultProject:
			return f, nil
		}
		one, at = f, append(at, project)
	}
	switch len(at) {
	case 0:
		return Found{}, refuse.Missing(row, name)
	case 1:
		return one, nil
	}
	return Found{}, access.WhichProject(fault.T("There is a %s %q in each of %s: say which.", "以下项目中都有 %[1]s %[2]q：%[3]s；请指明。", row.Singular, refuse.Clip(name, 128), strings.Join(at, ", ")))
}
