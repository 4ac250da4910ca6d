package train

import (
	"context"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/blob/sealed"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/objects"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/tenant"
)

// TaskHooks is the row of TrainingTask. left is what a task leaves when it ends.
func TaskHooks(g *Gate, p *Previews, d *Desk, left *Leftovers) *objects.Hooks {
	return &objects.Hooks{
		Kind:   api.KindTrainingTask,
		Access: access.Kind{Read: access.ReadOwn, Write: access.WriteTasks, Task: true},
		Read: objects.Reading{
			Instead: func(ctx context.Context, c *rest.Call, data []byte) (*rest.Reply, error) {
				if wantsExisting(data) {
					return p.submitExisting(ctx, c, data)
				}
				return nil, nil
			},
			Decode:  decodeTask,
			Foreign: func(data []byte) bool { _, flat := flatFields(data); return flat },
			Settle:  func(ctx context.Context, o api.Object) error { return nameZones(ctx, g.truth, o) },
			Example: map[string]any{"metadata": map[string]any{"displayName": "GPT大模型分布式训练"}, "spec": map[string]any{"roles": []map[string]any{{"command": []string{"echo", "hi"}}}}},
			Schema: func(reg *rest.Schemas) *huma.Schema {
				return &huma.Schema{AnyOf: []*huma.Schema{reg.Kind(api.MustInfo(api.KindTrainingTask)), reg.Of(reflect.TypeFor[flatTask]())}}
			},
		},
		Fresh: freshTask,
		References: func(ctx context.Context, c *rest.Call, o api.Object) error {
			return g.References(ctx, c, o.(api.Work))
		},
		Admit: func(ctx context.Context, c *rest.Call, b *objects.Birth, dry bool) error {
			t := b.Object.(*api.TrainingTask)
			if err := checkRecipe(t); err != nil {
				return err
			}
			return g.admitTask(ctx, c, b, t, dry)
		},
		Born: objects.Bearing{
			Message: fault.T("Training task created", "训练任务创建成功"),
			Data:    func(o api.Object, _ string) any { return submittedOf(o.(*api.TrainingTask)) },
			Schema:  rest.SchemaOf[Submitted],
			At:      "/name",
		},
		Change: func(ctx context.Context, _ *rest.Call, a *objects.Alteration) func() error {
			next, current, given := a.Next.(*api.TrainingTask), a.Current.(*api.TrainingTask), a.Given.(*api.TrainingTask)
			g.keepFolder(given, current)
			given.Spec.Datasets, given.Spec.Models = keepRefs(given.Spec.Datasets, current.Spec.Datasets), keepRefs(given.Spec.Models, current.Spec.Models)
			fixed := changeTask(next, current, given)
			return func() error {
				if err := fixed(); err != nil {
					return err
				}
				return g.mayRaise(ctx, next, current)
			}
		},
		Filter: &objects.Filtering{
			Phases: PhaseWords(),
			By: func(o api.Object) (queue, phase string) {
				t := o.(*api.TrainingTask)
				return t.Spec.Queue, string(t.Status.Phase)
			},
		},
		Remove: objects.Removing{Params: []rest.Param{rest.ParamForce}, Mark: d.markDeleted, Bytes: left.Erase, Forgotten: left.Forget},
	}
}

// PhaseWords are the phases that lists choose by.
func PhaseWords() []string {
	out := make([]string, 0, len(rest.TaskPhases))
	for _, p := range rest.TaskPhases {
		out = append(out, string(p))
	}
	return out
}

// freshTask refuses what only verbs set.
func freshTask(o api.Object, _ *access.Caller) error {
	t := o.(*api.TrainingTask)
	t.Status = api.TrainingTaskStatus{}
	if t.Spec.Stop {
		return refuse.ServerSets("spec.stop", fault.T("It is set by the stop verb; leave it out.", "该字段由停止操作设置，请删除。"))
	}
	if t.Spec.Restore != nil {
		return refuse.ServerSets("spec.restore", fault.T("It is set by the restore verb; leave it out, or name a checkpoint in spec.checkpoint.from.", "该字段由恢复操作设置，请删除，或在 spec.checkpoint.from 中指定检查点。"))
	}
	return nil
}

// changeTask takes over what may change once a task is made, and refuses the rest by name.
// Queue, stop and restore, which the server filled in, may be left out.
func changeTask(next, current, given *api.TrainingTask) func() error {
	next.Spec = given.Spec
	if next.Spec.Queue == "" {
		next.Spec.Queue = current.Spec.Queue
	}
	if !next.Spec.Stop {
		next.Spec.Stop = current.Spec.Stop
	}
	if next.Spec.Restore == nil {
		next.Spec.Restore = current.Spec.Restore
	}
	// Somebody who read both and changed one of them means that one.
	samePriority := objects.SameJSON(given.Spec.Priority, current.Spec.Priority)
	sameClass := given.Spec.PriorityClass == current.Spec.PriorityClass
	switch {
	case given.Spec.Priority != nil && !samePriority && sameClass:
		next.Spec.PriorityClass = ""
	case given.Spec.PriorityClass != "" && !sameClass && samePriority:
		next.Spec.Priority = nil
	}
	return func() error {
		if fields := immutableFields(&next.Spec, &current.Spec); len(fields) > 0 {
			return refuse.Immutable(fields)
		}
		return nil
	}
}

var mutableTask = map[string]bool{"Description": true, "Priority": true, "PriorityClass": true}

func immutableFields(next, current *api.TrainingTaskSpec) []fault.Field {
	var fields []fault.Field
	a, b := reflect.ValueOf(next).Elem(), reflect.ValueOf(current).Elem()
	for i := range a.NumField() {
		field := a.Type().Field(i)
		if mutableTask[field.Name] || objects.SameJSON(a.Field(i).Interface(), b.Field(i).Interface()) {
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		fields = append(fields, refuse.FixedField("spec."+name))
	}
	return fields
}

// Leftovers are the bytes that a task leaves.
type Leftovers struct {
	Logs   LogReader
	Blob   blob.Store
	Saved  Checkpoints   // nil: there are none
	Stored tenant.Stored // nil: nobody counts bytes
	Points history.Metrics
}

// Erase deletes all of them; it may be said again.
func (l *Leftovers) Erase(ctx context.Context, id string) error {
	if err := l.Logs.Delete(ctx, id); err != nil {
		return err
	}
	if err := sealed.Delete(ctx, l.Blob, "outputs/"+id+"/"); err != nil {
		return err
	}
	if err := l.Points.ForgetPoints(ctx, id); err != nil || l.Saved == nil {
		return err
	}
	return l.Saved.Erase(ctx, id)
}

// Forget takes them out of what is counted.
func (l *Leftovers) Forget(id string) {
	if l.Stored != nil {
		l.Stored.Forget(id)
	}
}
