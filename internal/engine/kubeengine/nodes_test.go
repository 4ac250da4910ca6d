package kubeengine

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func amounts(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func testNode() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "Gpu-1.example.com", Labels: map[string]string{"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.memory": "81920", "fermi.io/rack": "r7"}},
		Status: corev1.NodeStatus{
			Capacity: amounts("cpu", "64", "memory", "256Gi", "nvidia.com/gpu", "4"), Allocatable: amounts("cpu", "63500m", "memory", "250Gi", "nvidia.com/gpu", "4"),
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}, NodeInfo: corev1.NodeSystemInfo{BootID: "b1"},
		},
	}
}

// TestReport: a node of a cluster is one of Fermi's, with its cards, its place and what others use of it.
func TestReport(t *testing.T) {
	n := report("bj", testNode(), use{cpu: 1500, memory: 1 << 30, devices: map[string]int64{"nvidia.com/gpu": 1}}, 1<<3, Resources)
	if n.Meta.Name != "bj-gpu-1-example-com" || n.Spec.Rack != "r7" || n.Spec.CPU != 63500 || n.Spec.Memory != 250<<30 || n.Status.BootID != "b1" || !n.Status.Ready {
		t.Errorf("%+v", n)
	}
	if len(n.Spec.Devices) != 4 || n.Spec.Devices[2] != (api.Device{Index: 2, UUID: "nvidia.com/gpu#2", Vendor: "nvidia", Type: "A100", Memory: 80 << 30}) {
		t.Errorf("%+v", n.Spec.Devices)
	}
	// The last one is ours, so the one before it is counted as the others'.
	if o := n.Status.Others; o == nil || o.CPU != 1500 || o.Memory != 1<<30 || !slices.Equal(o.Devices, []int{2}) {
		t.Errorf("%+v", n.Status.Others)
	}
	dropped := testNode()
	dropped.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("3")
	if n := report("bj", dropped, use{}, 0, Resources); len(n.Spec.Devices) != 4 || n.Status.Others == nil || !slices.Equal(n.Status.Others.Devices, []int{3}) {
		t.Errorf("a card that dropped: %+v %+v", n.Spec.Devices, n.Status.Others)
	}
	if n := report("bj", testNode(), use{}, 0, Resources); n.Status.Others != nil {
		t.Errorf("%+v", n.Status.Others)
	}
}

// TestReady: who takes no new work says why.
func TestReady(t *testing.T) {
	for _, c := range []struct {
		name, reason, says string
		change             func(*corev1.Node)
	}{
		{"well", "", "", func(*corev1.Node) {}},
		{"its kubelet is away", "KubeletNotReady", "stopped posting", func(n *corev1.Node) {
			n.Status.Conditions[0] = corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown", Message: "Kubelet stopped posting node status."}
		}},
		{"new", "KubeletNotReady", "not reported yet", func(n *corev1.Node) { n.Status.Conditions = nil }},
		{"cordoned", "Unschedulable", "kubectl uncordon", func(n *corev1.Node) { n.Spec.Unschedulable = true }},
		{"tainted", "Tainted", "dedicated=db:NoSchedule", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoSchedule}}
		}},
		{"about to be taken away", engine.NodeReclaimed, "karpenter.sh/disrupted", func(n *corev1.Node) {
			n.Spec.Unschedulable = true
			n.Spec.Taints = []corev1.Taint{{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule}}
		}},
		{"its cards are at fault", engine.NodeUnwell, "XIDErrors, Xid79", func(n *corev1.Node) {
			n.Spec.Unschedulable = true // health agents do that, too
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "XIDErrors", Status: corev1.ConditionTrue, Reason: "Xid79", Message: "fell off the bus"})
		}},
		{"its cards were looked at", "", "", func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "AcceleratedHardwareReady", Status: corev1.ConditionTrue}, corev1.NodeCondition{Type: "GPUMissing", Status: corev1.ConditionFalse})
		}},
		{"tainted for its cards", "", "", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "nvidia.com/gpu", Effect: corev1.TaintEffectNoSchedule}}
		}},
		{"tainted as spot", "", "", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "kubernetes.azure.com/scalesetpriority", Value: "spot", Effect: corev1.TaintEffectNoSchedule}}
		}},
		{"not preferred", "", "", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectPreferNoSchedule}}
		}},
	} {
		n := testNode()
		c.change(n)
		up, reason, text := ready(n, Resources)
		if up != (c.reason == "") || reason != c.reason || !strings.Contains(text.EN, c.says) || c.says != "" && text.ZH == "" {
			t.Errorf("%s: %v %s %+v", c.name, up, reason, text)
		}
	}
}

