package kubeengine

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Resource is a row of the table of extended resources: what a device plugin offers, and what that is to Fermi.
type Resource struct {
	Name   string // nvidia.com/gpu
	Vendor string // nvidia
	Type   string // what its devices are where no label of the node says it
	// TypeLabels name labels of a node that say the model, MemoryLabel one that says MiB of memory.
	TypeLabels  []string
	MemoryLabel string
	// Part says which part of a device is offered as one: a MIG profile, or shared where several take turns. It is the end of the type: nobody who asks
	// for an A100 gets a seventh of one.
	Part string
}

// Resources is the table; rows that a setting adds come before.
var Resources = append(wholes, parts()...)

// table is all rows: own ones before those that are known.
func table(own []Resource) []Resource {
	return slices.Concat(own, slices.DeleteFunc(slices.Clone(Resources), func(r Resource) bool {
		return slices.ContainsFunc(own, func(o Resource) bool { return o.Name == r.Name })
	}))
}

// deviceLabel is how operators say which devices a node has.
const deviceLabel = "fermi.io/device-type"

// parts are what NVIDIA's plugin offers of cards that it divides, where it names that differently from whole ones.
func parts() []Resource {
	out := []Resource{{Name: "nvidia.com/gpu.shared", Vendor: "nvidia", Type: "NVIDIA", TypeLabels: []string{"nvidia.com/gpu.product"}, Part: "shared"}}
	for _, profile := range []string{
		"1g.5gb", "1g.6gb", "1g.10gb", "1g.12gb", "1g.20gb", "1g.24gb", "2g.10gb", "2g.12gb", "2g.20gb", "2g.24gb", "3g.20gb", "3g.40gb", "3g.47gb", "3g.48gb", "4g.20gb", "4g.24gb", "4g.40gb", "4g.47gb",
		"4g.48gb", "7g.40gb", "7g.80gb", "7g.94gb", "7g.96gb",
	} {
		out = append(out, Resource{Name: "nvidia.com/mig-" + profile, Vendor: "nvidia", Type: "NVIDIA", TypeLabels: []string{"nvidia.com/gpu.product"}, Part: "MIG " + profile})
	}
	return out
}

var wholes = []Resource{
	{Name: "nvidia.com/gpu", Vendor: "nvidia", Type: "NVIDIA", TypeLabels: []string{"nvidia.com/gpu.product"}, MemoryLabel: "nvidia.com/gpu.memory"},
	{Name: "amd.com/gpu", Vendor: "amd", Type: "AMD", TypeLabels: []string{"amd.com/gpu.product-name", "beta.amd.com/gpu.product-name"}},
	{Name: "huawei.com/Ascend910", Vendor: "huawei", Type: "Ascend 910"},
	{Name: "huawei.com/Ascend910B", Vendor: "huawei", Type: "Ascend 910B"},
	{Name: "huawei.com/Ascend310", Vendor: "huawei", Type: "Ascend 310"},
	{Name: "cambricon.com/mlu", Vendor: "cambricon", Type: "MLU"},
	{Name: "cambricon.com/mlu370", Vendor: "cambricon", Type: "MLU370"},
	{Name: "gpu.intel.com/i915", Vendor: "intel", Type: "Intel GPU"},
	{Name: "habana.ai/gaudi", Vendor: "habana", Type: "Gaudi"},
}

// reclaims are the taints by which clouds and autoscalers say that they take a node away soon.
var reclaims = []string{
	"aws-node-termination-handler/spot-itn", "aws-node-termination-handler/asg-lifecycle-termination", "aws-node-termination-handler/scheduled-maintenance",
	"cloud.google.com/impending-node-termination", "node.cloudprovider.kubernetes.io/shutdown", "karpenter.sh/disrupted", "karpenter.sh/disruption", "ToBeDeletedByClusterAutoscaler",
	"fermi.io/reclaimed", // for those that have none of their own
}

// spots are the labels by which clouds and autoscalers say that a node may be taken away at short notice. Some have a taint of the same name.
var spots = map[string]string{
	"karpenter.sh/capacity-type": "spot", "eks.amazonaws.com/capacityType": "SPOT", "cloud.google.com/gke-spot": "true", "cloud.google.com/gke-preemptible": "true",
	"kubernetes.azure.com/scalesetpriority": "spot", "node.kubernetes.io/lifecycle": "spot",
	"fermi.io/spot": "true", // for those that have none of their own
}

// unwell are the conditions by which those who look after nodes say that devices, or the links between them, are at fault: the health agents of clouds, or
// somebody's own. Each with the status that says so.
var unwell = map[corev1.NodeConditionType]corev1.ConditionStatus{
	"AcceleratedHardwareReady": corev1.ConditionFalse,                                                                                                                         // EKS
	"GPUMissing":               corev1.ConditionTrue, "NVLinkStatusInactive": corev1.ConditionTrue, "XIDErrors": corev1.ConditionTrue, "IBLinkFlapping": corev1.ConditionTrue, // AKS
	"NebiusGPUError":  corev1.ConditionTrue,
	"fermi.io/unwell": corev1.ConditionTrue, // for those that have none of their own
}

// ParseResource reads a row as a setting has it: RESOURCE=VENDOR:TYPE.
func ParseResource(text string) (Resource, error) {
	name, what, ok := strings.Cut(text, "=")
	vendor, kind, ok2 := strings.Cut(what, ":")
	if domain, rest, ok3 := strings.Cut(name, "/"); !ok || !ok2 || !ok3 || domain == "" || rest == "" || vendor == "" || kind == "" {
		return Resource{}, fault.New(fault.Invalid, "BadResource", fault.T(
			"%q is not a row such as nvidia.com/gpu=nvidia:A100.", "%q 不是合法的一行，应形如 nvidia.com/gpu=nvidia:A100。", text))
	}
	return Resource{Name: name, Vendor: strings.ToLower(vendor), Type: kind}, nil
}

// model shortens what a label says: "NVIDIA-A100-SXM4-80GB" is an A100, as people write it in manifests. What says that it is a part stays: "A100 MIG 1g.5gb",
// "A100 shared".
func model(label string) string {
	part := ""
	if whole, profile, ok := strings.Cut(label, "-MIG-"); ok {
		label, part = whole, " MIG "+profile
	} else if whole, ok := strings.CutSuffix(label, "-SHARED"); ok {
		label, part = whole, " shared"
	}
	words := strings.FieldsFunc(label, func(r rune) bool { return r == '-' || r == '_' || r == ' ' })
	for _, drop := range []string{"nvidia", "amd", "instinct", "tesla", "geforce", "quadro"} {
		if len(words) > 1 && strings.EqualFold(words[0], drop) {
			words = words[1:]
		}
	}
	if len(words) > 1 && strings.EqualFold(words[0], "RTX") {
		return "RTX " + words[1] + part
	}
	if len(words) == 0 {
		return ""
	}
	return words[0] + part
}
