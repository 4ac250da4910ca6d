package e2e

import (
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/where"
)

// TestPreviewAndSplit: the price is known before the submit, and the gang then stands where it said.
func TestPreviewAndSplit(t *testing.T) {
	w := up(t, "--demo")
	contains(t, w.must("zone", "list"), "¥8.50", "558", "1.2ms")
	// The seed's example: 5 nodes × (8 × ¥8.50 + 64 × ¥0.20).
	dry := []string{"train", "run", "--dry-run", "--no-code", "--name", "x", "--replicas", "5", "--gpus", "8", "--gpu-type", "A100", "--cpu", "64", "--expected-time", "10h", "--", "true"}
	contains(t, w.must(dry...), "x created (dry run)", "It would start now", "¥404.00", "¥4040.00", "greener", "safer")
	if out := w.must("get", "tasks"); strings.Contains(out, "x ") {
		t.Errorf("the preview left a task: %s", out)
	}
	// What counts between zones is the task's word, or its queue's.
	plain := shell("weighed", 1, "true")
	plain.Spec.Roles[0].Resources.Accelerators = api.Accelerators{Type: "A100", Count: 8}
	before, err := w.api.Preview(t.Context(), plain)
	if err != nil {
		t.Fatal(err)
	}
	greener := ""
	for _, o := range before.Alternatives {
		if o.Name == "greener" {
			greener = o.Zones[0].Zone
		}
	}
	one := []string{"train", "run", "--dry-run", "--no-code", "--name", "weighed", "--gpus", "8", "--gpu-type", "A100"}
	contains(t, w.must(append(one, "--prefer", "carbon=1", "--", "true")...), "planned: the best zone with room by carbon 1", greener)
	w.must("queue", "set", "default", "--prefer", "carbon=3,price=1")
	contains(t, w.must(append(one, "--", "true")...), "by price 1, carbon 3, as queue default says")
	if bad := w.fermi(append(one, "--prefer", "speed=1", "--", "true")...); bad.code == 0 || !strings.Contains(bad.err, "price=3,carbon=1") {
		t.Errorf("%+v", bad)
	}
	w.must("queue", "set", "default", "--prefer", "")
	task := shell("split", 5, "echo on $FERMI_NODE")
	task.Spec.Roles[0].Resources.Accelerators = api.Accelerators{Type: "TPU|A100", Count: 8}
	task.Spec.Zones = &api.ZoneRules{Split: where.Split{"beijing-1": where.Exactly(2), "shanghai-1": where.Exactly(3)}}
	task.Spec.Topology = &api.Topology{Mode: api.TopologyBounded, MaxPerRack: 1}
	p, err := w.api.Preview(t.Context(), task)
	if err != nil || !p.Fits || p.Planned.Latency.P50Ms != 8.5 || p.Planned.Latency.Source != "declared" || p.Planned.RackLoss.Percent != 20 {
		t.Fatalf("%v %+v", err, p)
	}
	w.submit(task)
	w.phase("split", api.PhaseCompleted)
	logs := w.must("logs", "split")
	if strings.Count(logs, "on beijing-1-n") != 2 || strings.Count(logs, "on shanghai-1-n") != 3 {
		t.Errorf("not as split:\n%s", logs)
	}
	halves := shell("halves", 16, "true")
	halves.Spec.Roles[0].Resources.Accelerators = api.Accelerators{Type: "H800", Count: 1, Share: 500}
	if p, err = w.api.Preview(t.Context(), halves); err != nil || !p.Fits || p.Planned.NodeCount != 1 || p.Planned.Prices[0].Devices != 68 {
		t.Errorf("%v %+v", err, p.Planned)
	}
}
