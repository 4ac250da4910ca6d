package pods

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/app/kinds"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/kubeengine/kubetest"
	"github.com/fermi-cluster/fermi/test/harness"
)

func TestMain(m *testing.M) {
	kinds.Ship() // for the client, which has the same table
	os.Exit(kubetest.Main(m))
}

// world is a real API server, a node of it whose pods are processes of this machine, and a `fermi up` that has it as zone k1.
type world struct {
	*harness.Cluster
	t         *testing.T
	s         *kubetest.Server
	cl        *client.Client
	namespace string
	file      string // the kubeconfig
	bin       string
	// meddle comes before the life of each pod; true: that was it. Set before pods are made.
	meddle func(*kubetest.Life) bool
}

func up(t *testing.T, args ...string) *world {
	t.Helper()
	return begin(t, kubetest.Get(t).URL, args...)
}

// begin is up with a way to the API server of its own.
func begin(t *testing.T, url string, args ...string) *world {
	t.Helper()
	s := kubetest.Get(t)
	bin, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, s: s, namespace: s.Namespace(t), file: filepath.Join(t.TempDir(), "kubeconfig"), bin: bin}
	s.WriteKubeconfig(t, w.file, url, kubetest.Fermi)
	node := "n-" + w.namespace
	s.Node(t, node, "nvidia.com/gpu", 8, map[string]string{"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"})
	live := kubetest.Processes(bin, t.TempDir())
	s.StartKubelet(t, w.namespace, func(l *kubetest.Life) {
		if w.meddle == nil || !w.meddle(l) {
			live(l)
		}
	})
	w.Cluster, w.cl = harness.Up(t, append([]string{"--cluster", "k1=" + w.file + ":" + w.namespace, "--pods-image", "registry.example.com/fermi:1", "--link-listen", freeAddress(t)}, args...)...)
	w.nodeReady(true)
	return w
}

// freeAddress is one that stays the same when the server is started again.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// nodeReady waits until the zone has a node that is, or is not, ready.
func (w *world) nodeReady(want bool) {
	w.t.Helper()
	harness.Eventually(w.t, fmt.Sprintf("a node of k1 is ready: %v", want), func() bool {
		n, err := client.Get[*api.Node](w.t.Context(), w.cl, "", "k1-n-"+w.namespace)
		return err == nil && n.Status.Ready == want
	})
}

