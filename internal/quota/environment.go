package quota

import (
	"context"
	"fmt"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/api/v1/quota"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Environments holds environments to what their owners and projects may have.
type Environments struct {
	Find func(ctx context.Context, key api.Key) (api.Object, error)
	List func(ctx context.Context) ([]api.Object, error) // of all environments
	User quota.Environments                              // of users whose quota says nothing
}

// Begin refuses a start that nobody asks for at the door: by the rules of now for its owner, its queue and its priority, and by quotas.
func (q Environments) Begin(ctx context.Context, e *devenv.DevEnvironment, wants devenv.Need) error {
	w := e.Workload()
	var user *api.User
	var project *api.Project
	var queue *api.Queue
	for _, one := range []struct {
		key  api.Key
		take func(api.Object)
	}{
		{api.Key{Kind: api.KindUser, Name: e.Meta.Owner}, func(o api.Object) { user = o.(*api.User) }},
		{api.Key{Kind: api.KindProject, Name: e.Meta.Project}, func(o api.Object) { project = o.(*api.Project) }},
		{api.Key{Kind: api.KindQueue, Name: w.Queue}, func(o api.Object) { queue = o.(*api.Queue) }},
	} {
		o, err := q.Find(ctx, one.key)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return err
		}
		one.take(o)
	}
	switch {
	case user != nil && user.Spec.Disabled:
		return fault.New(fault.Forbidden, "UserDisabled", fault.T("Its owner %[1]s is disabled.", "其所有者 %[1]s 已被停用。", e.Meta.Owner))
	case project == nil:
		return fault.New(fault.Forbidden, "ProjectGone", fault.T("The project %[1]s is not there any more.", "项目 %[1]s 已不存在。", e.Meta.Project))
	case queue == nil || !queue.Admits(project):
		return fault.New(fault.Forbidden, "QueueNotAllowed", fault.T("The project %[1]s may not use the queue %[2]s any more.", "项目 %[1]s 不能再使用队列 %[2]s。", project.Meta.Name, w.Queue))
	case w.Priority > project.TopPriority(w.Kind):
		return fault.New(fault.Forbidden, "PriorityNotAllowed", fault.T("Its priority %[1]d is above %[2]d, the highest of the project %[3]s.", "其优先级 %[1]d 高于项目 %[3]s 的最高值 %[2]d。",
			w.Priority, project.TopPriority(w.Kind), project.Meta.Name))
	}
	return q.Room(ctx, e, wants)
}

// Room refuses what goes over the quota of an environment's owner, or of its project.
func (q Environments) Room(ctx context.Context, e *devenv.DevEnvironment, wants devenv.Need) error {
	user, project := q.User, quota.Environments{}
	if o, err := q.Find(ctx, api.Key{Kind: api.KindUser, Name: e.Meta.Owner}); err == nil {
		user = o.(*api.User).Spec.Environments.Or(user)
	} else if !fault.Is(err, fault.NotFound) {
		return err
	}
	if o, err := q.Find(ctx, api.Key{Kind: api.KindProject, Name: e.Meta.Project}); err == nil {
		project = o.(*api.Project).Spec.Environments.Or(project)
	} else if !fault.Is(err, fault.NotFound) {
		return err
	}
	all, err := q.List(ctx)
	if err != nil {
		return err
	}
	var own, shared []*devenv.DevEnvironment
	for _, o := range all {
		x, ok := o.(*devenv.DevEnvironment)
		if !ok || x.Meta.ID == e.Meta.ID && e.Meta.ID != "" {
			continue
		}
		if x.Meta.Owner == e.Meta.Owner {
			own = append(own, x)
		}
		if x.Meta.Project == e.Meta.Project {
			shared = append(shared, x)
		}
	}
	whose := fault.T("user %[1]s", "用户 %[1]s", e.Meta.Owner)
	if err := noRoom(devenv.Over(user, own, wants), whose, own); err != nil {
		return err
	}
	whose = fault.T("project %[1]s", "项目 %[1]s", e.Meta.Project)
	return noRoom(devenv.Over(project, shared, wants), whose, shared)
}

const named = 8 // environments that a refusal names

// noRoom says which bound is gone over, and what uses it.
func noRoom(over devenv.Excess, whose fault.Text, users []*devenv.DevEnvironment) error {
	if over.What == "" {
		return nil
	}
	var list []string
	for _, x := range users {
		if over.Uses(x) {
			list = append(list, x.Meta.Project+"/"+x.Meta.Name)
		}
	}
	more := len(list) - named
	text := strings.Join(list[:min(len(list), named)], ", ")
	if more > 0 {
		text += fmt.Sprintf(" +%d", more)
	}
	what := map[string]fault.Text{
		"running": fault.T("running environments", "运行中的环境数"), "devices": fault.T("accelerators of running environments", "运行中环境的加速卡数"),
		"storage": fault.T("storage of environments", "环境的存储容量"),
	}[over.What]
	e := fault.New(fault.Conflict, "QuotaExceeded", fault.T(
		"The quota of %[1]s for %[3]s is %[5]s; %[6]s are used by %[8]s, and this needs %[7]s.",
		"%[2]s的%[4]s配额为 %[5]s，已用 %[6]s（%[8]s），本次还需 %[7]s。", whose.EN, whose.ZH, what.EN, what.ZH, over.Limit, over.Used, over.Wants, text))
	if text == "" {
		e = fault.New(fault.Conflict, "QuotaExceeded", fault.T("The quota of %[1]s for %[3]s is %[5]s, and this needs %[6]s.", "%[2]s的%[4]s配额为 %[5]s，本次需要 %[6]s。",
			whose.EN, whose.ZH, what.EN, what.ZH, over.Limit, over.Wants))
	}
	return e.WithHint(fault.T("Stop or delete one of them, ask for less, or ask an administrator for more.", "请停止或删除其中之一、减少申请量，或请管理员提高配额。"))
}
