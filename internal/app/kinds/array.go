package kinds

import (
	"cmp"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/array"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/api/v1/image"
	control "github.com/fermi-cluster/fermi/internal/control/array"
	"github.com/fermi-cluster/fermi/internal/control/work"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/server"
	"github.com/fermi-cluster/fermi/internal/server/objects"
)

// ShipArrays registers task arrays. It may be said again.
var ShipArrays = sync.OnceFunc(func() {
	Register(arrays)
})

// arrays are the kind TaskArray.
var arrays = Work{
	Row: array.Row,
	Door: server.WorkRow{
		Fresh: func(o api.Work) error {
			s := &o.(*array.TaskArray).Spec
			s.Stop, s.Restore = false, nil
			return nil
		},
		Images: func(o api.Work) []image.Field { return image.FieldsOf(&o.(*array.TaskArray).Spec.TrainingTaskSpec) },
		Queue:  func(o api.Work, queue string) { o.(*array.TaskArray).Spec.Queue = queue },
		Begin: func(o api.Work, _ string, _ fault.Text) {
			a := o.(*array.TaskArray)
			list, _ := array.Parse(a.Spec.Indexes) // it was valid
			a.Status = array.TaskArrayStatus{
				Phase: api.PhaseRunning, Reason: "Submitted", Message: fault.T("Its first tasks are being made.", "正在创建首批任务。"), Count: array.ArrayCount{Total: len(list), Held: len(list)},
			}
		},
		Change:  changeArray,
		Verbs:   []server.WorkVerb{stopArray},
		Example: map[string]any{"metadata": map[string]any{"name": "sweep"}, "spec": map[string]any{"indexes": "1-100", "atOnce": 10, "roles": []map[string]any{{"command": []string{"sh", "-c", "echo $FERMI_ARRAY_INDEX"}}}}},
	},
	New: func(cfg work.Config, _ devenv.Policy) work.Keeper { return control.New(cfg, id.Default) },
}

// changeArray takes over how many run at once and the description; its tasks stay alike.
func changeArray(next, current, given api.Work) error {
	n, c, g := next.(*array.TaskArray), current.(*array.TaskArray), given.(*array.TaskArray)
	g.Default()
	g.Spec.Queue, g.Spec.Stop = cmp.Or(g.Spec.Queue, c.Spec.Queue), c.Spec.Stop
	n.Spec = g.Spec
	same := n.Spec
	same.AtOnce, same.Description = c.Spec.AtOnce, c.Spec.Description
	if !objects.SameJSON(same, c.Spec) {
		return immutable("spec", fault.T("Of an array only atOnce and description may change: its tasks are alike. Make another one.", "任务阵列只能修改 atOnce 与 description，其任务保持一致；请新建一个阵列。"))
	}
	return nil
}

var stopArray = server.WorkVerb{
	Word: "stop", Summary: "End all tasks of an array, and begin no more.", Ends: true,
	Reason: "StopRequested", Event: fault.T("A stop was asked for.", "已请求停止。"),
	Do: func(o api.Work, _ time.Time) (fault.Text, bool) {
		a := o.(*array.TaskArray)
		if a.Spec.Stop || a.Status.Phase.Finished() {
			return fault.T("The array has ended or is ending already", "该任务阵列已结束或正在结束"), false
		}
		a.Spec.Stop = true
		return fault.T("The tasks of the array are ending", "任务阵列中的任务正在停止"), true
	},
}
