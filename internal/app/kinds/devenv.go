package kinds

import (
	"reflect"
	"sync"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	control "github.com/fermi-cluster/fermi/internal/control/devenv"
	"github.com/fermi-cluster/fermi/internal/control/work"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server"
)

// Ship registers the kinds of work that every program has beside training tasks. It may be said again.
var Ship = sync.OnceFunc(func() {
	Register(environments)
})

// environments are the kind DevEnvironment.
var environments = Work{
	Row: devenv.Row,
	Door: server.WorkRow{
		Fresh: func(o api.Work) error {
			o.(*devenv.DevEnvironment).Spec.Starts = 0
			return nil
		},
		Queue: func(o api.Work, queue string) { o.(*devenv.DevEnvironment).Spec.Queue = queue },
		Begin: func(o api.Work, reason string, why fault.Text) {
			o.(*devenv.DevEnvironment).Status = work.Status{Phase: api.PhasePending, Reason: reason, Message: why}
		},
		Change:  changeEnvironment,
		Private: true,
		Verbs:   []server.WorkVerb{startEnvironment, stopEnvironment},
		Example: map[string]any{"metadata": map[string]any{"name": "lab"}, "spec": map[string]any{"type": "notebook"}},
	},
	New: func(cfg work.Config) work.Keeper { return control.New(cfg) },
}

// The verbs of environments.
var (
	startEnvironment = server.WorkVerb{
		Word: "start", Summary: "Start an environment that was stopped or has failed; its home is as it was.",
		Reason: "StartRequested", Event: fault.T("A start was asked for.", "已请求启动。"),
		Do: func(o api.Work) (fault.Text, bool) {
			e := o.(*devenv.DevEnvironment)
			if !e.Spec.Stop && (!e.Status.Phase.Finished() || e.IsDue()) {
				return fault.T("The environment runs or is being started already", "环境已在运行或正在启动"), false
			}
			e.Spec.Stop = false
			e.Spec.Starts = max(e.Spec.Starts, e.Status.Starts) + 1
			return fault.T("The environment is being started", "环境正在启动"), true
		},
	}
	stopEnvironment = server.WorkVerb{
		Word: "stop", Summary: "Stop an environment; its home is kept.",
		Reason: "StopRequested", Event: fault.T("A stop was asked for.", "已请求停止。"),
		Do: func(o api.Work) (fault.Text, bool) {
			e := o.(*devenv.DevEnvironment)
			if e.Spec.Stop || e.Status.Phase.Finished() && !e.IsDue() {
				return fault.T("The environment is stopped or stopping already", "环境已停止或正在停止"), false
			}
			e.Spec.Stop = true
			return fault.T("The environment is stopping; its home is kept", "环境正在停止，主目录会保留"), true
		},
	}
)

// changeEnvironment takes over what a user wrote. What decides where and as what its processes start holds still while it has any.
func changeEnvironment(next, current, given api.Work) error {
	n, c, g := next.(*devenv.DevEnvironment), current.(*devenv.DevEnvironment), given.(*devenv.DevEnvironment)
	n.Spec = g.Spec
	n.Spec.Starts = c.Spec.Starts // the verb's to count
	if n.Spec.Queue == "" {
		n.Spec.Queue = c.Spec.Queue
	}
	if c.Status.Attempt > 0 && n.Spec.Zone != c.Spec.Zone && n.Spec.Zone != "" && (len(c.Status.Zones) != 1 || n.Spec.Zone != c.Status.Zones[0]) {
		return immutable("spec.zone", fault.T("Its home is in zone %s; an environment stays there.", "其主目录位于可用区 %s，环境不能迁移到其他可用区。", c.Status.Zones))
	}
	if c.Status.Phase.Finished() {
		return nil
	}
	same := n.Spec
	same.Description, same.Shared, same.Stop, same.Storage = c.Spec.Description, c.Spec.Shared, c.Spec.Stop, c.Spec.Storage
	if !reflect.DeepEqual(same, c.Spec) {
		return immutable("spec", fault.T("While it runs, only description, shared and stop may change; stop it first.", "运行期间只能修改 description、shared 与 stop；请先停止该环境。"))
	}
	return nil
}

func immutable(path string, why fault.Text) error {
	return fault.New(fault.Conflict, "Immutable", why).WithFields(fault.Field{Path: path, Message: why})
}
