package pods

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine/kubeengine/kubetest"
	"github.com/fermi-cluster/fermi/test/harness"
)

// Images of the real node. No registry is asked for them: they are brought to it as archives.
const (
	imageFermi = "registry.example.com/fermi:1"
	imageTorch = "registry.example.com/torch:1"
	imageBare  = "registry.example.com/bare:1" // one static program and nothing else, not even a folder for temporary files
	imageSmall = "registry.example.com/small:1"
)

// onMachine is a world whose one node is real: containerd, runc, a kubelet.
func onMachine(t *testing.T, args ...string) (*world, *kubetest.Machine) {
	t.Helper()
	static, root := os.Getenv("FERMI_STATIC"), os.Getenv("FERMI_TORCH_ROOT")
	if static == "" || root == "" {
		t.Skip("FERMI_STATIC and FERMI_TORCH_ROOT are not set; make e2e-kube-node sets them")
	}
	s := kubetest.Get(t)
	bin, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	const busybox = "/bin/busybox"
	dir := t.TempDir()
	var archives []string
	for i, image := range []kubetest.Image{
		kubetest.Pause(busybox),
		{Name: imageFermi, Files: map[string]string{"/usr/local/bin/fermi": static}, Start: []string{"/usr/local/bin/fermi"}},
		{Name: imageBare, Files: map[string]string{"/own": static}, Start: []string{"/own"}},
		{Name: imageSmall, Files: map[string]string{"/bin/sh": busybox, "/bin/busybox": busybox}, Start: []string{"/bin/sh"}, User: "1000"},
		{Name: imageTorch, Layer: root, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"}},
	} {
		at := filepath.Join(dir, fmt.Sprintf("%d.tar", i))
		if err := image.Archive(at); err != nil {
			t.Fatal(err)
		}
		archives = append(archives, at)
	}
	w := &world{t: t, s: s, namespace: s.Namespace(t), file: filepath.Join(t.TempDir(), "kubeconfig"), bin: bin}
	s.WriteKubeconfig(t, w.file, s.URL, kubetest.Fermi)
	m := s.StartMachine(t, "n-"+w.namespace, archives...)
	for _, at := range archives {
		_ = os.Remove(at)
	}
	_, port, _ := strings.Cut(freeAddress(t), ":")
	w.Cluster, w.cl = harness.Up(t, append([]string{"--cluster", "k1=" + w.file + ":" + w.namespace, "--pods-image", imageFermi, "--link-listen", m.Address + ":" + port, "--ssh", "127.0.0.1:0"}, args...)...)
	w.nodeReady(true)
	w.onlyPods()
	return w, m
}

// TestMachine: what is played elsewhere happens here: pods of a real kubelet in real containers.
func TestMachine(t *testing.T) {
	cache := t.TempDir()
	w, m := onMachine(t, "--pods-cache", cache)
	for _, one := range []struct {
		name string
		run  func(*testing.T, *kubetest.Machine)
	}{{"images", w.anyImage}, {"torch", w.trains}, {"service", w.serves}, {"environment", w.isEntered}, {"cache", func(t *testing.T, _ *kubetest.Machine) { w.keeps(t, cache) }}} {
		t.Run(one.name, func(t *testing.T) {
			w.t = t
			one.run(t, m)
		})
		w.t = t
	}
}

// torchScript trains a small model by DDP and saves by the SDK; its digest at the end is that of a run that nobody disturbed.
const torchScript = `
import hashlib, os, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
import fermi
steps = int(os.environ["STEPS"])
dist.init_process_group("gloo")
torch.manual_seed(7)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
ddp = DDP(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
got = fermi.checkpoint.restore()
first = 0
if got:
    model.load_state_dict(got.state["model"]); optimizer.load_state_dict(got.state["optimizer"]); first = got.step
for step in range(first, steps):
    g = torch.Generator().manual_seed(step * 2 + fermi.rank())
    loss = ddp(torch.randn(8, 16, generator=g)).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    fermi.checkpoint.save(step + 1, {"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    print("step", step + 1, "from", first, flush=True)
    time.sleep(float(os.environ.get("PACE", "0")))
h = hashlib.sha256()
for p in model.state_dict().values():
    h.update(p.numpy().tobytes())
if fermi.rank() == 0:
    print("digest", h.hexdigest(), flush=True)
`

// trains: a real PyTorch training on two real pods, each in its own image, loses a process by SIGKILL and a whole pod, recovers, and ends as the
// one that nobody disturbed.
func (w *world) trains(t *testing.T, m *kubetest.Machine) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "train.py"), []byte(torchScript), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(name, pace string) {
		w.must("train", "run", "-d", "--name", name, "--zone", "k1", "--replicas", "2", "--cpu", "500m", "--memory", "1Gi", "--image", imageTorch, "--code", dir, "--restarts", "10",
			"--framework", "pytorch-ddp", "--env", "STEPS=60", "--env", "OMP_NUM_THREADS=1", "--env", "PACE="+pace, "--", "/usr/bin/python3", "-u", "train.py")
	}
	digest := func(name string) string {
		t.Helper()
		out := w.must("logs", name)
		_, tail, ok := strings.Cut(out, "digest ")
		if !ok {
			t.Fatalf("no digest: %s", out)
		}
		return strings.Fields(tail)[0]
	}
	run("calm", "0")
	w.phase("calm", api.PhaseCompleted)
	want := digest("calm")
	run("hit", "0.3")
	w.says("hit", "step 5 ")
	pod := w.pods()[0]
	for _, p := range w.pods() {
		if p.Labels["fermi.io/task"] == harness.Task(t, w.cl, "hit").Meta.ID {
			pod = p
		}
	}
	if err := m.Kill(&pod, "train.py"); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the next generation trains", func() bool {
		now := harness.Task(t, w.cl, "hit").Status
		return now.Phase == api.PhaseRunning && now.Generation > 1
	})
	before := harness.Task(t, w.cl, "hit").Status
	w.s.Must(t, "DELETE", "/api/v1/namespaces/"+w.namespace+"/pods/"+pod.Name, kubetest.Object{"gracePeriodSeconds": 1}, nil)
	harness.Eventually(t, "it runs again", func() bool {
		now := harness.Task(t, w.cl, "hit").Status
		return now.Attempt > before.Attempt || now.Generation > before.Generation
	})
	done := w.phase("hit", api.PhaseCompleted)
	if got := digest("hit"); got != want {
		t.Errorf("digest %s, undisturbed %s", got, want)
	}
	t.Logf("restarts: %+v", done.Status.Restarts)
	for _, name := range []string{"calm", "hit"} {
		w.must("delete", "task", name)
	}
	w.noPods()
}

