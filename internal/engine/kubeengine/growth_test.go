package kubeengine

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/spot"
)

// TestPlaceholder: it asks for what the replica would take, by the resource and the label that nodes of that type have.
func TestPlaceholder(t *testing.T) {
	g := &Growth{Cluster: &Cluster{Zone: "z", Namespace: "fermi"}, Image: "fermi:1"}
	nodes := []corev1.Node{*testNode()}
	for _, c := range []struct {
		kind     string
		rule     spot.Rule
		resource corev1.ResourceName
		terms    int
		key      string
		values   string
	}{
		{"A100", "", "nvidia.com/gpu", 1, "nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB"},
		{"H800|a100", "", "nvidia.com/gpu", 1, "nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB"},
		{"Ascend 910", "", "huawei.com/Ascend910", 0, "", ""},
		{"", "", "nvidia.com/gpu", 0, "", ""},
		{"H800", "", "nvidia.com/gpu", 1, deviceLabel, "H800"},
		{"", spot.Never, "nvidia.com/gpu", 1, "cloud.google.com/gke-preemptible", "true"},
		{"A100", spot.Only, "nvidia.com/gpu", len(spots), "nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB"},
		{"A100", spot.Prefer, "nvidia.com/gpu", 1, "nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB"},
	} {
		w := Wish{TaskID: "t", Task: "t", Role: "worker", Resources: api.Resources{CPU: 1500, Memory: 2 << 30, Accelerators: api.Accelerators{Type: c.kind, Count: 4}}, Spot: c.rule}
		pod := g.placeholder(g.name(w), w, nodes)
		var terms []corev1.NodeSelectorTerm
		if a := pod.Spec.Affinity; a != nil {
			terms = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		}
		asks := pod.Spec.Containers[0].Resources.Requests
		if n := asks[c.resource]; n.Value() != 4 || asks.Cpu().MilliValue() != 1500 || asks.Memory().Value() != 2<<30 || len(asks) != 3 || pod.Spec.NodeName != "" || pod.Spec.SchedulerName != scheduler {
			t.Errorf("%q %q: %v", c.kind, c.rule, asks)
		}
		if len(terms) != c.terms || c.terms > 0 && (terms[0].MatchExpressions[0].Key != c.key || terms[0].MatchExpressions[0].Values[0] != c.values) {
			t.Errorf("%q %q: %+v", c.kind, c.rule, terms)
		}
		if other := w; g.name(other) != pod.Name {
			t.Error("the same wish has another name")
		} else if other.Resources.CPU++; g.name(other) == pod.Name {
			t.Error("another wish has the same name")
		}
	}
}
