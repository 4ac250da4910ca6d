package server

import (
	"context"
	"slices"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// judge says what of the objects a caller may see and change. Safe for concurrent use.
type judge struct {
	truth *truth
	rules *rules
}

func newJudge(t *truth, r *rules) *judge { return &judge{truth: t, rules: r} }

// memberOf says whether the caller belongs to a project; false for one that does not exist.
func (j *judge) memberOf(ctx context.Context, w *caller, project string) (bool, error) {
	o, err := j.truth.find(ctx, api.Key{Kind: api.KindProject, Name: project}, 0)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	return w.belongs(o.(*api.Project)), nil
}

// owns says whether an object is the caller's own, or of a project of theirs.
func (j *judge) owns(ctx context.Context, w *caller, o api.Object) (bool, error) {
	if mine := j.rules.kinds[o.Kind()].mine; mine != nil {
		return mine(w, o), nil
	}
	if o.GetMeta().Project == "" {
		return false, nil
	}
	return j.memberOf(ctx, w, o.GetMeta().Project)
}

// mayRead says whether the caller sees this object. It is cheap: at most one look at the cache.
func (j *judge) mayRead(ctx context.Context, w *caller, o api.Object) (bool, error) {
	k := j.rules.kinds[o.Kind()]
	if scope := w.token.Spec.Task; scope != "" {
		return k.task && scope == o.GetMeta().ID, nil
	}
	switch w.reachOf(k.read) {
	case all:
		return true, nil
	case own:
		return j.owns(ctx, w, o)
	}
	return false, nil
}

// mayWrite refuses with Forbidden and why. o carries at least project, name and what decides.
func (j *judge) mayWrite(ctx context.Context, w *caller, o api.Object) error {
	k := j.rules.kinds[o.Kind()]
	if err := w.may(k.write); err != nil {
		return err
	}
	if w.reachOf(k.write) == all {
		return nil
	}
	ok, err := j.owns(ctx, w, o)
	switch {
	case err != nil || ok:
		return err
	case !k.notMine.IsZero():
		return fault.New(fault.Forbidden, "NotAllowed", k.notMine)
	case o.GetMeta().Project != "":
		return notMember(o.GetMeta().Project)
	}
	return notAllowed(w)
}

// projectsOf lists the projects of a caller; all is true for those who see everything.
func (j *judge) projectsOf(ctx context.Context, w *caller) (names []string, all bool, err error) {
	if w.seesAll() {
		return nil, true, nil
	}
	snap, err := j.truth.List(ctx, api.KindProject, "", 0)
	if err != nil {
		return nil, false, err
	}
	return w.memberships(snap), false, nil
}

// mayAbout refuses who may not do this about an object of a project: by the table's own row, not by who may change it.
func (j *judge) mayAbout(ctx context.Context, w *caller, id string, o api.Object) error {
	if w.reach(id) == all {
		return nil
	}
	ok, err := j.owns(ctx, w, o)
	if err != nil || ok {
		return err
	}
	return notMember(o.GetMeta().Project)
}

// Where a caller names no project, theirs is meant: the default project for those who look after the cluster and for its
// members; for anybody else the one they belong to. Who belongs to several is asked.

// homes are the projects that a caller who names none may mean, the likeliest first. It is never empty.
func (j *judge) homes(ctx context.Context, w *caller) ([]string, error) {
	if w.seesAll() || w.token.Spec.Task != "" {
		return []string{api.DefaultProject}, nil
	}
	snap, err := j.truth.List(ctx, api.KindProject, "", 0)
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
func (j *judge) home(ctx context.Context, w *caller) (string, error) {
	mine, err := j.homes(ctx, w)
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