// anyImage: the launcher runs in an image that has a shell and nothing else, and in one that has one static program; the words are right where a
// container is over its memory, and where there is no such image.
func (w *world) anyImage(t *testing.T, _ *kubetest.Machine) {
	w.must("train", "run", "-d", "--name", "small", "--zone", "k1", "--image", imageSmall, "--", "/bin/sh", "-c", "echo small in $FERMI_ZONE; /bin/busybox id; fermi get task small")
	w.must("train", "run", "-d", "--name", "bare", "--zone", "k1", "--image", imageBare, "--", "/own", "sample", "train", "--steps", "20")
	w.must("train", "run", "-d", "--name", "fat", "--zone", "k1", "--image", imageTorch, "--memory", "200Mi", "--restarts", "0", "--", "/usr/bin/python3", "-c", "b = bytearray(2**30)")
	w.must("train", "run", "-d", "--name", "none", "--zone", "k1", "--image", "registry.invalid/no:1", "--restarts", "0", "--", "true")
	w.phase("small", api.PhaseCompleted)
	if out := w.must("logs", "small"); !strings.Contains(out, "small in k1") || !strings.Contains(out, "Running") {
		t.Errorf("small: %s", out)
	}
	w.phase("bare", api.PhaseCompleted)
	if f := w.phase("fat", api.PhaseFailed).Status.Failure; f == nil || !strings.Contains(strings.ToLower(f.Message.EN), "memory") {
		t.Errorf("fat: %+v", f)
	}
	if f := w.phase("none", api.PhaseFailed).Status.Failure; f == nil || !strings.Contains(f.Message.EN, "registry.invalid/no:1 can't be pulled") {
		t.Errorf("none: %+v", f)
	}
	for _, name := range []string{"small", "bare", "fat", "none"} {
		w.must("delete", "task", name)
	}
	w.noPods()
}