// TestSpot: nodes that may be taken away at short notice, in the words of each cloud.
func TestSpot(t *testing.T) {
	for name, value := range map[string]string{
		"karpenter.sh/capacity-type": "spot", "eks.amazonaws.com/capacityType": "SPOT", "cloud.google.com/gke-spot": "true", "fermi.io/spot": "true",
	} {
		n := testNode()
		n.Labels[name] = value
		if got := report("z", n, use{}, 0, Resources).Spec.Spot; !got {
			t.Errorf("%s=%s: %v", name, value, got)
		}
		n.Labels[name] = "on-demand"
		if report("z", n, use{}, 0, Resources).Spec.Spot {
			t.Errorf("%s=on-demand is spot", name)
		}
	}
}

// TestRequests: a pod of others counts as its cluster counts it.
func TestRequests(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	c := func(cpu string, policy *corev1.ContainerRestartPolicy) corev1.Container {
		return corev1.Container{Resources: corev1.ResourceRequirements{Requests: amounts("cpu", cpu, "memory", "1Gi"), Limits: amounts("nvidia.com/gpu", "1")}, RestartPolicy: policy}
	}
	u := requests(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{c("1", nil), c("2", nil)}, InitContainers: []corev1.Container{c("8", nil), c("1", &always)}}}, Resources)
	if u.cpu != 8000 || u.memory != 3<<30 || u.devices["nvidia.com/gpu"] != 3 {
		t.Errorf("%+v", u)
	}
}

// TestPod: what a pod is made of.
func TestPod(t *testing.T) {
	r := engine.Replica{
		Name: "task-1-worker-0-1", TaskID: "task-1", Task: "train", Project: "默认", Owner: "li", Role: "worker", Attempt: 1, Node: "z-n1", Image: "example.com/torch:2",
		Resources: api.Resources{CPU: 1500, Memory: 2 << 30, SharedMemory: 1 << 30},
		Devices:   []api.Device{{Index: 4, UUID: "nvidia.com/gpu#4", Vendor: "nvidia"}, {Index: 6, UUID: "nvidia.com/gpu#6", Vendor: "nvidia"}},
	}
	pod, err := testPods().make(r, "n1")
	if err != nil {
		t.Fatal(err)
	}
	main, first := pod.Spec.Containers[0], pod.Spec.InitContainers[0]
	if pod.Spec.NodeName != "n1" || pod.Spec.RestartPolicy != corev1.RestartPolicyNever || main.Image != "example.com/torch:2" || first.Image != "fermi:1" || !slices.Contains(pod.Finalizers, finalizer) {
		t.Errorf("%+v", pod.Spec)
	}
	gpus := main.Resources.Limits["nvidia.com/gpu"]
	if gpus.Value() != 2 || main.Resources.Limits.Cpu().MilliValue() != 1500 || *pod.Spec.AutomountServiceAccountToken || *main.SecurityContext.AllowPrivilegeEscalation {
		t.Errorf("%+v", main)
	}
	for _, m := range main.VolumeMounts {
		if m.Name == "fermi-account" {
			t.Error("user code sees the pod's own token")
		}
	}
	back, ok := recordOf(pod)
	short, _ := briefOf(pod)
	if !ok || back.Name != r.Name || short.mask() != 1<<4|1<<6 || short.Name != r.Name || short.TaskID != r.TaskID || short.Node != r.Node {
		t.Errorf("%v %+v", ok, back)
	}
	p := testPods()
	p.rdma = "rdma/hca"
	for has, want := range map[string]int64{"0": 0, "100": 1} {
		wired, err := p.make(r, "n1")
		if err != nil {
			t.Fatal(err)
		}
		p.wire(wired, &corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{"rdma/hca": resource.MustParse(has)}}}, len(r.Devices))
		c := wired.Spec.Containers[0]
		if limit, request := c.Resources.Limits["rdma/hca"], c.Resources.Requests["rdma/hca"]; limit.Value() != want || request.Value() != want || len(c.SecurityContext.Capabilities.Add) != int(want) {
			t.Errorf("a node with %s: %+v %+v", has, c.Resources, c.SecurityContext.Capabilities)
		}
	}
	p.cluster.Cache = Cache{Dir: "/var/lib/fermi/cache", Most: 7, Paths: func(digest string) (string, string) { return "at/" + digest, "locks/" + digest }}
	r.Mounts = mount.Lists{
		Datasets: []mount.AssetRef{{Name: "a", Settled: mount.Settled{Digest: "d1"}}, {Name: "b", Settled: mount.Settled{Digest: "d2", Source: &mount.Source{}}}},
		Models:   []mount.AssetRef{{Name: "c", Settled: mount.Settled{Digest: "d1"}}},
	}
	cached, err := p.make(r, "n1")
	if err != nil {
		t.Fatal(err)
	}
	shelf, seen := shelfOf(r.Project), []string{}
	for _, m := range cached.Spec.Containers[0].VolumeMounts {
		if m.Name == volumeCache {
			if seen = append(seen, m.SubPath+" at "+m.MountPath); !m.ReadOnly {
				t.Errorf("%s can be written by the user's processes", m.MountPath)
			}
		}
	}
	if want := []string{shelf + "/at/d1 at /fermi-cache/d1", shelf + "/locks/d1 at /fermi-cache/d1.lock"}; !slices.Equal(seen, want) {
		t.Errorf("%v", seen)
	}
	for _, m := range cached.Spec.InitContainers[0].VolumeMounts {
		if m.Name == volumeCache && m.SubPath != shelf {
			t.Errorf("who fills it has %s, too", m.SubPath)
		}
	}
	r.Mounts = mount.Lists{}
	if none, err := p.make(r, "n1"); err != nil || len(none.Spec.Volumes) != len(pod.Spec.Volumes) || none.Spec.InitContainers[0].SecurityContext.RunAsUser != nil {
		t.Errorf("without datasets: %+v %v", none.Spec.Volumes, err)
	}
	told := inPod(back)
	if told.Image != "" || told.Devices[0].Index != 0 || told.Devices[1].UUID != "" || back.Devices[1].UUID == "" {
		t.Errorf("%+v", told)
	}
	for reason, change := range map[string]func(*engine.Replica){
		"InsideNotOnKubernetes": func(r *engine.Replica) { r.Inside = "env-1-main-0-1" },
		"FolderNotOnKubernetes": func(r *engine.Replica) { r.Code = &api.Code{Folder: "data/x"} },
		"DeviceUnknown":         func(r *engine.Replica) { r.Devices = []api.Device{{UUID: "GPU-1"}} },
		"ReplicaTooLarge": func(r *engine.Replica) {
			r.Env = []api.EnvVar{{Name: "X", Value: strings.Repeat("x", maxRecord)}}
		},
	} {
		bad := r
		change(&bad)
		if _, err := testPods().make(bad, "n1"); fault.ReasonOf(err) != reason {
			t.Errorf("%s: %v", reason, err)
		}
	}
	if long := PodName(strings.Repeat("a", 80)); len(long) > 63 || long == PodName(strings.Repeat("a", 81)) {
		t.Error(long)
	}
}

