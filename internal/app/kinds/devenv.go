package kinds

import (
	"reflect"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/api/v1/image"
	control "github.com/fermi-cluster/fermi/internal/control/devenv"
	"github.com/fermi-cluster/fermi/internal/control/work"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server"
)

// Ship registers the kinds of work that every program has beside training tasks. It may be said again.
var Ship = sync.OnceFunc(func() {
	api.Register(devenv.TemplateRow)
	Register(environments)
})

// environments are the kind DevEnvironment.
var environments = Work{
	Row: devenv.Row,
	Door: server.WorkRow{
		Fresh: func(o api.Work) error {
			s := &o.(*devenv.DevEnvironment).Spec
			s.Asked = devenv.Asked{}
			return nil
		},
		Zone: func(o api.Work) *string { return &o.(*devenv.DevEnvironment).Spec.Zone },
		Images: func(o api.Work) []image.Field {
			return []image.Field{{Path: "spec.image", Image: &o.(*devenv.DevEnvironment).Spec.Image}}
		},
		Queue: func(o api.Work, queue string) { o.(*devenv.DevEnvironment).Spec.Queue = queue },
		Begin: func(o api.Work, reason string, why fault.Text) {
			o.(*devenv.DevEnvironment).Status = devenv.Status{Status: work.Status{Phase: api.PhasePending, Reason: reason, Message: why}}
		},
		Change:  changeEnvironment,
		Private: true,
		InUse:   func(o api.Work) string { return o.(*devenv.DevEnvironment).Status.InUseBy },
		Verbs:   []server.WorkVerb{startEnvironment, stopEnvironment, resetEnvironment, keepEnvironment, snapshotEnvironment, moveEnvironment},
		Example: map[string]any{"metadata": map[string]any{"name": "lab"}, "spec": map[string]any{"type": "notebook"}},
	},
	New: func(cfg work.Config, policy devenv.Policy) work.Keeper { return control.New(cfg, policy) },
}

// The verbs of environments.
var (
	startEnvironment = server.WorkVerb{
		Word: "start", Summary: "Start an environment that was stopped or has failed; its home is as it was.", Begins: true,
		Reason: "StartRequested", Event: fault.T("A start was asked for.", "已请求启动。"),
		Do: func(o api.Work, _ time.Time) (fault.Text, bool) {
			e := o.(*devenv.DevEnvironment)
			if (devenv.Moves{Of: e}).Asked() {
				return fault.T("The environment is being moved; it starts when its home is there", "环境正在迁移，主目录就绪后启动"), false
			}
			if !e.Spec.Stop && (!e.Status.Phase.Finished() && !e.Saves() || e.IsDue()) {
				return fault.T("The environment runs or is being started already", "环境已在运行或正在启动"), false
			}
			e.Spec.Stop = false
			e.Spec.Starts = max(e.Spec.Starts, e.Status.Starts) + 1
			if e.Saves() {
				return fault.T("A snapshot of its home is being made; it starts when that is done", "正在创建主目录快照，完成后启动"), true
			}
			return fault.T("The environment is being started", "环境正在启动"), true
		},
	}
	stopEnvironment = server.WorkVerb{
		Word: "stop", Summary: "Stop an environment; its home is kept.", Ends: true,
		Reason: "StopRequested", Event: fault.T("A stop was asked for.", "已请求停止。"),
		Do: func(o api.Work, _ time.Time) (fault.Text, bool) {
			e := o.(*devenv.DevEnvironment)
			if (devenv.Moves{Of: e}).Leave() {
				return fault.T("The move is given up; its home stays where it is", "已取消迁移，主目录保持原处"), true
			}
			if (devenv.Snapshots{Of: e}).Leave() {
				e.Spec.Stop = true
				return fault.T("The snapshot of its home is given up", "正在取消主目录快照"), true
			}
			if e.Spec.Stop || e.Status.Phase.Finished() && !e.IsDue() {
				return fault.T("The environment is stopped or stopping already", "环境已停止或正在停止"), false
			}
			e.Spec.Stop = true
			return fault.T("The environment is stopping; its home is kept", "环境正在停止，主目录会保留"), true
		},
	}
	resetEnvironment = server.WorkVerb{
		Word: "reset", Summary: "Throw away what was written over the image of an environment, such as installed packages, before its next start; its home is kept.",
		Reason: "ResetRequested", Event: fault.T("What was written over its image is thrown away before its next start.", "下次启动前将清除在其镜像之上写入的内容。"),
		Do: func(o api.Work, _ time.Time) (fault.Text, bool) {
			e := o.(*devenv.DevEnvironment)
			if e.Spec.Image == "" {
				return fault.T("The environment has no image: nothing was written over one", "该环境没有镜像，无可清除的内容"), false
			}
			e.Spec.Resets++
			return fault.T("Before the next start what was written over the image is thrown away; its home is kept", "下次启动前将清除在镜像之上写入的内容，主目录会保留"), true
		},
	}
)