// fermi runs the CLI as the administrator.
func (w *world) fermi(args ...string) (string, error) {
	token, err := os.ReadFile(filepath.Join(w.Dir, "admin.token"))
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command(w.bin, args...)
	cmd.Env = append(os.Environ(), "FERMI_SERVER=http://"+w.Addr, "FERMI_TOKEN="+strings.TrimSpace(string(token)), "FERMI_LANG=en")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (w *world) must(args ...string) string {
	w.t.Helper()
	out, err := w.fermi(args...)
	if err != nil {
		w.t.Fatalf("fermi %v: %v\n%s", args, err, out)
	}
	return out
}

func (w *world) pods() []corev1.Pod {
	w.t.Helper()
	var list corev1.PodList
	w.s.Must(w.t, "GET", "/api/v1/namespaces/"+w.namespace+"/pods", nil, &list)
	return list.Items
}

// phase waits until a task is in one of these.
func (w *world) phase(task string, want api.Phase) *api.TrainingTask {
	w.t.Helper()
	var now *api.TrainingTask
	harness.Eventually(w.t, fmt.Sprintf("%s is %s", task, want), func() bool {
		now = harness.Task(w.t, w.cl, task)
		if now.Status.Phase != want && now.Status.Phase.Finished() {
			raw, _ := json.Marshal(now.Status)
			w.t.Fatalf("%s is %s: %s", task, now.Status.Phase, raw)
		}
		return now.Status.Phase == want
	})
	return now
}

func (w *world) noPods() {
	w.t.Helper()
	harness.Eventually(w.t, "no pod is left", func() bool { return len(w.pods()) == 0 })
}

// TestPodRuns: a task becomes a pod that is bound to its node; its launcher gets its token for the pod's own; it runs, its log is read, it ends, and
// nothing is left of it.
func TestPodRuns(t *testing.T) {
	w := up(t)
	w.must("train", "run", "--name", "hello", "--zone", "k1", "--gpus", "2", "--gpu-type", "A100", "--", "sh", "-c", "echo hello from $FERMI_NODE; echo kept > $FERMI_OUTPUT/f")
	w.phase("hello", api.PhaseCompleted)
	if out := w.must("logs", "hello"); !strings.Contains(out, "hello from") {
		t.Errorf("log: %s", out)
	}
	dir := t.TempDir()
	w.must("train", "outputs", "hello", "--get", dir)
	if raw, err := os.ReadFile(filepath.Join(dir, "worker-0", "f")); err != nil || string(raw) != "kept\n" {
		t.Errorf("output: %q %v", raw, err)
	}
	w.must("delete", "task", "hello")
	w.noPods()
}

// TestPodLives: a task that runs is one pod with what it asked for; it survives the server's death untouched, is found again, and stops by order.
func TestPodLives(t *testing.T) {
	w := up(t)
	w.must("train", "run", "-d", "--name", "long", "--zone", "k1", "--replicas", "2", "--gpus", "1", "--", "sh", "-c", "echo running; exec sleep 3600")
	before := w.phase("long", api.PhaseRunning)
	pods := w.pods()
	if len(pods) != 2 {
		t.Fatalf("%d pods", len(pods))
	}
	uids := map[string]bool{}
	for _, p := range pods {
		uids[string(p.UID)] = true
		gpus := p.Spec.Containers[0].Resources.Limits["nvidia.com/gpu"]
		if p.Spec.NodeName != "n-"+w.namespace || gpus.Value() != 1 || p.Labels["fermi.io/zone"] != "k1" || p.Labels["fermi.io/task"] != before.Meta.ID {
			t.Errorf("%+v", p)
		}
	}
	w.Kill()
	harness.Ready(t, w.Cluster)
	after := w.phase("long", api.PhaseRunning)
	if after.Status.Attempt != before.Status.Attempt || after.Status.Generation != before.Status.Generation {
		t.Errorf("it was restarted: %+v", after.Status)
	}
	for _, p := range w.pods() {
		if !uids[string(p.UID)] || p.DeletionTimestamp != nil {
			t.Errorf("another pod: %s %s", p.Name, p.UID)
		}
	}
	w.must("train", "stop", "long")
	w.phase("long", api.PhaseStopped)
	w.must("delete", "task", "long")
	w.noPods()
}

// TestPodDeleted: a pod that somebody deletes by hand costs one restart, and the words say who it was.
func TestPodDeleted(t *testing.T) {
	w := up(t)
	w.must("train", "run", "-d", "--name", "hit", "--zone", "k1", "--restarts", "3", "--", "sh", "-c", "exec sleep 3600")
	first := w.phase("hit", api.PhaseRunning)
	pod := w.pods()[0]
	w.s.Must(t, "DELETE", "/api/v1/namespaces/"+w.namespace+"/pods/"+pod.Name, kubetest.Object{"gracePeriodSeconds": 5}, nil)
	harness.Eventually(t, "the next attempt runs", func() bool {
		now := harness.Task(t, w.cl, "hit")
		return now.Status.Attempt > first.Status.Attempt && now.Status.Phase == api.PhaseRunning
	})
	if f := harness.Task(t, w.cl, "hit").Status.Failure; f == nil || !strings.Contains(f.Message.EN, "Somebody deleted the pod") {
		t.Errorf("%+v", f)
	}
	w.must("train", "stop", "hit")
	w.phase("hit", api.PhaseStopped)
	w.must("delete", "task", "hit")
	w.noPods()
}

// TestPodRefused: a kubelet that does not admit a pod costs no restart; its node gets none for a while, and the task another one.
func TestPodRefused(t *testing.T) {
	w := up(t)
	var first atomic.Pointer[string]
	w.meddle = func(l *kubetest.Life) bool {
		if !first.CompareAndSwap(nil, &l.Pod.Spec.NodeName) {
			return false
		}
		l.Report(corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu", Message: "Node didn't have enough resource: cpu", StartTime: &metav1.Time{Time: time.Now()},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now()}}})
		return true
	}
	w.s.Node(t, "o-"+w.namespace, "nvidia.com/gpu", 8, nil)
	harness.Eventually(t, "there are two nodes", func() bool {
		_, err := client.Get[*api.Node](t.Context(), w.cl, "", "k1-o-"+w.namespace)
		return err == nil
	})
	w.must("train", "run", "-d", "--name", "again", "--zone", "k1", "--gpus", "1", "--", "sh", "-c", "echo in")
	done := w.phase("again", api.PhaseCompleted)
	if len(done.Status.Restarts) != 0 || done.Status.Attempt != 2 {
		t.Errorf("%+v", done.Status)
	}
	refused, err := client.Get[*api.Node](t.Context(), w.cl, "", "k1-"+*first.Load())
	if err != nil || refused.Status.Ready || !strings.Contains(refused.Status.Message.EN, "refused the pod (OutOfcpu)") {
		t.Errorf("%+v %v", refused.Status, err)
	}
	if out := w.must("events", "task", "again"); !strings.Contains(out, "NodeRefused") {
		t.Error(out)
	}
	w.must("delete", "task", "again")
	w.noPods()
}

// TestReclaimed: a node that its cloud is about to take away is left in time, and so is one whose cards its cloud says are at fault: the task moves to another one,
// and that costs no restart.
func TestReclaimed(t *testing.T) {
	w := up(t)
	w.must("train", "run", "-d", "--name", "moves", "--zone", "k1", "--gpus", "1", "--", "sleep", "3600")
	w.phase("moves", api.PhaseRunning)
	w.s.Node(t, "o-"+w.namespace, "nvidia.com/gpu", 8, nil)
	w.s.Must(t, "PATCH", "/api/v1/nodes/n-"+w.namespace, kubetest.Object{"spec": kubetest.Object{"taints": []kubetest.Object{{"key": "aws-node-termination-handler/spot-itn", "value": "x", "effect": "NoSchedule"}}}}, nil)
	moved := func(from, to string, attempt int, reason string) {
		t.Helper()
		harness.Eventually(t, "it runs on node "+to, func() bool {
			list := w.pods()
			now := harness.Task(t, w.cl, "moves")
			return len(list) == 1 && list[0].Spec.NodeName == to+"-"+w.namespace && now.Status.Phase == api.PhaseRunning && now.Status.Attempt == attempt && len(now.Status.Restarts) == 0
		})
		n, err := client.Get[*api.Node](t.Context(), w.cl, "", "k1-"+from+"-"+w.namespace)
		if err != nil || n.Status.Reason != reason {
			t.Errorf("%+v %v", n.Status, err)
		}
	}
	moved("n", "o", 2, engine.NodeReclaimed)
	w.s.Node(t, "p-"+w.namespace, "nvidia.com/gpu", 8, nil)
	w.s.Must(t, "PATCH", "/api/v1/nodes/o-"+w.namespace+"/status", kubetest.Object{"status": kubetest.Object{"conditions": []kubetest.Object{
		{"type": "Ready", "status": "True", "reason": "KubeletReady"}, {"type": "GPUMissing", "status": "True", "reason": "GPUMissing", "message": "7 of 8 cards are there"},
	}}}, nil)
	moved("o", "p", 3, engine.NodeUnwell)
	w.must("train", "stop", "moves")
	w.phase("moves", api.PhaseStopped)
	w.must("delete", "task", "moves")
	w.noPods()
}

// TestClusterAway: without its API server the zone takes no new work and says why; what runs goes on, and nothing is lost.
func TestClusterAway(t *testing.T) {
	w := up(t)
	w.must("train", "run", "-d", "--name", "on", "--zone", "k1", "--", "sh", "-c", "exec sleep 3600")
	before := w.phase("on", api.PhaseRunning)
	w.s.Down()
	w.nodeReady(false)
	harness.Eventually(t, "the zone says why", func() bool {
		out, err := w.fermi("get", "zone", "k1", "-o", "json")
		return err == nil && strings.Contains(out, "EngineUnreachable") && strings.Contains(out, "can't be reached")
	})
	w.Kill() // also a server that starts now knows what ran
	harness.Ready(t, w.Cluster)
	if err := w.s.Up(); err != nil {
		t.Fatal(err)
	}
	w.nodeReady(true)
	after := w.phase("on", api.PhaseRunning)
	if after.Status.Attempt != before.Status.Attempt || len(w.pods()) != 1 {
		t.Errorf("attempt %d, then %d; %d pods", before.Status.Attempt, after.Status.Attempt, len(w.pods()))
	}
	w.must("train", "stop", "on")
	w.phase("on", api.PhaseStopped)
	w.must("delete", "task", "on")
	w.noPods()
}

// TestCredentials: credentials that expired, and a user who may not do what is needed, close the zone with words that name the file and the rule; the file is
// read again by itself when it was renewed, and what ran meanwhile was not touched.
func TestCredentials(t *testing.T) {
	w := up(t)
	w.must("train", "run", "-d", "--name", "on", "--zone", "k1", "--", "sh", "-c", "exec sleep 3600")
	before := w.phase("on", api.PhaseRunning)
	for _, c := range []struct {
		user  string
		words []string
	}{
		{kubetest.Expired, []string{"refuses our credentials"}},
		{kubetest.Nobody, []string{"may not get configmaps", "cannot get resource"}},
	} {
		w.s.WriteKubeconfig(t, w.file, w.s.URL, c.user)
		w.nodeReady(false)
		harness.Eventually(t, "the zone says why: "+c.user, func() bool {
			out, err := w.fermi("get", "zone", "k1", "-o", "json")
			return err == nil && !slices.ContainsFunc(c.words, func(s string) bool { return !strings.Contains(out, s) })
		})
		w.s.WriteKubeconfig(t, w.file, w.s.URL, kubetest.Fermi)
		w.nodeReady(true)
	}
	after := w.phase("on", api.PhaseRunning)
	if after.Status.Attempt != before.Status.Attempt || len(w.pods()) != 1 {
		t.Errorf("attempt %d, then %d; %d pods", before.Status.Attempt, after.Status.Attempt, len(w.pods()))
	}
	w.must("train", "stop", "on")
	w.phase("on", api.PhaseStopped)
	w.must("delete", "task", "on")
	w.noPods()
}

// TestQuota: a namespace over its quota lets no pod in; the task waits, and starts when there is room.
func TestQuota(t *testing.T) {
	w := up(t)
	at := "/api/v1/namespaces/" + w.namespace + "/resourcequotas"
	w.s.Must(t, "POST", at, kubetest.Object{"metadata": kubetest.Object{"name": "q"}, "spec": kubetest.Object{"hard": kubetest.Object{"pods": "0"}}}, nil)
	harness.Eventually(t, "the quota holds", func() bool {
		w.s.Must(t, "PATCH", at+"/q/status", kubetest.Object{"status": kubetest.Object{"hard": kubetest.Object{"pods": "0"}, "used": kubetest.Object{"pods": "0"}}}, nil)
		return true
	})
	w.must("train", "run", "-d", "--name", "waits", "--zone", "k1", "--", "sh", "-c", "echo in")
	harness.Eventually(t, "the server says why", func() bool { return strings.Contains(w.LogTail(), "is over its quota") })
	harness.Eventually(t, "the task says why", func() bool { return strings.Contains(w.must("events", "task", "waits"), "NamespaceQuota") })
	if n := len(w.pods()); n != 0 {
		t.Errorf("%d pods", n)
	}
	w.s.Must(t, "DELETE", at+"/q", nil, nil)
	w.phase("waits", api.PhaseCompleted)
	w.must("delete", "task", "waits")
	w.noPods()
}

// TestNoImage: an image that no registry has ends the task at once with the registry's words, and no pod of it stays.
func TestNoImage(t *testing.T) {
	w := up(t)
	w.meddle = func(l *kubetest.Life) bool {
		main := l.Pod.Spec.Containers[0]
		l.Report(corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
			Name: main.Name, Image: main.Image, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "rpc error: code = NotFound: " + main.Image + ": not found"}},
		}}})
		select {
		case <-l.Deleted:
		case <-l.Over:
		}
		l.Report(corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{
			Name: main.Name, Image: main.Image, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "ContainerStatusUnknown", FinishedAt: metav1.Now()}},
		}}})
		return true
	}
	w.must("train", "run", "-d", "--name", "none", "--zone", "k1", "--image", "registry.example.com/none:1", "--restarts", "0", "--", "true")
	if f := w.phase("none", api.PhaseFailed).Status.Failure; f == nil || !strings.Contains(f.Message.EN, "registry.example.com/none:1 can't be pulled") || !strings.Contains(f.Message.EN, "not found") {
		t.Errorf("%+v", f)
	}
	w.must("delete", "task", "none")
	w.noPods()
}

