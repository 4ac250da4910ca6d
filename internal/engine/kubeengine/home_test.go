package kubeengine

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/kubeengine/kubetest"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// TestReaches: a volume's rules are those of Kubernetes: any term, all of its expressions, names of nodes by a field.
func TestReaches(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"zone": "a", "gen": "3"}}}
	type requirement = corev1.NodeSelectorRequirement
	term := func(labels []requirement, fields ...requirement) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: labels, MatchFields: fields}
	}
	in := func(key string, values ...string) requirement {
		return requirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
	}
	for name, c := range map[string]struct {
		terms []corev1.NodeSelectorTerm
		want  bool
	}{
		"its zone":       {[]corev1.NodeSelectorTerm{term([]requirement{in("zone", "a", "b")})}, true},
		"another":        {[]corev1.NodeSelectorTerm{term([]requirement{in("zone", "b")})}, false},
		"one of two":     {[]corev1.NodeSelectorTerm{term([]requirement{in("zone", "b")}), term([]requirement{{Key: "gen", Operator: corev1.NodeSelectorOpGt, Values: []string{"2"}}})}, true},
		"half of one":    {[]corev1.NodeSelectorTerm{term([]requirement{in("zone", "a"), {Key: "gen", Operator: corev1.NodeSelectorOpDoesNotExist}})}, false},
		"its name":       {[]corev1.NodeSelectorTerm{term(nil, in("metadata.name", "n1"))}, true},
		"another's name": {[]corev1.NodeSelectorTerm{term(nil, in("metadata.name", "n2"))}, false},
		"an empty term":  {[]corev1.NodeSelectorTerm{{}}, false},
		"nonsense":       {[]corev1.NodeSelectorTerm{term([]requirement{{Key: "gen", Operator: "Like", Values: []string{"3"}}})}, false},
	} {
		if got := reaches(&corev1.NodeSelector{NodeSelectorTerms: c.terms}, node); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestHomes: a home is one claim, told where it is first used; it grows, is refused where its volume is not reached, and goes once.
func TestHomes(t *testing.T) {
	s := kubetest.Get(t)
	z := newSite(t, false)
	ctx, c := t.Context(), z.cluster()
	h := (*homes)(c)
	r := engine.Replica{Name: "env-1-env-0-1", TaskID: "env-1", Project: "lab", Tenancy: engine.Tenancy{Home: "env-1", HomeLimit: 1 << 30}}
	look := func() (claim corev1.PersistentVolumeClaim) {
		t.Helper()
		if err := c.get(ctx, claims, claimName("env-1"), &claim); err != nil {
			t.Fatal(err)
		}
		return claim
	}
	for _, node := range []string{"n", "n", "m"} {
		if err := h.ready(ctx, r, node); err != nil {
			t.Fatal(err)
		}
		if got := look().Annotations[noteSelected]; got != node {
			t.Errorf("selected %s, not %s", got, node)
		}
	}
	at := "/api/v1/namespaces/" + z.namespace + "/persistentvolumeclaims/" + claimName("env-1")
	volume := "pv-" + z.namespace
	s.Must(t, "POST", "/api/v1/persistentvolumes", kubetest.Object{"metadata": kubetest.Object{"name": volume}, "spec": kubetest.Object{
		"capacity": kubetest.Object{"storage": "1Gi"}, "accessModes": []string{"ReadWriteOnce"}, "local": kubetest.Object{"path": "/x"},
		"nodeAffinity": kubetest.Object{"required": kubetest.Object{"nodeSelectorTerms": []kubetest.Object{{"matchFields": []kubetest.Object{{"key": "metadata.name", "operator": "In", "values": []string{"n"}}}}}}},
	}}, nil)
	t.Cleanup(func() { _, _, _ = s.Do(kubetest.Admin, "DELETE", "/api/v1/persistentvolumes/"+volume, "", nil) })
	s.Must(t, "PATCH", at, kubetest.Object{"spec": kubetest.Object{"volumeName": volume}}, nil)
	s.Node(t, "m-"+z.namespace, "", 0, nil)
	if err := h.ready(ctx, r, "m-"+z.namespace); fault.ReasonOf(err) != "HomeElsewhere" {
		t.Errorf("on a node that does not reach it: %v", err)
	}
	if err := h.ready(ctx, r, "n"); err != nil {
		t.Error(err)
	}
	if err := c.DropHome(ctx, "env-1"); err != nil {
		t.Error(err)
	}
	if err := h.ready(ctx, r, "n"); fault.ReasonOf(err) != "HomeLeaves" {
		t.Errorf("while it is being deleted: %v", err)
	}
	if err := c.DropHome(ctx, "env-2"); err != nil {
		t.Error("one that never was:", err)
	}
}

// TestRefusal: what can never be a pod has ended, with the words why; asking again and removing it are fine.
func TestRefusal(t *testing.T) {
	z := newSite(t, false)
	e, stop := z.Open(t, 1)
	defer stop()
	r := engine.Replica{Name: "task-1-worker-0-1", TaskID: "task-1", Zone: "z", Node: "z-n", Command: []string{"true"}, Code: &api.Code{Folder: "data"}, StopGrace: api.Duration(time.Second)}
	for range 2 {
		if err := e.Start(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	o, ok := e.Replica(r.Name)
	if !ok || o.State != engine.StateDone || o.Exit.Reason != engine.ReasonStartFailed || fault.Unpack(o.Exit.Message).ZH == "" {
		t.Fatalf("%+v", o)
	}
	if err := e.Remove(t.Context(), r.Name); err != nil {
		t.Error(err)
	}
	if _, ok := e.Replica(r.Name); ok {
		t.Error("it is still known")
	}
}

// TestServicePod: the cluster's own Services find replicas of a service, and know which of them answer where their port is known.
func TestServicePod(t *testing.T) {
	r := engine.Replica{Name: "srep-1-replica-0-1", TaskID: "srep-1", Zone: "z", Duties: engine.Duties{Serve: &engine.Serve{
		Service: "echo", Port: 8000, Path: "/healthz", Every: api.Duration(500 * time.Millisecond), Timeout: api.Duration(2 * time.Second), Failures: 3,
	}}}
	pod, err := testPods().make(r, "n")
	if err != nil {
		t.Fatal(err)
	}
	probe := pod.Spec.Containers[0].ReadinessProbe
	if pod.Labels[labelService] != "echo" || probe == nil || probe.HTTPGet.Path != "/healthz" || probe.HTTPGet.Port.IntValue() != 8000 || probe.PeriodSeconds != 1 || probe.TimeoutSeconds != 2 || probe.FailureThreshold != 3 {
		t.Errorf("%+v", probe)
	}
	r.Serve.Path = ""
	if pod, err = testPods().make(r, "n"); err != nil || pod.Spec.Containers[0].ReadinessProbe.TCPSocket == nil {
		t.Error(err)
	}
	r.Serve.Port = 0
	if pod, err = testPods().make(r, "n"); err != nil || pod.Spec.Containers[0].ReadinessProbe != nil {
		t.Error(err)
	}
}