// TestParts: what a plugin offers of cards that it divides is never taken for whole ones.
func TestParts(t *testing.T) {
	for name, c := range map[string]struct {
		product  string
		resource string
		want     string
	}{
		"MIG by names of its own":       {"NVIDIA-A100-SXM4-80GB", "nvidia.com/mig-3g.40gb", "A100 MIG 3g.40gb"},
		"MIG under the name of whole":   {"NVIDIA-A100-SXM4-80GB-MIG-3g.40gb", "nvidia.com/gpu", "A100 MIG 3g.40gb"},
		"MIG, both":                     {"NVIDIA-A100-SXM4-80GB-MIG-3g.40gb", "nvidia.com/mig-3g.40gb", "A100 MIG 3g.40gb"},
		"in turns by a name of its own": {"NVIDIA-L4-SHARED", "nvidia.com/gpu.shared", "L4 shared"},
		"in turns, not renamed":         {"NVIDIA-L4-SHARED", "nvidia.com/gpu", "L4 shared"},
		"whole":                         {"NVIDIA-L4", "nvidia.com/gpu", "L4"},
	} {
		n := testNode()
		n.Labels["nvidia.com/gpu.product"] = c.product
		n.Status.Capacity = amounts("cpu", "64", "memory", "256Gi", c.resource, "2")
		n.Status.Allocatable = n.Status.Capacity
		got := report("z", n, use{}, 0, Resources).Spec.Devices
		if len(got) != 2 || got[0].Type != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestTable: rows and models.
func TestTable(t *testing.T) {
	for label, want := range map[string]string{"NVIDIA-A100-SXM4-80GB": "A100", "Tesla-V100-SXM2-32GB": "V100", "NVIDIA-GeForce-RTX-4090": "RTX 4090", "NVIDIA-H200": "H200", "": "", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb": "A100 MIG 1g.5gb", "Tesla-T4-SHARED": "T4 shared"} {
		if got := model(label); got != want {
			t.Errorf("%s: %q", label, got)
		}
	}
	if r, err := ParseResource("example.com/npu=Acme:N1"); err != nil || r.Vendor != "acme" || r.Type != "N1" {
		t.Error(r, err)
	}
	for _, bad := range []string{"", "x=y:z", "example.com/npu", "example.com/npu=acme", "example.com/=a:b"} {
		if _, err := ParseResource(bad); err == nil {
			t.Error(bad, "was taken")
		}
	}
}