// snapshotEnvironment keeps the home of an environment that is stopped.
var snapshotEnvironment = server.WorkVerb{
	Word: "snapshot", Summary: "Keep the home of a stopped environment as a version of a dataset, with which another can begin (spec.from); where nothing of the home changed no new version is made.",
	Reason: "SnapshotRequested", Event: fault.T("A snapshot of its home was asked for.", "已请求创建主目录快照。"),
	May: func(o api.Work) error { return (devenv.Snapshots{Of: o.(*devenv.DevEnvironment)}).May() },
	Do: func(o api.Work, _ time.Time) (fault.Text, bool) {
		return (devenv.Snapshots{Of: o.(*devenv.DevEnvironment)}).Ask()
	},
}

var keepEnvironment = server.WorkVerb{
	Word: "keep", Summary: "Count now as activity: an environment that nobody works in is kept for as long again as its rule says.",
	Reason: "KeepRequested", Event: fault.T("It was asked to stay.", "已请求保留。"),
	Do: func(o api.Work, now time.Time) (fault.Text, bool) {
		o.(*devenv.DevEnvironment).Spec.Kept = &now
		return fault.T("The environment is kept", "环境已保留"), true
	},
}

// changeEnvironment takes over what a user wrote. What decides where and as what its processes start holds still while it has any.
func changeEnvironment(next, current, given api.Work) error {
	n, c, g := next.(*devenv.DevEnvironment), current.(*devenv.DevEnvironment), given.(*devenv.DevEnvironment)
	n.Spec = g.Spec
	n.Spec.Asked = c.Spec.Asked // the verbs' to write, but that people may say stop
	n.Spec.Stop = g.Spec.Stop
	if c.Status.Attempt > 0 {
		n.Spec.From = c.Spec.From // it has begun with that
	}
	if n.Spec.Queue == "" {
		n.Spec.Queue = c.Spec.Queue
	}
	if c.Status.Attempt > 0 && n.Spec.Zone != c.Spec.Zone && n.Spec.Zone != "" && (len(c.Status.Zones) != 1 || n.Spec.Zone != c.Status.Zones[0]) {
		return immutable("spec.zone", fault.T("Its home is in zone %[1]s; it goes elsewhere with: fermi env move %[2]s --zone %[3]s.", "其主目录位于可用区 %[1]s；如需迁移：fermi env move %[2]s --zone %[3]s。", c.Status.Zones, c.Meta.Name, n.Spec.Zone))
	}
	if c.Status.Phase.Finished() {
		return nil
	}
	same := n.Spec
	same.Description, same.Ways, same.Rest, same.Storage = c.Spec.Description, c.Spec.Ways, c.Spec.Rest, c.Spec.Storage
	if !reflect.DeepEqual(same, c.Spec) {
		return immutable("spec", fault.T("While it runs, only description, idle, ports, schedule, shared, stop and storage may change; stop it first.", "运行期间只能修改 description、idle、ports、schedule、shared、stop 与 storage；请先停止该环境。"))
	}
	return nil
}

func immutable(path string, why fault.Text) error {
	return fault.New(fault.Conflict, "Immutable", why).WithFields(fault.Field{Path: path, Message: why})
}
