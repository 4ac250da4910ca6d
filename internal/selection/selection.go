package selection

import (
	"fmt"
	"slices"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/recipe"
)

// at is where the choice stands in the request.
const at = "distributedConfig."

// The bounds of a request.
const (
	maxNodes = 1024
	maxText  = 256
	maxSize  = 1 << 20
	maxBatch = 1 << 30
)

// maxShown is how many ranks of the recipe are shown: they differ in their numbers only.
const maxShown = 8

// Node is an environment that was found.
type Node struct {
	ID      string // as it was asked for
	Key     string // what it is, whatever it was asked by
	Name    string
	Node    string
	Zone    string
	Devices []api.Device
	CPU     api.MilliCPU
	Memory  api.Bytes
}

// Check refuses what no environments could make right.
func Check(r *api.ExistingRequest) []fault.Field {
	var out []fault.Field
	add := func(path, en, zh string, args ...any) {
		out = append(out, fault.Field{Path: path, Message: fault.T(en, zh, args...)})
	}
	d := &r.Distributed
	if n := len(strings.TrimSpace(r.TaskName)); n == 0 || n > maxText {
		add("taskName", "Give the task a name, of at most %d bytes.", "请输入任务名称，不超过 %d 字节。", maxText)
	}
	if r.LaunchMode != "existing" {
		add("launchMode", "Only existing environments are chosen here; use existing.", "此处仅支持选择现有环境，请使用 existing。")
	}
	switch n := len(d.NodeIDs); {
	case n == 0:
		add(at+"nodeIds", "Choose at least one environment.", "请至少选择一个开发环境。")
	case n > maxNodes:
		add(at+"nodeIds", "At most %d environments can be chosen.", "最多可选择 %d 个环境。", maxNodes)
	case n > 1 && !d.Enabled:
		add(at+"enabled", "Several environments are a distributed training; set enabled.", "选择多个环境即为分布式训练，请将 enabled 设为 true。")
	}
	if d.MasterNode != "" && len(d.NodeIDs) > 0 && !slices.Contains(d.NodeIDs, d.MasterNode) {
		add(at+"masterNode", "The master must be one of the chosen environments; leave it out for the first, or use one of nodeIds.", "主节点必须是所选环境之一；不填则为第一个。")
	}
	if d.Framework != "" && !slices.Contains(api.Frameworks, d.Framework) {
		add(at+"framework", "The framework is not known; use one of %s.", "未知的框架，可用的有 %s。", names(api.Frameworks))
	}
	if s := d.Strategy; s != nil && (min(s.DataParallel, s.PipelineParallel, s.TensorParallel) < 0 || max(s.DataParallel, s.PipelineParallel, s.TensorParallel) > maxSize) {
		add(at+"strategy", "A size is out of range: 0 to %d are allowed.", "某项大小超出范围：允许 0 到 %d。", maxSize)
	}
	if d.TrainBatchSize < 0 || d.TrainBatchSize > maxBatch {
		add(at+"trainBatchSize", "The batch is out of range: 0 to %d are allowed.", "批大小超出范围：允许 0 到 %d。", maxBatch)
	}
	return out
}

func names(list []api.Framework) string {
	out := make([]string, len(list))
	for i, f := range list {
		out[i] = string(f)
	}
	return strings.Join(out, ", ")
}

// Preview is what the environments, found in the order of the request, are together. latency is the
// round trip between two zones in milliseconds, where it is known.
func Preview(r *api.ExistingRequest, nodes []Node, latency func(a, b string) (float64, bool)) (*api.ExistingPreview, error) {
	fields := twice(nodes)
	if len(fields) > 0 {
		return nil, Refuse(fields)
	}
	nodes = masterFirst(r, nodes)
	out := sum(nodes)
	out.Framework = r.Distributed.Framework
	if out.Framework == "" {
		out.Framework = "pytorch-ddp"
	}
	made, err := recipe.Make(input(r, out.Framework, nodes))
	if err != nil {
		return nil, moved(err)
	}
	out.Recipe = made.Summary(maxShown)
	out.Warnings, out.Recipe.Warnings = out.Recipe.Warnings, nil
	if out.Framework == api.FrameworkPlain && len(out.GPUTypes) > 1 { // frameworks' recipes say so themselves
		out.Warnings = append(out.Warnings, fault.T("The environments have several types of devices (%s): the slowest sets the pace.",
			"所选环境有多种加速卡（%s）：速度取决于最慢的一种。", strings.Join(out.GPUTypes, ", ")))
	}
	if w, ok := crossing(out.Zones, latency); ok {
		out.Warnings = append(out.Warnings, w)
	}
	out.Message = fault.T("Training on one environment: %s", "使用环境: %s", nodes[0].Name)
	if out.IsDistributed {
		out.Message = fault.T("Distributed training · %d [node|nodes] · %d [GPU|GPUs] in all", "分布式训练 · %d个节点 · 总计%d个GPU", out.NodeCount, out.TotalGPUs)
	}
	return out, nil
}

// Refuse is the fault of a choice.
func Refuse(fields []fault.Field) error {
	return fault.New(fault.Invalid, "BadSelection", fault.T("These environments can't be trained on as asked.", "无法按要求在这些环境上训练。")).WithFields(fields...)
}

func twice(nodes []Node) (out []fault.Field) {
	seen := map[string]string{}
	for i, n := range nodes {
		if first, ok := seen[n.Key]; ok {
			out = append(out, fault.Field{Path: fmt.Sprintf("%snodeIds[%d]", at, i), Message: fault.T("This is the same environment as %s; choose it once.", "与 %s 是同一个环境，请只选择一次。", first)})
			continue
		}
		seen[n.Key] = n.ID
	}
	return out
}

