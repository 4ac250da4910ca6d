package pods

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/test/harness"
)

// placeholders are the pods that show an autoscaler what waits.
func (w *world) placeholders() (out []corev1.Pod) {
	for _, p := range w.pods() {
		if p.Labels["fermi.io/room"] == "k1" {
			out = append(out, p)
		}
	}
	return out
}

// TestGrows: a gang that is larger than the cluster is not refused where that has an autoscaler; what waits is there for it to see as pods that nobody schedules;
// when the nodes have come the gang runs on them, and the placeholders are gone.
func TestGrows(t *testing.T) {
	w := up(t, "--pods-grow", "k1")
	w.must("train", "run", "-d", "--name", "large", "--zone", "k1", "--replicas", "2", "--gpus", "8", "--gpu-type", "A100", "--cpu", "1", "--memory", "1Gi", "--spot", "never", "--", "sleep", "3600")
	var seen []corev1.Pod
	harness.Eventually(t, "two placeholders that found no room", func() bool {
		seen = w.placeholders()
		told := 0
		for _, p := range seen {
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
					told++
				}
			}
		}
		return len(seen) == 2 && told == 2
	})
	for _, p := range seen {
		gpus := p.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"]
		where := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		if gpus.Value() != 8 || p.Spec.NodeName != "" || len(where) != 1 || where[0].MatchExpressions[0].Key != "nvidia.com/gpu.product" || len(where[0].MatchExpressions) < 3 {
			t.Errorf("%+v", p.Spec)
		}
	}
	if out := w.must("events", "task", "large"); !strings.Contains(out, "NodesRequested") {
		t.Error(out)
	}
	if out := w.must("why", "large"); !strings.Contains(out, "autoscaler of zone k1 was asked for nodes for 2 replicas") || !strings.Contains(out, "it starts when the nodes are there") {
		t.Error(out)
	}
	node := "/api/v1/nodes/o-" + w.namespace
	w.s.Must(t, "POST", "/api/v1/nodes", map[string]any{"metadata": map[string]any{"name": "o-" + w.namespace}}, nil) // its kubelet has said nothing yet
	harness.Eventually(t, "a node is coming", func() bool { return strings.Contains(w.must("why", "large"), "1 node has come and is not ready yet") })
	w.s.Must(t, "DELETE", node, nil, nil)
	w.s.Node(t, "o-"+w.namespace, "nvidia.com/gpu", 8, map[string]string{"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"})
	w.phase("large", api.PhaseRunning)
	harness.Eventually(t, "the placeholders are gone", func() bool { return len(w.placeholders()) == 0 })

	// Of a type that nobody has seen: what goes away is wanted no more.
	w.must("train", "run", "-d", "--name", "rare", "--zone", "k1", "--gpus", "1", "--gpu-type", "H800", "--cpu", "1", "--memory", "1Gi", "--", "sleep", "3600")
	harness.Eventually(t, "a placeholder for a rare card", func() bool { return len(w.placeholders()) == 1 })
	w.must("delete", "task", "rare")
	harness.Eventually(t, "its placeholder is gone", func() bool { return len(w.placeholders()) == 0 })
	w.must("train", "stop", "large")
	w.phase("large", api.PhaseStopped)
	w.must("delete", "task", "large")
	w.noPods()
}
