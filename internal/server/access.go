package server

import (
	"context"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Who may do what, in one place:
//
//	viewer    reads in the projects they are a member of, and zones, nodes and queues
//	member    also writes tasks and secrets there
//	operator  reads everything, writes zones, queues and nodes
//	admin     everything
//
// Everybody sees their own user and makes, sees and revokes their own tokens. A task's token
// reads its own task and nothing else. What one may not see does not exist: NotFound.

var operatorWrites = []api.Kind{api.KindZone, api.KindQueue, api.KindNode}

// sharedReads are kinds of the whole cluster that every user may read.
var sharedReads = []api.Kind{api.KindZone, api.KindNode, api.KindQueue}

// memberOf says whether the caller belongs to a project; false for one that does not exist.
func (s *Server) memberOf(ctx context.Context, w *caller, project string) (bool, error) {
	o, err := s.find(ctx, api.Key{Kind: api.KindProject, Name: project}, 0)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	return slices.Contains(o.(*api.Project).Spec.Members, w.name()), nil
}

// mayRead says whether the caller sees this object. It is cheap: at most one look at the cache.
func (s *Server) mayRead(ctx context.Context, w *caller, o api.Object) (bool, error) {
	m := o.GetMeta()
	if scope := w.token.Spec.Task; scope != "" {
		return o.Kind() == api.KindTrainingTask && scope == m.ID, nil
	}
	if w.seesAll() || slices.Contains(sharedReads, o.Kind()) {
		return true, nil
	}
	switch o := o.(type) {
	case *api.User:
		return m.Name == w.name(), nil
	case *api.Token:
		return o.Spec.User == w.name(), nil
	case *api.Project:
		return slices.Contains(o.Spec.Members, w.name()), nil
	}
	if m.Project == "" {
		return false, nil
	}
	return s.memberOf(ctx, w, m.Project)
}

// mayWrite refuses with Forbidden and why. o carries at least project, name and what decides.
func (s *Server) mayWrite(ctx context.Context, w *caller, o api.Object) error {
	forbidden := func(text fault.Text) error { return fault.New(fault.Forbidden, "NotAllowed", text) }
	if w.token.Spec.Task != "" {
		return forbidden(fault.T("A task's token only reads.", "任务令牌只能读取。"))
	}
	if w.admin() {
		return nil
	}
	kind := o.Kind()
	switch o := o.(type) {
	case *api.Token:
		if o.Spec.User == w.name() {
			return nil
		}
		return forbidden(fault.T("Only an admin makes or changes tokens of others.", "只有管理员可以管理他人的令牌。"))
	case *api.TrainingTask, *api.Secret:
		if w.role() != api.RoleMember {
			return forbidden(fault.T("The role %s may not change tasks; ask for the role member.", "角色 %s 不能修改任务，请申请 member 角色。", w.role()))
		}
		ok, err := s.memberOf(ctx, w, o.GetMeta().Project)
		if err != nil {
			return err
		}
		if !ok {
			return fault.New(fault.Forbidden, "NotMember", fault.T(
				"The project %q does not exist, or you are not a member of it.", "项目 %q 不存在，或您不是其成员。", clip(o.GetMeta().Project, 64)))
		}
		return nil
	}
	if w.role() == api.RoleOperator && slices.Contains(operatorWrites, kind) {
		return nil
	}
	return forbidden(fault.T("The role %s may not change objects of kind %s.", "角色 %s 不能修改 %s 类型的对象。", w.role(), kind))
}

// projectsOf lists the projects of a caller; all is true for those who see everything.
func (s *Server) projectsOf(ctx context.Context, w *caller) (names []string, all bool, err error) {
	if w.seesAll() {
		return nil, true, nil
	}
	snap, err := s.Store.List(ctx, api.KindProject, "", 0)
	if err != nil {
		return nil, false, err
	}
	names = memberships(snap, w.name())
	return names, false, nil
}

func memberships(snap store.Snapshot, user string) []string {
	var names []string
	snap.Ascend("", func(o api.Object) bool {
		if p, ok := o.(*api.Project); ok && slices.Contains(p.Spec.Members, user) {
			names = append(names, p.Meta.Name)
		}
		return true
	})
	slices.Sort(names)
	return names
}

// onlySeers refuses everybody but operators and admins.
func onlySeers(w *caller) error {
	if w.seesAll() {
		return nil
	}
	return fault.New(fault.Forbidden, "NotAllowed", fault.T("This is for operators and admins.", "仅限运维人员和管理员。"))
}

func onlyAdmins(w *caller) error {
	if w.admin() {
		return nil
	}
	return fault.New(fault.Forbidden, "NotAllowed", fault.T("This is for admins.", "仅限管理员。"))
}
