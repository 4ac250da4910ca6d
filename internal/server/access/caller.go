package access

import (
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Caller is who asks.
type Caller struct {
	User  *api.User
	Token *api.Token
	Rules *Rules
	// Replica is whose processes ask, in the user's name; "": it is no replica.
	Replica string
	// Lent says that others than the user may be behind it: other members of the project may enter what the replica is of, change it, or have made it.
	Lent bool
}

func (w *Caller) Name() string       { return w.User.Meta.Name }
func (w *Caller) Role() api.UserRole { return w.User.Spec.Role }

// Owns says that an object is the caller's own, or that the caller looks after everything. A caller who is lent owns nothing: it is any member.
func (w *Caller) Owns(o api.Object) bool {
	return !w.Lent && (w.Name() == o.GetMeta().Owner || w.Role() == api.RoleAdmin)
}

// Shared is work that its owner may share with the members of its project.
type Shared interface{ IsShared() bool }

// Enters says that the caller may be among the processes of some work, as far as owners go.
func (w *Caller) Enters(o api.Object) bool {
	shared, ok := o.(Shared)
	return w.Owns(o) || ok && shared.IsShared()
}

var scopeOrder = []api.TokenScope{read, tasks, power}

// scope is the largest a token has. One that is limited to projects never has more than tasks: it
// could make itself a token without that limit.
func (w *Caller) scope() api.TokenScope {
	switch s := w.Token.Spec.Scope; {
	case s == serving.ScopeInference: // it opens the gateway's door alone
		return s
	case s == read:
		return read
	case s == tasks || len(w.Token.Spec.Projects) > 0:
		return tasks
	}
	return power
}

// limited says that the token is for some projects only.
func (w *Caller) limited() bool { return len(w.Token.Spec.Projects) > 0 }

// Reach looks into the table.
func (w *Caller) Reach(id string) Reach {
	return w.reachOf(w.Rules.by[id])
}

// reachOf is how far the caller gets where a rule holds.
func (w *Caller) reachOf(r Rule) Reach {
	if w.Token.Spec.Task != "" {
		if r.Task {
			return Own
		}
		return none
	}
	if slices.Index(scopeOrder, w.scope()) < slices.Index(scopeOrder, r.Scope) {
		return none
	}
	got := none
	switch w.Role() {
	case api.RoleAdmin:
		got = r.Admin
	case api.RoleOperator:
		got = r.Operator
	case api.RoleMember:
		got = r.Member
	case api.RoleViewer:
		got = r.Viewer
	}
	if w.limited() && got == All && r.Viewer != All {
		if r.Member == Own || r.Viewer == Own {
			return Own
		}
		return none
	}
	return got
}

// MayCall refuses who gets nowhere on a route, and says why.
func (w *Caller) MayCall(id string) error { return w.may(w.Rules.by[id]) }

// may refuses who gets nowhere where a rule holds, and says why.
func (w *Caller) may(r Rule) error {
	if w.reachOf(r) != none {
		return nil
	}
	t := w.Token.Spec
	switch {
	case t.Task != "":
		return fault.New(fault.Forbidden, "TaskToken", fault.T(
			"This token belongs to a task and reads that task only.", "该令牌属于某个任务，只能读取该任务。"))
	case (&Caller{User: w.User, Token: &api.Token{}, Rules: w.Rules}).reachOf(r) != none:
		return fault.New(fault.Forbidden, "ScopeTooSmall", fault.T(
			"You may do this, but this token may not: its scope is %s.", "您有此权限，但该令牌没有：其权限范围为 %s。", w.scope()))
	}
	return NotAllowed(w)
}

func NotAllowed(w *Caller) error {
	return fault.New(fault.Forbidden, "NotAllowed", fault.T("The role %s may not do this.", "角色 %s 无权执行此操作。", w.Role()))
}

// SeesAll is for those who look after the cluster.
func (w *Caller) SeesAll() bool {
	return w.Token.Spec.Task == "" && !w.limited() && (w.Role() == api.RoleAdmin || w.Role() == api.RoleOperator)
}

// Belongs says whether a project is among the caller's own. A token that is limited to projects
// sees only those; admins and operators need not be members of them.
func (w *Caller) Belongs(p *api.Project) bool {
	if w.limited() && !slices.Contains(w.Token.Spec.Projects, p.Meta.Name) {
		return false
	}
	if w.limited() && (w.Role() == api.RoleAdmin || w.Role() == api.RoleOperator) {
		return true
	}
	return slices.Contains(p.Spec.Members, w.Name())
}

func (w *Caller) Memberships(snap store.Snapshot) []string {
	var names []string
	snap.Ascend("", func(o api.Object) bool {
		if p, ok := o.(*api.Project); ok && w.Belongs(p) {
			names = append(names, p.Meta.Name)
		}
		return true
	})
	slices.Sort(names)
	return names
}

// Payer is whose limits a call counts against: the user's, with all tokens and sessions together. What
// tasks ask for themselves counts apart, so that a busy one does not keep its owner out.
func (w *Caller) Payer() string {
	if w.Token.Spec.Task != "" || w.Replica != "" {
		return "tasks of " + w.Name()
	}
	return w.Name()
}