// masterFirst puts the master, which has rank 0, before the others.
func masterFirst(r *api.ExistingRequest, nodes []Node) []Node {
	out := slices.Clone(nodes)
	slices.SortStableFunc(out, func(a, b Node) int {
		isA, isB := a.ID == r.Distributed.MasterNode, b.ID == r.Distributed.MasterNode
		switch {
		case isA && !isB:
			return -1
		case isB && !isA:
			return 1
		}
		return 0
	})
	return out
}

func sum(nodes []Node) *api.ExistingPreview {
	out := &api.ExistingPreview{
		NodeCount: len(nodes), IsDistributed: len(nodes) > 1, MasterNode: nodes[0].ID, Devices: map[string]int{}, GPUTypes: []string{}, Zones: []string{},
	}
	for _, n := range nodes {
		own := map[string]int{}
		for _, d := range n.Devices {
			own[d.Type]++
			out.Devices[d.Type]++
			if !slices.Contains(out.GPUTypes, d.Type) {
				out.GPUTypes = append(out.GPUTypes, d.Type)
			}
		}
		if !slices.Contains(out.Zones, n.Zone) {
			out.Zones = append(out.Zones, n.Zone)
		}
		out.TotalGPUs += len(n.Devices)
		out.TotalCPUs += n.CPU
		out.TotalMemory += n.Memory
		out.Nodes = append(out.Nodes, api.ExistingNode{ID: n.ID, Name: n.Name, Node: n.Node, Zone: n.Zone, Devices: own, CPU: n.CPU, Memory: n.Memory})
	}
	return out
}

// Task is the training of a request whose preview was made.
func Task(r *api.ExistingRequest, p *api.ExistingPreview) *api.TrainingTask {
	t := &api.TrainingTask{Meta: api.Meta{DisplayName: strings.TrimSpace(r.TaskName)}}
	t.Spec = api.TrainingTaskSpec{Framework: p.Framework, Strategy: strategy(r), Roles: []api.Role{{Name: "worker", Replicas: len(p.Nodes), Command: command(r), Env: r.Env}}}
	for _, n := range p.Nodes {
		t.Spec.Inside = append(t.Spec.Inside, n.Name)
	}
	return t
}

func command(r *api.ExistingRequest) []string {
	if len(r.Command) > 0 {
		return r.Command
	}
	return []string{"python3", "train.py"}
}

func strategy(r *api.ExistingRequest) *api.Strategy {
	s := r.Distributed.Strategy
	if s == nil && r.Distributed.TrainBatchSize == 0 {
		return nil
	}
	out := &api.Strategy{TrainBatchSize: r.Distributed.TrainBatchSize}
	if s != nil {
		out.Data, out.Pipeline, out.Tensor = s.DataParallel, s.PipelineParallel, s.TensorParallel
	}
	return out
}

// input is the task that the choice would be.
func input(r *api.ExistingRequest, framework api.Framework, nodes []Node) recipe.Input {
	spec := &api.TrainingTaskSpec{Framework: framework, Roles: []api.Role{{Name: "worker", Replicas: len(nodes), Command: command(r)}}}
	spec.Strategy = strategy(r)
	return Input(spec, nodes)
}

// Input is what a recipe is made of for a task inside these environments, one for each replica: each has the devices that are there.
func Input(spec *api.TrainingTaskSpec, nodes []Node) recipe.Input {
	in := recipe.Input{Spec: spec}
	for i, n := range nodes {
		role := spec.Roles[0]
		role.Resources.Accelerators.Count = len(n.Devices)
		in.Groups = append(in.Groups, recipe.Group{
			Role: role.Name, Index: i, Node: n.Node, Address: n.Node, Ranks: max(recipe.Ranks(spec.Framework, &role), 1), Devices: n.Devices,
		})
	}
	return in
}

// moved says a recipe's refusal in the words of the request.
func moved(err error) error {
	f := fault.From(err)
	fields := slices.Clone(f.Fields)
	for i := range fields {
		path := strings.TrimPrefix(fields[i].Path, "spec.")
		for from, to := range map[string]string{"strategy.data": "strategy.dataParallel", "strategy.pipeline": "strategy.pipelineParallel", "strategy.tensor": "strategy.tensorParallel", "strategy.trainBatchSize": "trainBatchSize"} {
			if path == from {
				path = to
				break
			}
		}
		if strings.HasPrefix(path, "roles[") {
			path = "nodeIds"
		}
		fields[i].Path = at + path
	}
	return Refuse(fields)
}

// crossing warns of zones that are far from each other, with the longest way.
func crossing(zones []string, latency func(a, b string) (float64, bool)) (fault.Text, bool) {
	if len(zones) < 2 {
		return fault.Text{}, false
	}
	worst, from, to := 0.0, "", ""
	for i, a := range zones {
		for _, b := range zones[i+1:] {
			if ms, ok := latency(a, b); ok && ms > worst {
				worst, from, to = ms, a, b
			}
		}
	}
	if from == "" {
		return fault.T("The environments stand in %d zones; the latency between them is not known.", "所选环境跨 %d 个可用区；其间延迟未知。", len(zones)), true
	}
	return fault.T("The environments stand in %d zones; the longest round trip is %.1f ms, between %s and %s.", "所选环境跨 %d 个可用区；最长往返延迟为 %.1f 毫秒（%s 与 %s 之间）。", len(zones), worst, from, to), true
}
