package server

import (
	"bytes"
	"context"
	"encoding/json"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/selection"
)

// previewExisting shows what running environments would be together as the nodes of a training.
func (s *Server) previewExisting(ctx context.Context, c *call) (*reply, error) {
	data, err := c.readBody(s.Limits.Body)
	if err != nil {
		return nil, err
	}
	_, out, _, err := s.existing(ctx, c, "previewExisting", data)
	if err != nil {
		return nil, err
	}
	return &reply{data: out}, nil
}

func (s *Server) createExisting(ctx context.Context, c *call) (*reply, error) {
	data, err := c.readBody(s.Limits.Body)
	if err != nil {
		return nil, err
	}
	return s.submitExisting(ctx, c, data)
}

// wantsExisting says that a flat request is for running environments.
func wantsExisting(data []byte) bool {
	flat, ok := flatFields(data)
	return ok && string(flat["launchMode"]) == `"existing"`
}

// submitExisting submits the training: a task that runs inside the environments, the master's first.
func (s *Server) submitExisting(ctx context.Context, c *call, data []byte) (*reply, error) {
	r, out, project, err := s.existing(ctx, c, "createExisting", data)
	if err != nil {
		return nil, err
	}
	t := selection.Task(r, out)
	t.Meta.Project = project
	made, err := s.make(ctx, c, t)
	if err != nil {
		return nil, err
	}
	if answer, ok := made.data.(submitted); ok {
		answer.DistributedInfo = &distributedInfo{NodeCount: out.NodeCount, TotalGPUs: out.TotalGPUs, MasterNode: out.MasterNode, Framework: string(out.Framework)}
		made.data = answer
	}
	return made, nil
}

// existing reads a request and finds its environments.
func (s *Server) existing(ctx context.Context, c *call, id string, data []byte) (r *api.ExistingRequest, out *api.ExistingPreview, project string, err error) {
	r = &api.ExistingRequest{}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(r); err != nil || dec.More() {
		return nil, nil, "", fault.New(fault.Invalid, "BadBody", fault.T(
			`The body is not the JSON expected here, such as {"taskName":"t","launchMode":"existing","distributedConfig":{"enabled":true,"nodeIds":["a","b"]}}.`,
			`请求体不是此处要求的 JSON，例如 {"taskName":"t","launchMode":"existing","distributedConfig":{"enabled":true,"nodeIds":["a","b"]}}。`)).Because(err)
	}
	about := &api.TrainingTask{Meta: api.Meta{Owner: c.who.name()}}
	if err := s.scope(ctx, c, &about.Meta, api.MustInfo(api.KindTrainingTask)); err != nil {
		return nil, nil, "", err
	}
	if err := s.mayAbout(ctx, c.who, id, about); err != nil {
		return nil, nil, "", err
	}
	if fields := selection.Check(r); len(fields) > 0 {
		return nil, nil, "", selection.Refuse(fields)
	}
	nodes, err := s.environments(ctx, about.Meta.Project, "distributedConfig.nodeIds", r.Distributed.NodeIDs)
	if err != nil {
		return nil, nil, "", err
	}
	out, err = selection.Preview(r, nodes, s.roundTrip(ctx))
	return r, out, about.Meta.Project, err
}

// environments finds running tasks of one replica, in the project, by name or id; at is where they are asked for.
func (s *Server) environments(ctx context.Context, project, at string, ids []string) ([]selection.Node, error) {
	numbers := map[uint32]*api.Node{}
	snap, err := s.Store.List(ctx, api.KindNode, "", 0)
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
			fields = append(fields, fault.Field{Path: indexed(at, i), Message: *why})
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
func (s *Server) environment(ctx context.Context, project, id string, numbers map[uint32]*api.Node) (n selection.Node, why *fault.Text, err error) {
	no := func(en, zh string, args ...any) (selection.Node, *fault.Text, error) {
		text := fault.T(en, zh, args...)
		return selection.Node{}, &text, nil
	}
	shown := clip(id, 64)
	var o api.Object
	err = fault.New(fault.NotFound, "NotFound", fault.T("Not found.", "未找到。"))
	if api.IsName(id) {
		if o, err = s.find(ctx, api.Key{Kind: api.KindTrainingTask, Project: project, Name: id}, 0); fault.Is(err, fault.NotFound) {
			o, err = s.Store.GetByID(ctx, api.KindTrainingTask, id, 0)
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
	po, err := s.find(ctx, api.PlaceKey(project, task.Meta.ID), 0)
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

// checkInside refuses environments that are none.
func (s *Server) checkInside(ctx context.Context, t *api.TrainingTask) error {
	for i, name := range t.Spec.Inside {
		o, err := s.refer(ctx, api.Key{Kind: api.KindTrainingTask, Project: t.Meta.Project, Name: name}, indexed("spec.inside", i))
		if err != nil {
			return err
		}
		if env := o.(*api.TrainingTask); len(env.Spec.Inside) > 0 || len(env.Spec.Roles) != 1 || env.Spec.Roles[0].Replicas != 1 {
			return invalid(indexed("spec.inside", i), fault.T("%q is no task of one replica with a place of its own.", "%q 不是拥有自己位置的单副本任务。", name))
		}
	}
	return nil
}

// freeOf refuses to end a task that another runs inside, unless the caller insists.
func (c *call) freeOf(t *api.TrainingTask) error {
	if t.Status.InUseBy == "" || t.Spec.Stop || t.Meta.DeletedAt != nil || c.q.yes("force") {
		return nil
	}
	return fault.New(fault.Conflict, "InUse", fault.T(
		"The task %q trains inside it and would end with it.", "任务 %q 正在其中训练，将随之结束。", t.Status.InUseBy)).WithHint(fault.T(
		"Wait for its end, or insist: --yes, or force=true.", "请等待其结束；若确定，请使用 --yes 或 force=true。"))
}

// roundTrip is what is declared or measured between two zones, in milliseconds.
func (s *Server) roundTrip(ctx context.Context) func(a, b string) (float64, bool) {
	one := func(a, b string) (float64, bool) {
		o, err := s.find(ctx, api.Key{Kind: api.KindZone, Name: a}, 0)
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