// TestMissingRule: where the role lacks one rule, work waits with words that name it, and starts as soon as it is there.
func TestMissingRule(t *testing.T) {
	w := up(t)
	at := "/apis/rbac.authorization.k8s.io/v1/namespaces/" + w.namespace + "/"
	rule := func(resources ...string) kubetest.Object {
		return kubetest.Object{"apiGroups": []string{""}, "resources": resources, "verbs": []string{"get", "list", "watch", "create", "update", "patch", "delete"}}
	}
	subject := []kubetest.Object{{"kind": "User", "name": kubetest.Nobody, "apiGroup": "rbac.authorization.k8s.io"}}
	name := "some-" + w.namespace
	const all = "/apis/rbac.authorization.k8s.io/v1/"
	w.s.Must(t, "POST", all+"clusterroles", kubetest.Object{"metadata": kubetest.Object{"name": name}, "rules": []kubetest.Object{
		{"apiGroups": []string{""}, "resources": []string{"nodes", "pods"}, "verbs": []string{"get", "list", "watch"}}, {"apiGroups": []string{"authentication.k8s.io"}, "resources": []string{"tokenreviews"}, "verbs": []string{"create"}},
	}}, nil)
	w.s.Must(t, "POST", all+"clusterrolebindings", kubetest.Object{"metadata": kubetest.Object{"name": name}, "subjects": subject, "roleRef": kubetest.Object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}}, nil)
	w.s.Must(t, "POST", at+"roles", kubetest.Object{"metadata": kubetest.Object{"name": "some"}, "rules": []kubetest.Object{rule("configmaps", "services")}}, nil)
	w.s.Must(t, "POST", at+"rolebindings", kubetest.Object{"metadata": kubetest.Object{"name": "some"}, "subjects": subject, "roleRef": kubetest.Object{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "some"}}, nil)
	t.Cleanup(func() {
		w.s.Must(t, "DELETE", all+"clusterrolebindings/"+name, nil, nil)
		w.s.Must(t, "DELETE", all+"clusterroles/"+name, nil, nil)
	})
	w.s.WriteKubeconfig(t, w.file, w.s.URL, kubetest.Nobody)
	w.must("train", "run", "-d", "--name", "waits", "--zone", "k1", "--", "sh", "-c", "echo in") // the file is read again for the next call
	harness.Eventually(t, "the task names the rule", func() bool {
		out := w.must("events", "task", "waits")
		return strings.Contains(out, "ClusterPermission") && strings.Contains(out, "may not create pods")
	})
	w.s.Must(t, "PATCH", at+"roles/some", kubetest.Object{"rules": []kubetest.Object{rule("configmaps", "services", "pods")}}, nil)
	w.phase("waits", api.PhaseCompleted)
	w.must("delete", "task", "waits")
	w.noPods()
}
