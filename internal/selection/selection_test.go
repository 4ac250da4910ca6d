package selection

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func node(id, zone, device string, devices int) Node {
	n := Node{ID: id, Key: "key-" + id, Name: id, Node: "node-" + id, Zone: zone, CPU: 16000, Memory: 128 << 30}
	for i := range devices {
		n.Devices = append(n.Devices, api.Device{Index: i, Type: device, Vendor: "nvidia"})
	}
	return n
}

func request(change func(d *api.Distributed)) *api.ExistingRequest {
	r := &api.ExistingRequest{TaskName: "t", LaunchMode: "existing", Distributed: api.Distributed{Enabled: true, NodeIDs: []string{"a", "b"}, Framework: "pytorch-ddp"}}
	if change != nil {
		change(&r.Distributed)
	}
	return r
}

func unknown(string, string) (float64, bool) { return 0, false }

func TestPreview(t *testing.T) {
	two := []Node{node("a", "z", "A100", 2), node("b", "z", "V100", 2)}
	p, err := Preview(request(nil), two, unknown)
	if err != nil {
		t.Fatal(err)
	}
	if p.TotalGPUs != 4 || p.Devices["V100"] != 2 || p.TotalCPUs != 32000 || p.TotalMemory != 256<<30 || p.MasterNode != "a" || len(p.Zones) != 1 {
		t.Errorf("%+v", p)
	}
	if !slices.ContainsFunc(p.Warnings, func(w fault.Text) bool { return strings.Contains(w.EN, "several types of devices (A100, V100)") }) {
		t.Errorf("%v", p.Warnings)
	}
	p, err = Preview(request(func(d *api.Distributed) { d.Framework = api.FrameworkPlain }), two, unknown)
	if err != nil || len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0].EN, "several types of devices (A100, V100)") {
		t.Errorf("plain: %v %v", p, err)
	}
	alone, err := Preview(request(func(d *api.Distributed) { d.NodeIDs, d.Enabled = []string{"a"}, false }), two[:1], unknown)
	if err != nil || alone.IsDistributed || alone.Message.ZH != "使用环境: a" {
		t.Errorf("%+v %v", alone, err)
	}
	// Without the first the next is the master.
	if p, err = Preview(request(func(d *api.Distributed) { d.NodeIDs = []string{"b"} }), two[1:], unknown); err != nil || p.MasterNode != "b" {
		t.Errorf("%+v %v", p, err)
	}
	far := []Node{node("a", "x", "A100", 1), node("b", "y", "A100", 1)}
	if p, err = Preview(request(nil), far, unknown); err != nil || !strings.Contains(p.Warnings[len(p.Warnings)-1].EN, "not known") {
		t.Errorf("%+v %v", p, err)
	}
	if _, err = Preview(request(func(d *api.Distributed) { d.TrainBatchSize = 10 }), two, unknown); err == nil || !strings.Contains(fault.From(err).Fields[0].Message.EN, "the nearest sizes are 8") || fault.From(err).Fields[0].Path != "distributedConfig.trainBatchSize" {
		t.Errorf("%+v", fault.From(err))
	}
}

func TestCheck(t *testing.T) {
	for path, change := range map[string]func(r *api.ExistingRequest){
		"taskName":                     func(r *api.ExistingRequest) { r.TaskName = strings.Repeat("a", maxText+1) },
		"launchMode":                   func(r *api.ExistingRequest) { r.LaunchMode = "" },
		"distributedConfig.nodeIds":    func(r *api.ExistingRequest) { r.Distributed.NodeIDs = make([]string, maxNodes+1) },
		"distributedConfig.enabled":    func(r *api.ExistingRequest) { r.Distributed.Enabled = false },
		"distributedConfig.masterNode": func(r *api.ExistingRequest) { r.Distributed.MasterNode = "c" },
		"distributedConfig.framework":  func(r *api.ExistingRequest) { r.Distributed.Framework = "torch" },
		"distributedConfig.strategy": func(r *api.ExistingRequest) {
			r.Distributed.Strategy = &api.ExistingStrategy{TensorParallel: maxSize + 1}
		},
		"distributedConfig.trainBatchSize": func(r *api.ExistingRequest) { r.Distributed.TrainBatchSize = -1 },
	} {
		r := request(nil)
		if got := Check(r); len(got) > 0 {
			t.Fatalf("%+v", got)
		}
		if change(r); len(Check(r)) != 1 || Check(r)[0].Path != path {
			t.Errorf("%s: %+v", path, Check(r))
		}
	}
}

// TestAnyChoice: whatever is asked, it is refused by a field of the request, or its sums are right and
// the processes are as many as the devices.
func TestAnyChoice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "nodes")
		var nodes []Node
		want := 0
		r := request(func(d *api.Distributed) { d.NodeIDs = nil })
		for i := range n {
			id := string(rune('a' + i))
			devices := rapid.IntRange(1, 8).Draw(t, "devices")
			nodes = append(nodes, node(id, rapid.SampledFrom([]string{"x", "y"}).Draw(t, "zone"), "A100", devices))
			r.Distributed.NodeIDs = append(r.Distributed.NodeIDs, id)
			want += devices
		}
		r.Distributed.MasterNode = rapid.SampledFrom(append([]string{""}, r.Distributed.NodeIDs...)).Draw(t, "master")
		r.Distributed.Framework = rapid.SampledFrom(api.Frameworks).Draw(t, "framework")
		size := func(name string) int { return rapid.IntRange(0, 8).Draw(t, name) }
		if rapid.Bool().Draw(t, "strategy") {
			r.Distributed.Strategy = &api.ExistingStrategy{DataParallel: size("data"), PipelineParallel: size("pipeline"), TensorParallel: size("tensor")}
		}
		r.Distributed.TrainBatchSize = size("batch")
		if fields := Check(r); len(fields) > 0 {
			t.Fatalf("%+v", fields)
		}
		p, err := Preview(r, nodes, unknown)
		if err != nil {
			f := fault.From(err)
			if f.Reason != "BadSelection" || len(f.Fields) == 0 || !strings.HasPrefix(f.Fields[0].Path, "distributedConfig.") || f.Fields[0].Message.ZH == "" {
				t.Fatalf("%+v", f)
			}
			return
		}
		if p.TotalGPUs != want || p.NodeCount != n || p.Nodes[0].ID != p.MasterNode || r.Distributed.MasterNode != "" && p.MasterNode != r.Distributed.MasterNode {
			t.Fatalf("%+v", p)
		}
		if fw := r.Distributed.Framework; fw == "plain" || fw == "ray" {
			want = n // they make their own use of the devices
		}
		if got := p.Recipe.RankCount; got != want {
			t.Fatalf("%d processes instead of %d by %s", got, want, r.Distributed.Framework)
		}
	})
}
