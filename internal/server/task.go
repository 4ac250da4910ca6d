package server

import (
	"context"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// taskHooks is the row of TrainingTask. left is what a task leaves when it ends.
func taskHooks(g *gate, p *previews, d *desk, left *leftovers) *hooks {
	return &hooks{
		kind:   api.KindTrainingTask,
		access: kindAccess{read: readOwn, write: rule{all, none, own, none, tasks, false}, task: true},
		read: reading{
			instead: func(ctx context.Context, c *call, data []byte) (*reply, error) {
				if wantsExisting(data) {
					return p.submitExisting(ctx, c, data)
				}
				return nil, nil
			},
			decode:  decodeTask,
			foreign: func(data []byte) bool { _, flat := flatFields(data); return flat },
			settle:  func(ctx context.Context, o api.Object) error { return nameZones(ctx, g.truth, o) },
			example: map[string]any{"metadata": map[string]any{"displayName": "GPT大模型分布式训练"}, "spec": map[string]any{"roles": []map[string]any{{"command": []string{"echo", "hi"}}}}},
			schema: func(reg *schemas) *huma.Schema {
				return &huma.Schema{AnyOf: []*huma.Schema{reg.kind(api.MustInfo(api.KindTrainingTask)), reg.of(reflect.TypeFor[flatTask]())}}
			},
		},
		fresh: freshTask,
		references: func(ctx context.Context, c *call, o api.Object) error {
			return g.references(ctx, c, o.(api.Work))
		},
		admit: func(ctx context.Context, c *call, b *birth, dry bool) error {
			t := b.object.(*api.TrainingTask)
			if err := checkRecipe(t); err != nil {
				return err
			}
			return g.admitTask(ctx, c, b, t, dry)
		},
		born: bearing{
			message: fault.T("Training task created", "训练任务创建成功"),
			data:    func(o api.Object, _ string) any { return submittedOf(o.(*api.TrainingTask)) },
			schema:  schemaOf[submitted],
			at:      "/name",
		},
		change: func(ctx context.Context, _ *call, a *alteration) func() error {
			next, current, given := a.next.(*api.TrainingTask), a.current.(*api.TrainingTask), a.given.(*api.TrainingTask)
			g.keepFolder(given, current)
			fixed := changeTask(next, current, given)
			return func() error {
				if err := fixed(); err != nil {
					return err
				}
				return g.mayRaise(ctx, next, current)
			}
		},
		filter: &filtering{
			phases: phaseWords(),
			by: func(o api.Object) (queue, phase string) {
				t := o.(*api.TrainingTask)
				return t.Spec.Queue, string(t.Status.Phase)
			},
		},
		remove: removing{params: []param{paramForce}, mark: d.markDeleted, bytes: left.erase, forgotten: left.forget},
	}
}

func phaseWords() []string {
	out := make([]string, 0, len(taskPhases))
	for _, p := range taskPhases {
		out = append(out, string(p))
	}
	return out
}

// freshTask refuses what only verbs set.
func freshTask(o api.Object, _ *caller) error {
	t := o.(*api.TrainingTask)
	t.Status = api.TrainingTaskStatus{}
	if t.Spec.Stop {
		return serverSets("spec.stop", fault.T("It is set by the stop verb; leave it out.", "该字段由停止操作设置，请删除。"))
	}
	if t.Spec.Restore != nil {
		return serverSets("spec.restore", fault.T("It is set by the restore verb; leave it out, or name a checkpoint in spec.checkpoint.from.", "该字段由恢复操作设置，请删除，或在 spec.checkpoint.from 中指定检查点。"))
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
	samePriority := sameJSON(given.Spec.Priority, current.Spec.Priority)
	sameClass := given.Spec.PriorityClass == current.Spec.PriorityClass
	switch {
	case given.Spec.Priority != nil && !samePriority && sameClass:
		next.Spec.PriorityClass = ""
	case given.Spec.PriorityClass != "" && !sameClass && samePriority:
		next.Spec.Priority = nil
	}
	return func() error {
		if fields := immutableFields(&next.Spec, &current.Spec); len(fields) > 0 {
			return immutable(fields)
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
		if mutableTask[field.Name] || sameJSON(a.Field(i).Interface(), b.Field(i).Interface()) {
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		fields = append(fields, fixedField("spec."+name))
	}
	return fields
}

// leftovers are the bytes that a task leaves.
type leftovers struct {
	logs   LogReader
	blob   blob.Store
	saved  Checkpoints // nil: there are none
	stored Stored      // nil: nobody counts bytes
}

// erase deletes all of them; it may be said again.
func (l *leftovers) erase(ctx context.Context, id string) error {
	if err := l.logs.Delete(ctx, id); err != nil {
		return err
	}
	if err := l.blob.Delete(ctx, "outputs/"+id+"/"); err != nil {
		return err
	}
	if l.saved == nil {
		return nil
	}
	return l.saved.Erase(ctx, id)
}

// forget takes them out of what is counted.
func (l *leftovers) forget(id string) {
	if l.stored != nil {
		l.stored.Forget(id)
	}
}
