package server

import (
	"slices"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/server/train"
)

const (
	submitPath   = "/api/v1/training-tasks/existing"
	existingPath = submitPath + "/preview"
)

// environment is a running task of one replica, on a node of its own with so many devices.
func environment(w *world, project, name, zone string, number uint32, devices int) *api.TrainingTask {
	w.t.Helper()
	node := &api.Node{Meta: api.Meta{Name: "node-of-" + name}, Spec: api.NodeSpec{Number: number, Zone: zone}}
	for i := range devices {
		node.Spec.Devices = append(node.Spec.Devices, api.Device{Index: i, Type: "A100", Vendor: "nvidia"})
	}
	w.put(node)
	task := manifest(name, func(t *api.TrainingTask) {
		t.Meta.Project = project
		t.Spec.Roles[0].Resources = api.Resources{CPU: api.MilliCPU(8000 * devices), Memory: api.Bytes(devices) << 36, Accelerators: api.Accelerators{Type: "A100", Count: devices}}
	})
	must(w.t, api.Prepare(task, id.Default.Random))
	task.Spec.Queue, task.Status.Phase = "default", api.PhaseRunning
	w.put(task)
	w.put(&api.Placement{Meta: api.Meta{Name: task.Meta.ID, DisplayName: name, Project: project}, Spec: api.PlacementSpec{
		TaskID: task.Meta.ID, Attempt: 1, Roles: []api.RoleAssignment{{Role: "worker", Slots: api.Slots{{Node: number, Devices: 1<<devices - 1}}}},
	}})
	return task
}

// seedRequest is the one of the seed, without the data set and the model that it names; with its strategy or without.
func seedRequest(strategy bool) string {
	text := `{
  "taskName": "gpt3-pretraining",
  "launchMode": "existing",
  "distributedConfig": {
    "enabled": true,
    "nodeIds": ["env-001", "env-003", "env-005"],
    "masterNode": "env-001",
    "framework": "deepspeed"STRATEGY
  }
}`
	with := ""
	if strategy {
		with = `,
    "strategy": {
      "dataParallel": 2,
      "pipelineParallel": 4,
      "tensorParallel": 8
    }`
	}
	return strings.Replace(text, "STRATEGY", with, 1)
}

// TestExistingRefusesWhatItWouldIgnore: the seed's request names a dataset and a model that are not there.
func TestExistingRefusesWhatItWouldIgnore(t *testing.T) {
	w := newWorld(t)
	environment(w, "default", "env-001", "z", 101, 2)
	for _, path := range []string{submitPath, "/api/v1/training-tasks"} {
		a := w.refused("POST", path, `{"taskName":"t","datasetId":"dataset-001","datasetVersionId":"v","modelId":"model-001","launchMode":"existing","distributedConfig":{"enabled":true,"nodeIds":["env-001"]}}`, 400, "InvalidField")
		if len(a.Fields) != 1 || a.Fields[0].Path != "spec.datasets[0]" {
			t.Errorf("%s: %+v", path, a)
		}
	}
}

