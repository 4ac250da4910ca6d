package server

import (
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
)

// caller is who asks.
type caller struct {
	user  *api.User
	token *api.Token
	rules *rules
}

func (w *caller) name() string       { return w.user.Meta.Name }
func (w *caller) role() api.UserRole { return w.user.Spec.Role }

var scopeOrder = []api.TokenScope{read, tasks, power}

// scope is the largest a token has. One that is limited to projects never has more than tasks: it
// could make itself a token without that limit.
func (w *caller) scope() api.TokenScope {
	switch s := w.token.Spec.Scope; {
	case s == read:
		return read
	case s == tasks || len(w.token.Spec.Projects) > 0:
		return tasks
	}
	return power
}

// limited says that the token is for some projects only.
func (w *caller) limited() bool { return len(w.token.Spec.Projects) > 0 }

// reach looks into the table.
func (w *caller) reach(id string) reach {
	return w.reachOf(w.rules.by[id])
}

// reachOf is how far the caller gets where a rule holds.
func (w *caller) reachOf(r rule) reach {
	if w.token.Spec.Task != "" {
		if r.task {
			return own
		}
		return none
	}
	if slices.Index(scopeOrder, w.scope()) < slices.Index(scopeOrder, r.scope) {
		return none
	}
	got := none
	switch w.role() {
	case api.RoleAdmin:
		got = r.admin
	case api.RoleOperator:
		got = r.operator
	case api.RoleMember:
		got = r.member
	case api.RoleViewer:
		got = r.viewer
	}
	if w.limited() && got == all && r.viewer != all {
		if r.member == own || r.viewer == own {
			return own
		}
		return none
	}
	return got
}

// mayCall refuses who gets nowhere on a route, and says why.
func (w *caller) mayCall(id string) error { return w.may(w.rules.by[id]) }

// may refuses who gets nowhere where a rule holds, and says why.
func (w *caller) may(r rule) error {
	if w.reachOf(r) != none {
		return nil
	}
	t := w.token.Spec
	switch {
	case t.Task != "":
		return fault.New(fault.Forbidden, "TaskToken", fault.T(
			"This token belongs to a task and reads that task only.", "该令牌属于某个任务，只能读取该任务。"))
	case (&caller{user: w.user, token: &api.Token{}, rules: w.rules}).reachOf(r) != none:
		return fault.New(fault.Forbidden, "ScopeTooSmall", fault.T(
			"You may do this, but this token may not: its scope is %s.", "您有此权限，但该令牌没有：其权限范围为 %s。", w.scope()))
	}
	return notAllowed(w)
}

func notAllowed(w *caller) error {
	return fault.New(fault.Forbidden, "NotAllowed", fault.T("The role %s may not do this.", "角色 %s 无权执行此操作。", w.role()))
}

// seesAll is for those who look after the cluster.
func (w *caller) seesAll() bool {
	return w.token.Spec.Task == "" && !w.limited() && (w.role() == api.RoleAdmin || w.role() == api.RoleOperator)
}

// belongs says whether a project is among the caller's own. A token that is limited to projects
// sees only those; admins and operators need not be members of them.
func (w *caller) belongs(p *api.Project) bool {
	if w.limited() && !slices.Contains(w.token.Spec.Projects, p.Meta.Name) {
		return false
	}
	if w.limited() && (w.role() == api.RoleAdmin || w.role() == api.RoleOperator) {
		return true
	}
	return slices.Contains(p.Spec.Members, w.name())
}

func (w *caller) memberships(snap store.Snapshot) []string {
	var names []string
	snap.Ascend("", func(o api.Object) bool {
		if p, ok := o.(*api.Project); ok && w.belongs(p) {
			names = append(names, p.Meta.Name)
		}
		return true
	})
	slices.Sort(names)
	return names
}

// payer is whose limits a call counts against: the user's, with all tokens and sessions together. What
// tasks ask for themselves counts apart, so that a busy one does not keep its owner out.
func (w *caller) payer() string {
	if w.token.Spec.Task != "" {
		return "tasks of " + w.name()
	}
	return w.name()
}
