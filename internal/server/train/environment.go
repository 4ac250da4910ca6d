package train

import (
	"context"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/selection"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/truth"
)

// surroundings finds running tasks that others may train inside.
type surroundings struct{ truth *truth.Truth }

// environments finds running tasks of one replica, in the project, by name or id; at is where they are asked for.
func (s *surroundings) environments(ctx context.Context, project, at string, ids []string) ([]selection.Node, error) {
	numbers := map[uint32]*api.Node{}
	snap, err := s.truth.List(ctx, api.KindNode, "", 0)
	if err != nil {
		return nil, err
	}
	snap.Ascend("", func(o api.Object) bool {
		numbers[o.(*api.Node).Spec.Number] = o.(*api.Node)
		return true
	})
	var nodes []selection.Node
	var fields []fault.Field
	for i, id := range ids {
		n, why, err := s.environment(ctx, project, id, numbers)
		if err != nil {
			return nil, err
		}
		if why != nil {
			fields = append(fields, fault.Field{Path: refuse.Indexed(at, i), Message: *why})
			continue
		}
		nodes = append(nodes, n)
	}
	if len(fields) > 0 {
		return nil, selection.Refuse(fields)
	}
	return nodes, nil
}

// environment is one; why says what makes it no environment to train in.
func (s *surroundings) environment(ctx context.Context, project, id string, numbers map[uint32]*api.Node) (n selection.Node, why *fault.Text, err error) {
	no := func(en, zh string, args ...any) (selection.Node, *fault.Text, error) {
		text := fault.T(en, zh, args...)
		return selection.Node{}, &text, nil
	}
	shown := refuse.Clip(id, 64)
	var o api.Object
	err = fault.New(fault.NotFound, "NotFound", fault.T("Not found.", "未找到。"))
	if api.IsName(id) {
		if o, err = s.truth.Find(ctx, api.Key{Kind: api.KindTrainingTask, Project: project, Name: id}, 0); fault.Is(err, fault.NotFound) {
			o, err = s.truth.GetByID(ctx, api.KindTrainingTask, id, 0)
		}
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return n, nil, err
	}
	if err != nil || o.GetMeta().Project != project {
		return no("There is no environment %q in the project; choose a running one.", "项目中没有环境 %q，请选择运行中的环境。", shown)
	}
	task := o.(*api.TrainingTask)
	if task.Status.Phase != api.PhaseRunning || task.Spec.Stop || task.Meta.DeletedAt != nil {
		return no("%q does not run; choose a running environment.", "%q 未在运行，请选择运行中的环境。", shown)
	}
	if len(task.Spec.Inside) > 0 {
		return no("%q runs inside others; choose those.", "%q 在其他环境内运行，请选择那些环境。", shown)
	}
	if len(task.Spec.Roles) != 1 || task.Spec.Roles[0].Replicas != 1 {
		return no("%q has several replicas; an environment is one.", "%q 有多个副本，而环境只有一个。", shown)
	}
	po, err := s.truth.Find(ctx, api.PlaceKey(project, task.Meta.ID), 0)
	if fault.Is(err, fault.NotFound) {
		return no("%q has no place any more; choose a running environment.", "%q 已无放置，请选择运行中的环境。", shown)
	}
	if err != nil {
		return n, nil, err
	}
	p := po.(*api.Placement)
	if p.Spec.TaskID != task.Meta.ID || len(p.Spec.Roles) != 1 || len(p.Spec.Roles[0].Slots) != 1 || numbers[p.Spec.Roles[0].Slots[0].Node] == nil {
		return no("%q has no place any more; choose a running environment.", "%q 已无放置，请选择运行中的环境。", shown)
	}
	slot := p.Spec.Roles[0].Slots[0]
	host, res := numbers[slot.Node], task.Spec.Roles[0].Resources
	n = selection.Node{ID: id, Key: task.Meta.ID, Name: task.Meta.Name, Node: host.Meta.Name, Zone: host.Spec.Zone, CPU: res.CPU, Memory: res.Memory}
	for bit, d := range host.Spec.Devices {
		if slot.Devices&(1<<bit) != 0 {
			n.Devices = append(n.Devices, d)
		}
	}
	return n, nil, nil
}

// roundTrip is what is declared or measured between two zones, in milliseconds.
func (s *surroundings) roundTrip(ctx context.Context) func(a, b string) (float64, bool) {
	one := func(a, b string) (float64, bool) {
		o, err := s.truth.Find(ctx, api.Key{Kind: api.KindZone, Name: a}, 0)
		if err != nil {
			return 0, false
		}
		z := o.(*api.Zone)
		if m, ok := z.Status.Measured[b]; ok {
			return m.P50Ms, true
		}
		ms, ok := z.Spec.LatencyMs[b]
		return ms, ok
	}
	return func(a, b string) (float64, bool) {
		if ms, ok := one(a, b); ok {
			return ms, true
		}
		return one(b, a)
	}
}