func TestExistingRoute(t *testing.T) {
	w := newWorld(t)
	w.put(&api.Zone{Meta: api.Meta{Name: "beijing-a"}, Spec: api.ZoneSpec{Region: "r", LatencyMs: map[string]float64{"shenzhen-c": 40, "shanghai-a": 28.5}}})
	first := environment(w, "default", "env-001", "beijing-a", 101, 2)
	environment(w, "default", "env-003", "shenzhen-c", 103, 4)
	environment(w, "default", "env-005", "shanghai-a", 105, 8)
	var p api.ExistingPreview
	w.ok("POST", existingPath, seedRequest(false), &p)
	if p.NodeCount != 3 || p.TotalGPUs != 14 || p.TotalCPUs != 112_000 || p.TotalMemory != 896<<30 || !slices.Equal(p.GPUTypes, []string{"A100"}) || !p.IsDistributed || p.MasterNode != "env-001" || p.Framework != "deepspeed" {
		t.Errorf("%+v", p)
	}
	if !slices.Equal(p.Zones, []string{"beijing-a", "shenzhen-c", "shanghai-a"}) || p.Message.ZH != "分布式训练 · 3个节点 · 总计14个GPU" || p.Recipe.RankCount != 14 {
		t.Errorf("%v %s %d", p.Zones, p.Message.ZH, p.Recipe.RankCount)
	}
	if last := p.Warnings[len(p.Warnings)-1].EN; !strings.Contains(last, "3 zones; the longest round trip is 40.0 ms, between beijing-a and shenzhen-c") {
		t.Errorf("%v", p.Warnings)
	}
	// 2 × 4 × 8 = 64 on 14 devices, and then one that fits.
	answer := w.refused("POST", existingPath, seedRequest(true), 400, "BadSelection")
	if len(answer.Fields) == 0 || answer.Fields[0].Path != "distributedConfig.strategy" || !strings.Contains(answer.Fields[0].Message, "2 × 7 × 1") {
		t.Errorf("%+v", answer)
	}
	// By its id, and with another master.
	w.ok("POST", existingPath, `{"taskName":"t","launchMode":"existing","distributedConfig":{"enabled":true,"nodeIds":["env-003","`+first.Meta.ID+`"],"masterNode":"`+first.Meta.ID+`"}}`, &p)
	if p.MasterNode != first.Meta.ID || p.Nodes[0].Name != "env-001" || p.Framework != "pytorch-ddp" || !strings.Contains(p.Recipe.Files[0].Text, "world_size: 6\n  nnodes: 2\n") {
		t.Errorf("%+v", p)
	}
	one := func(ids string) string {
		return `{"taskName":"t","launchMode":"existing","distributedConfig":{"enabled":true,"nodeIds":[` + ids + `]}}`
	}
	pending := manifest("waits", func(t *api.TrainingTask) { t.Meta.Project = "default" })
	must(t, api.Prepare(pending, id.Default.Random))
	pending.Spec.Queue, pending.Status.Phase = "default", api.PhasePending
	w.put(pending)
	for name, body := range map[string]string{
		"unknown":     one(`"env-009"`),
		"not running": one(`"waits"`),
		"no name":     one(`"../x"`),
		"twice":       one(`"env-001","` + first.Meta.ID + `"`),
		"none":        one(``),
		"master":      `{"taskName":"t","launchMode":"existing","distributedConfig":{"nodeIds":["env-001"],"masterNode":"env-003"}}`,
		"mode":        `{"taskName":"t","launchMode":"new","distributedConfig":{"nodeIds":["env-001"]}}`,
		"framework":   `{"taskName":"t","launchMode":"existing","distributedConfig":{"nodeIds":["env-001"],"framework":"torch"}}`,
		"batch":       `{"taskName":"t","launchMode":"existing","distributedConfig":{"nodeIds":["env-003"],"trainBatchSize":10}}`,
	} {
		if got := w.refused("POST", existingPath, body, 400, "BadSelection"); len(got.Fields) == 0 || !strings.HasPrefix(got.Fields[0].Path, "distributedConfig.") && name != "mode" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	w.refused("POST", existingPath, `{"taskName":"t","launchMode":"existing","distributedConfig":{"nodeIds":["env-001"]},"x":1}`, 400, "BadBody")
}

// TestSubmitExisting: the seed's request makes a task inside its environments, by both doors.
func TestSubmitExisting(t *testing.T) {
	w := newWorld(t)
	for i, name := range []string{"env-001", "env-003", "env-005"} {
		environment(w, "default", name, "z", uint32(101+i), 2<<i)
	}
	for _, path := range []string{submitPath, "/api/v1/training-tasks"} {
		var got train.Submitted
		w.ok("POST", path, seedRequest(false), &got)
		if got.TaskID == "" || got.Status != "pending" || got.DistributedInfo == nil || *got.DistributedInfo != (train.DistributedInfo{NodeCount: 3, TotalGPUs: 14, MasterNode: "env-001", Framework: "deepspeed"}) {
			t.Errorf("%s: %+v %+v", path, got, got.DistributedInfo)
		}
		spec := got.Task.Spec
		if !slices.Equal(spec.Inside, []string{"env-001", "env-003", "env-005"}) || spec.Roles[0].Replicas != 3 || spec.Roles[0].Resources != (api.Resources{}) {
			t.Errorf("%s: %+v", path, spec)
		}
		w.refused("POST", path, seedRequest(true), 400, "BadSelection")
	}
	var dry train.Submitted
	w.ok("POST", submitPath+"?dryRun=true", `{"taskName":"t","launchMode":"existing","command":["true"],"distributedConfig":{"enabled":true,"nodeIds":["env-003","env-001"],"masterNode":"env-001"}}`, &dry)
	if !slices.Equal(dry.Task.Spec.Inside, []string{"env-001", "env-003"}) || dry.Task.Spec.Roles[0].Command[0] != "true" {
		t.Errorf("%+v", dry.Task.Spec)
	}
	guest := manifest("guest", func(t *api.TrainingTask) { t.Spec.Inside = []string{"env-001"} })
	guest.Spec.Roles[0].Resources = api.Resources{}
	w.ok("POST", "/api/v1/training-tasks", guest, nil)
	for path, change := range map[string]func(t *api.TrainingTask){
		"spec.inside[0]":            func(t *api.TrainingTask) { t.Spec.Inside = []string{"guest"} },
		"spec.inside[1]":            func(t *api.TrainingTask) { t.Spec.Inside, t.Spec.Roles[0].Replicas = []string{"env-001", "env-009"}, 2 },
		"spec.inside":               func(t *api.TrainingTask) { t.Spec.Roles[0].Replicas = 2 },
		"spec.roles[0].resources":   func(t *api.TrainingTask) { t.Spec.Roles[0].Resources.CPU = 1000 },
		"spec.zones":                func(t *api.TrainingTask) { t.Spec.Zones = &api.ZoneRules{Allow: []string{"z"}} },
		"spec.roles[0].minReplicas": func(t *api.TrainingTask) { one := 1; t.Spec.Roles[0].MinReplicas = &one },
	} {
		bad := manifest("bad", func(t *api.TrainingTask) { t.Spec.Inside = []string{"env-001"} })
		bad.Spec.Roles[0].Resources = api.Resources{}
		change(bad)
		if got := w.refused("POST", "/api/v1/training-tasks", bad, 400, "InvalidField"); len(got.Fields) == 0 || got.Fields[0].Path != path {
			t.Errorf("%s: %+v", path, got)
		}
	}
	w.refused("POST", "/api/v1/placements/preview", guest, 400, "InvalidField")
}

// TestEndEnvironmentInUse: who ends an environment ends what trains in it, and is told so first.
func TestEndEnvironmentInUse(t *testing.T) {
	for method, path := range map[string]string{"POST": "/api/v1/training-tasks/env/stop", "DELETE": "/api/v1/training-tasks/env"} {
		w := newWorld(t)
		task := environment(w, "default", "env", "z", 101, 1)
		task.Status.InUseBy = "train-1"
		w.put(task)
		if got := w.refused(method, path, nil, 409, "InUse"); !strings.Contains(got.Message, "train-1") {
			t.Errorf("%+v", got)
		}
		w.ok(method, path+"?force=true", nil, nil)
		w.ok(method, path, nil, nil) // it is ending already
	}
}