// keeps: the node keeps a dataset for the pods of a project, who find it and can't change it, also as a user that is not root.
func (w *world) keeps(t *testing.T, dir string) {
	file := filepath.Join(t.TempDir(), "points.csv")
	if err := os.WriteFile(file, []byte("as it was sent\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.must("data", "create", "points")
	w.must("data", "upload", "points", file)
	for i, want := range []string{"as it was sent", "as it lies here"} {
		name := fmt.Sprintf("reads%d", i)
		w.must("train", "run", "--name", name, "--zone", "k1", "--image", imageSmall, "--no-code", "--dataset", "points", "--", "/bin/sh", "-c",
			"/bin/busybox id -u; /bin/busybox cat $FERMI_DATASET/points.csv; echo x > $FERMI_DATASET/points.csv && echo written; true")
		if out := w.must("logs", name); !strings.Contains(out, want) || !strings.Contains(out, "1000") || strings.Contains(out, "written") {
			t.Errorf("%s: %s", name, out)
		}
		kept, err := filepath.Glob(filepath.Join(dir, "*", "0", "*", "root", "points.csv"))
		if err != nil || len(kept) != 1 {
			t.Fatalf("kept: %v %v", kept, err)
		}
		if err := os.WriteFile(kept[0], []byte("as it lies here\n"), 0o600); err != nil { // who fetches it again reads the other
			t.Fatal(err)
		}
		w.must("delete", "task", name)
	}
	w.noPods()
}

// serves: a service in real pods answers at the gateway.
func (w *world) serves(t *testing.T, _ *kubetest.Machine) {
	ann := w.member("eve", "shop")
	ann.must("service", "create", "echo", "--image", imageTorch, "--replicas", "2", "--cpu", "200m", "--memory", "128Mi", "--health", "/healthz", "--", "/usr/bin/python3", "-u", "-c", `
import http.server, os
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(os.environ["FERMI_REPLICA"].encode())
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("0.0.0.0", int(os.environ["PORT"])), H).serve_forever()`)
	seen := map[string]bool{}
	harness.Eventually(t, "both pods answer", func() bool {
		code, body := ann.get("/inference/echo/x")
		if code == http.StatusOK {
			seen[body] = true
		}
		return len(seen) == 2
	})
	var pod corev1.Pod
	for _, p := range w.pods() {
		if p.Status.PodIP == "" || p.Status.PodIP == p.Status.HostIP {
			t.Errorf("pod %s has the address %q", p.Name, p.Status.PodIP)
		}
		pod = p
	}
	if pod.Name == "" {
		t.Fatal("no pod")
	}
	ann.must("service", "delete", "echo", "--yes")
	w.noPods()
}

// isEntered: an environment in a real pod has its home on a volume of that node, is entered by SSH, and finds its files after stop and start.
func (w *world) isEntered(t *testing.T, m *kubetest.Machine) {
	stop := w.provision(m.Node)
	defer stop()
	ann := w.member("ann", "lab")
	ann.must("env", "create", "box", "--zone", "k1", "--image", imageTorch, "--cpu", "500m", "--memory", "512Mi", "--storage", "1Gi")
	if out := w.ssh(ann, "box.lab", "echo kept > ~/f; python3 -c 'import torch; print(torch.__version__)'; hostname"); !strings.Contains(out, "1.13") {
		t.Errorf("over SSH: %q", out)
	}
	if out := w.ssh(ann, "box.lab", "bash -lc 'fermi env list'"); !strings.Contains(out, "box") { // with the search path of a login shell
		t.Errorf("fermi over SSH: %q", out)
	}
	ann.must("env", "stop", "box")
	w.noPods()
	ann.must("env", "start", "box")
	if out := ann.must("env", "shell", "box", "--", "sh", "-c", "cat ~/f"); !strings.Contains(out, "kept") {
		t.Errorf("after its restart: %q", out)
	}
	ann.must("env", "delete", "box", "--yes")
	w.noPods()
}

// provision gives claims volumes on a node, as a provisioner of local volumes would; there is no controller here that does.
func (w *world) provision(node string) (stop func()) {
	w.t.Helper()
	dir := w.t.TempDir()
	ctx, cancel := context.WithCancel(w.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			var list corev1.PersistentVolumeClaimList
			if w.s.Ask("GET", "/api/v1/namespaces/"+w.namespace+"/persistentvolumeclaims", nil, &list) != nil {
				continue
			}
			for i := range list.Items {
				if c := &list.Items[i]; c.Status.Phase != corev1.ClaimBound && c.DeletionTimestamp == nil {
					if err := w.bind(c, dir, node); err != nil {
						w.t.Log(err)
					}
				}
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

func (w *world) bind(c *corev1.PersistentVolumeClaim, dir, node string) error {
	at, name, size := filepath.Join(dir, c.Name), "pv-"+string(c.UID), c.Spec.Resources.Requests
	if err := os.MkdirAll(at, 0o777); err != nil {
		return err
	}
	claim := "/api/v1/namespaces/" + w.namespace + "/persistentvolumeclaims/" + c.Name
	return errors.Join(
		os.Chmod(at, 0o777),
		w.s.Ask("POST", "/api/v1/persistentvolumes", kubetest.Object{"metadata": kubetest.Object{"name": name}, "spec": kubetest.Object{
			"capacity": size, "accessModes": []string{"ReadWriteOnce"}, "local": kubetest.Object{"path": at}, "persistentVolumeReclaimPolicy": "Retain",
			"claimRef": kubetest.Object{"kind": "PersistentVolumeClaim", "namespace": w.namespace, "name": c.Name, "uid": c.UID},
			"nodeAffinity": kubetest.Object{"required": kubetest.Object{"nodeSelectorTerms": []kubetest.Object{{"matchExpressions": []kubetest.Object{
				{"key": corev1.LabelHostname, "operator": "In", "values": []string{node}},
			}}}}},
		}}, nil),
		w.s.Ask("PATCH", "/api/v1/persistentvolumes/"+name+"/status", kubetest.Object{"status": kubetest.Object{"phase": "Bound"}}, nil),
		w.s.Ask("PATCH", claim, kubetest.Object{"metadata": kubetest.Object{"annotations": kubetest.Object{"pv.kubernetes.io/bind-completed": "yes"}}, "spec": kubetest.Object{"volumeName": name}}, nil),
		w.s.Ask("PATCH", claim+"/status", kubetest.Object{"status": kubetest.Object{"phase": "Bound", "accessModes": []string{"ReadWriteOnce"}, "capacity": size}}, nil),
	)
}

// says waits until a task's log has these words.
func (w *world) says(task, words string) {
	w.t.Helper()
	harness.Eventually(w.t, fmt.Sprintf("%s says %q", task, words), func() bool { return strings.Contains(w.must("logs", task), words) })
}
