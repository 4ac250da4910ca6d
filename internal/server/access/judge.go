package access

import (
	"context"
	"slices"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/truth"
)

// Judge says what of the objects a caller may see and change. Safe for concurrent use.
type Judge struct {
	truth *truth.Truth
	rules *Rules
}

func NewJudge(t *truth.Truth, r *Rules) *Judge { return &Judge{truth: t, rules: r} }

// MemberOf says whether the caller belongs to a project; false for one that does not exist.
func (j *Judge) MemberOf(ctx context.Context, w *Caller, project string) (bool, error) {
	o, err := j.truth.Find(ctx, api.Key{Kind: api.KindProject, Name: project}, 0)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	return w.Belongs(o.(*api.Project)), nil
}

// owns says whether an object is the caller's own, or of a project of theirs.
func (j *Judge) owns(ctx context.Context, w *Caller, o api.Object) (bool, error) {
	if mine := j.rules.kinds[o.Kind()].Mine; mine != nil {
		return mine(w, o), nil
	}
	project := o.GetMeta().Project
	if of := j.rules.kinds[o.Kind()].Of; of != nil {
		project = of(o)
	}
	if project == "" {
		return false, nil
	}
	return j.MemberOf(ctx, w, project)
}

// keepsOut says that an object is private, and not the caller's. One that is being made has no owner yet: it will be theirs.
func (k *Kind) keepsOut(w *Caller, o api.Object) bool {
	return k.Private != nil && o.GetMeta().Owner != "" && k.Private(o) && !w.Owns(o)
}

// Hides says that an object is private, and not the caller's.
func (j *Judge) Hides(w *Caller, o api.Object) bool {
	k := j.rules.kinds[o.Kind()]
	return k.keepsOut(w, o)
}

// MayRead says whether the caller sees this object. It is cheap: at most one look at the cache.
func (j *Judge) MayRead(ctx context.Context, w *Caller, o api.Object) (bool, error) {
	k := j.rules.kinds[o.Kind()]
	if k.keepsOut(w, o) {
		return false, nil
	}
	if scope := w.Token.Spec.Task; scope != "" {
		return k.Task && scope == o.GetMeta().ID, nil
	}
	switch w.reachOf(k.Read) {
	case All:
		return true, nil
	case Own:
		if k.Of != nil && k.Of(o) == "" {
			return true, nil
		}
		return j.owns(ctx, w, o)
	}
	return false, nil
}

// ReadsAll says whether the caller sees all objects of a kind.
func (j *Judge) ReadsAll(w *Caller, kind api.Kind) bool {
	return w.reachOf(j.rules.kinds[kind].Read) == All
}

// MayWrite refuses with Forbidden and why. o carries at least project, name and what decides.
func (j *Judge) MayWrite(ctx context.Context, w *Caller, o api.Object) error {
	k := j.rules.kinds[o.Kind()]
	if err := w.may(k.Write); err != nil {
		return err
	}
	if k.keepsOut(w, o) {
		return NotAllowed(w)
	}
	if w.reachOf(k.Write) == All {
		return nil
	}
	ok, err := j.owns(ctx, w, o)
	switch {
	case err != nil || ok:
		return err
	case !k.NotMine.IsZero():
		return fault.New(fault.Forbidden, "NotAllowed", k.NotMine)
	case o.GetMeta().Project != "":
		return refuse.NotMember(o.GetMeta().Project)
	}
	return NotAllowed(w)
}

// ProjectsOf lists the projects of a caller; all is true for those who see everything.
func (j *Judge) ProjectsOf(ctx context.Context, w *Caller) (names []string, all bool, err error) {
	if w.SeesAll() {
		return nil, true, nil
	}
	snap, err := j.truth.List(ctx, api.KindProject, "", 0)
	if err != nil {
		return nil, false, err
	}
	return w.Memberships(snap), false, nil
}

// MayAbout refuses who may not do this about an object of a project: by the table's own row, not by who may change it.
func (j *Judge) MayAbout(ctx context.Context, w *Caller, id string, o api.Object) error {
	if w.Reach(id) == All {
		return nil
	}
	ok, err := j.owns(ctx, w, o)
	if err != nil || ok {
		return err
	}
	return refuse.NotMember(o.GetMeta().Project)
}

// Where a caller names no project, theirs is meant: the default project for those who look after the cluster and for its
// members; for anybody else the one they belong to. Who belongs to several is asked.

// Homes are the projects that a caller who names none may mean, the likeliest first. It is never empty.
func (j *Judge) Homes(ctx context.Context, w *Caller) ([]string, error) {
	if w.SeesAll() || w.Token.Spec.Task != "" {
		return []string{api.DefaultProject}, nil
	}
	snap, err := j.truth.List(ctx, api.KindProject, "", 0)
	if err != nil {
		return nil, err
	}
	mine := w.Memberships(snap)
	if len(mine) == 0 { // who is refused there is told why
		return []string{api.DefaultProject}, nil
	}
	if i := slices.Index(mine, api.DefaultProject); i > 0 {
		mine = slices.Insert(slices.Delete(mine, i, i+1), 0, api.DefaultProject)
	}
	return mine, nil
}

// Home is the project of something new of a caller who names none.
func (j *Judge) Home(ctx context.Context, w *Caller) (string, error) {
	mine, err := j.Homes(ctx, w)
	switch {
	case err != nil:
		return "", err
	case len(mine) == 1 || mine[0] == api.DefaultProject:
		return mine[0], nil
	}
	return "", WhichProject(fault.T("Say in which project: you belong to %s.", "请指明项目：您属于 %s。", strings.Join(mine, ", ")))
}

func WhichProject(message fault.Text) error {
	return fault.New(fault.Invalid, "WhichProject", message).WithFields(fault.Field{Path: "metadata.project", Message: message}).
		WithHint(fault.T("On the command line: --project NAME, or fermi project use NAME once for all.", "命令行：--project NAME，或用 fermi project use NAME 设为默认。"))
}
