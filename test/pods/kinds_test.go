package pods

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/where"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/engine/kubeengine/kubetest"
	"github.com/fermi-cluster/fermi/test/harness"
)

// TestCache: a node keeps versions of datasets for all pods of a project: the second pod finds what the first one brought, and fetches nothing.
func TestCache(t *testing.T) {
	dir := t.TempDir()
	w := up(t, "--pods-cache", dir)
	w.onlyPods()
	file := filepath.Join(t.TempDir(), "points.csv")
	if err := os.WriteFile(file, []byte("as it was sent"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.must("data", "create", "points")
	w.must("data", "upload", "points", file)
	run := func(name, want string) {
		t.Helper()
		w.must("train", "run", "--name", name, "--no-code", "--dataset", "points", "--", "sh", "-c", "cat $FERMI_DATASET/points.csv")
		if out := w.must("logs", name); !strings.Contains(out, want) {
			t.Errorf("%s: %s", name, out)
		}
		w.must("delete", "task", name)
	}
	run("first", "as it was sent")
	kept, err := filepath.Glob(filepath.Join(dir, "*", "0", "*", "root", "points.csv"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("kept: %v %v", kept, err)
	}
	if err := os.WriteFile(kept[0], []byte("as it lies here"), 0o600); err != nil { // who fetched it again would read the other
		t.Fatal(err)
	}
	run("second", "as it lies here")
	w.noPods()
}

// member is an ordinary user of one project.
type member struct {
	w      *world
	secret string
}

func (w *world) member(name, project string) *member {
	w.t.Helper()
	ctx := w.t.Context()
	if _, err := client.Create(ctx, w.cl, &api.User{Meta: api.Meta{Name: name}, Spec: api.UserSpec{Role: api.RoleMember}}); err != nil {
		w.t.Fatal(err)
	}
	if _, err := client.Create(ctx, w.cl, &api.Project{Meta: api.Meta{Name: project}, Spec: api.ProjectSpec{Members: []string{name}, Queue: "default"}}); err != nil {
		w.t.Fatal(err)
	}
	made, err := w.cl.CreateToken(ctx, &api.Token{Meta: api.Meta{Name: name}, Spec: api.TokenSpec{User: name}}, false)
	if err != nil {
		w.t.Fatal(err)
	}
	return &member{w, made.Secret}
}

// must runs the command line as the member.
func (m *member) must(args ...string) string {
	m.w.t.Helper()
	cmd := exec.CommandContext(m.w.t.Context(), m.w.bin, args...)
	cmd.Env = append(os.Environ(), "FERMI_SERVER=http://"+m.w.Addr, "FERMI_TOKEN="+m.secret, "FERMI_LANG=en")
	out, err := cmd.CombinedOutput()
	if err != nil {
		m.w.t.Fatalf("fermi %v: %v\n%s\n%s", args, err, out, m.w.LogTail())
	}
	return string(out)
}

// get asks a path of the server.
func (m *member) get(path string) (code int, body string) {
	m.w.t.Helper()
	req, err := http.NewRequestWithContext(m.w.t.Context(), http.MethodGet, "http://"+m.w.Addr+path, nil)
	if err != nil {
		m.w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+m.secret)
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(raw)
}

func (w *world) claims() (out []corev1.PersistentVolumeClaim) {
	w.t.Helper()
	var list corev1.PersistentVolumeClaimList
	w.s.Must(w.t, "GET", "/api/v1/namespaces/"+w.namespace+"/persistentvolumeclaims", nil, &list)
	for _, c := range list.Items {
		if c.DeletionTimestamp == nil { // nobody takes the finalizer of claims away here: there is no controller manager
			out = append(out, c)
		}
	}
	return out
}

// TestEnvironment: an environment in a pod has a home that is a claim of a volume and outlives stop and start, and all ways in: the shell, SSH, ports.
func TestEnvironment(t *testing.T) {
	w := up(t, "--ssh", "127.0.0.1:0", "--pods-storage", "fast")
	ann := w.member("ann", "lab")
	ann.must("env", "create", "box", "--zone", "k1", "--storage", "2Gi", "--accelerators", "1", "--port", "5000", "--",
		"python3", "-u", "-c", `
import http.server
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"hello from " + self.path.encode())
http.server.HTTPServer(("127.0.0.1", 5000), H).serve_forever()`)
	if out := ann.must("env", "shell", "box", "--", "sh", "-c", `cd; echo kept > f; pwd; echo $FERMI_ZONE`); !strings.Contains(out, "/fermi/homes/env-") || !strings.Contains(out, "k1") {
		t.Errorf("in a shell: %s", out)
	}
	harness.Eventually(t, "the port answers", func() bool {
		code, body := ann.get("/env/lab/box/5000/a")
		return code == http.StatusOK && body == "hello from /a"
	})
	claims := w.claims()
	if len(claims) != 1 {
		t.Fatalf("%d claims", len(claims))
	}
	c := claims[0]
	if size := c.Spec.Resources.Requests[corev1.ResourceStorage]; size.String() != "2Gi" || c.Spec.StorageClassName == nil || *c.Spec.StorageClassName != "fast" ||
		c.Annotations["volume.kubernetes.io/selected-node"] != "n-"+w.namespace || c.Labels["fermi.io/project"] != "lab" {
		t.Errorf("%+v", c)
	}
	if out := w.ssh(ann, "box.lab", "cat f && exit 7"); !strings.HasPrefix(out, "kept\n") || !strings.HasSuffix(out, "7") {
		t.Errorf("over SSH: %q", out)
	}
	ann.must("env", "stop", "box")
	w.noPods()
	ann.must("env", "start", "box")
	if out := ann.must("env", "shell", "box", "--", "sh", "-c", "cat ~/f"); !strings.Contains(out, "kept") {
		t.Errorf("after its restart: %s", out)
	}
	ann.must("env", "delete", "box", "--yes")
	w.noPods()
	harness.Eventually(t, "its home is gone", func() bool { return len(w.claims()) == 0 })
}

// TestHomeOfOneNode: where the volume of a home is reached from one node alone, the environment starts there, however much room there is elsewhere.
func TestHomeOfOneNode(t *testing.T) {
	w := up(t)
	ann := w.member("ann", "lab")
	ann.must("env", "create", "box", "--zone", "k1", "--accelerators", "1")
	first := w.pods()[0].Spec.NodeName
	ann.must("env", "stop", "box")
	w.noPods()
	other := "o-" + w.namespace
	w.s.Node(t, other, "nvidia.com/gpu", 1, map[string]string{corev1.LabelHostname: other})
	harness.Eventually(t, "there are two nodes", func() bool {
		n, err := client.Get[*api.Node](t.Context(), w.cl, "", "k1-"+other)
		return err == nil && n.Status.Ready
	})
	claim := w.claims()[0]
	if err := w.bind(&claim, t.TempDir(), other); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time it is known
		ann.must("env", "start", "box")
		list := w.pods()
		if len(list) != 1 || list[0].Spec.NodeName != other {
			t.Fatalf("it was on %s; now %d pods, the first on %s; %s alone reaches its home", first, len(list), list[0].Spec.NodeName, other)
		}
		ann.must("env", "stop", "box")
		w.noPods()
	}
	ann.must("env", "delete", "box", "--yes")
}

// ssh runs a command with OpenSSH's client; its exit code is at the end.
func (w *world) ssh(m *member, user, command string) string {
	w.t.Helper()
	if _, err := exec.LookPath("ssh"); err != nil {
		w.t.Fatal("OpenSSH's client is needed:", err)
	}
	d, err := client.SSH(w.t.Context(), w.cl)
	if err != nil {
		w.t.Fatal(err)
	}
	dir := w.t.TempDir()
	key, known := filepath.Join(dir, "key"), filepath.Join(dir, "known")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		w.t.Fatalf("%v %s", err, out)
	}
	if err := os.WriteFile(known, fmt.Appendf(nil, "[127.0.0.1]:%d %s\n", d.Port, d.HostKey), 0o600); err != nil {
		w.t.Fatal(err)
	}
	m.must("user", "key", "add", "--name", filepath.Base(dir), key+".pub")
	cmd := exec.CommandContext(w.t.Context(), "ssh", "-F", "/dev/null", "-i", key, "-o", "IdentitiesOnly=yes", "-o", "UserKnownHostsFile="+known, "-o", "StrictHostKeyChecking=yes",
		"-o", "LogLevel=ERROR", "-p", fmt.Sprint(d.Port), user+"@127.0.0.1", command)
	out, _ := cmd.CombinedOutput()
	return string(out) + fmt.Sprint(cmd.ProcessState.ExitCode())
}

// onlyPods keeps work away from the machine of the server.
func (w *world) onlyPods() {
	w.t.Helper()
	list, err := w.cl.List(w.t.Context(), api.KindNode, client.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, o := range list.Items {
		if n := o.(*api.Node); n.Spec.Zone != "k1" {
			w.must("node", "cordon", n.Meta.Name)
		}
	}
}

// TestService: a service's replicas are pods that the gateway dials; one that is deleted by hand is replaced, and requests go on being answered.
func TestService(t *testing.T) {
	w := up(t)
	w.onlyPods()
	ann := w.member("ann", "lab")
	ann.must("service", "create", "echo", "--replicas", "2", "--health", "/healthz", "--", "python3", "-u", "-c", `
import http.server, os
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(os.environ["FERMI_REPLICA"].encode())
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("0.0.0.0", int(os.environ["PORT"])), H).serve_forever()`)
	if list := ann.must("service", "list"); !strings.Contains(list, "2/2") {
		t.Errorf("listed: %s", list)
	}
	var gone string
	harness.Eventually(t, "a pod answers", func() (ok bool) {
		var code int
		code, gone = ann.get("/inference/echo/x")
		return code == http.StatusOK
	})
	for _, p := range w.pods() {
		if p.Labels["fermi.io/service"] != "echo" {
			t.Errorf("labels %v", p.Labels)
		}
		if p.Annotations["fermi.io/replica-name"] == gone {
			w.s.Must(t, "DELETE", "/api/v1/namespaces/"+w.namespace+"/pods/"+p.Name, nil, nil)
		}
	}
	harness.Eventually(t, "another pod answers", func() bool {
		code, body := ann.get("/inference/echo/x")
		return code == http.StatusOK && body != gone
	})
	harness.Eventually(t, "another one took its place", func() bool {
		alive := 0
		for _, p := range w.pods() {
			if p.DeletionTimestamp == nil && p.Annotations["fermi.io/replica-name"] != gone {
				alive++
			}
		}
		return alive == 2 && strings.Contains(ann.must("service", "list"), "2/2")
	})
	ann.must("service", "delete", "echo", "--yes")
	w.noPods()
}

// TestServiceRoad: a service with a port of its own is also a Service of the cluster, which selects its pods, as long as there are any. A Service of the same name
// that somebody else made stays as it is.
func TestServiceRoad(t *testing.T) {
	w := up(t)
	w.onlyPods()
	at := "/api/v1/namespaces/" + w.namespace + "/services/"
	w.s.Must(t, "POST", strings.TrimSuffix(at, "/"), kubetest.Object{"metadata": kubetest.Object{"name": "theirs"}, "spec": kubetest.Object{"ports": []kubetest.Object{{"port": 1}}}}, nil)
	ann := w.member("ann", "lab")
	for _, name := range []string{"ours", "theirs"} {
		_, port, _ := strings.Cut(freeAddress(t), ":")
		ann.must("service", "create", name, "--replicas", "1", "--port", port, "--", "python3", "-m", "http.server", "--bind", "127.0.0.1", port)
	}
	road := func(name string) (out corev1.Service, there bool) {
		t.Helper()
		code, raw, err := w.s.Do(kubetest.Admin, "GET", at+name, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		if code == http.StatusNotFound {
			return out, false
		}
		if err := json.Unmarshal(raw, &out); err != nil {
			t.Fatal(err)
		}
		return out, true
	}
	var made corev1.Service
	harness.Eventually(t, "there is a Service", func() (ok bool) {
		made, ok = road("ours")
		return ok
	})
	var pods corev1.PodList
	w.s.Must(t, "GET", "/api/v1/namespaces/"+w.namespace+"/pods?labelSelector="+url.QueryEscape(labels.Set(made.Spec.Selector).String()), nil, &pods)
	if len(pods.Items) != 1 || pods.Items[0].Labels["fermi.io/service"] != "ours" || len(made.Spec.Ports) != 1 || made.Spec.Ports[0].TargetPort.IntVal != pods.Items[0].Spec.Containers[0].ReadinessProbe.TCPSocket.Port.IntVal {
		t.Errorf("%d pods; %+v", len(pods.Items), made.Spec)
	}
	for _, name := range []string{"ours", "theirs"} {
		ann.must("service", "delete", name, "--yes")
	}
	w.noPods()
	harness.Eventually(t, "the Service is gone", func() bool {
		_, ok := road("ours")
		return !ok
	})
	if s, ok := road("theirs"); !ok || len(s.Labels) != 0 || s.Spec.Ports[0].Port != 1 {
		t.Errorf("somebody else's: %v %+v", ok, s)
	}
}

// TestTwoClusters: two API servers are two zones of one Fermi. A gang that stands in both trains as one and is read at one place; one cluster's loss is not the other's.
func TestTwoClusters(t *testing.T) {
	first := kubetest.Get(t)
	second, err := kubetest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(second.Close)
	namespace := second.Namespace(t)
	second.Node(t, "m-"+namespace, "nvidia.com/gpu", 8, nil)
	file := second.Kubeconfig(t, kubetest.Fermi)
	w := begin(t, first.URL, "--cluster", "k2="+file+":"+namespace)
	second.StartKubelet(t, namespace, kubetest.Processes(w.bin, t.TempDir()))
	other := func() []corev1.Pod {
		t.Helper()
		var list corev1.PodList
		second.Must(t, "GET", "/api/v1/namespaces/"+namespace+"/pods", nil, &list)
		return list.Items
	}
	harness.Eventually(t, "the second cluster is there", func() bool {
		n, err := client.Get[*api.Node](t.Context(), w.cl, "", "k2-m-"+namespace)
		return err == nil && n.Status.Ready
	})
	_, err = w.cl.Submit(t.Context(), &api.TrainingTask{Meta: api.Meta{Name: "wide"}, Spec: api.TrainingTaskSpec{
		Zones: &api.ZoneRules{Split: where.Split{"k1": where.Exactly(1), "k2": where.Exactly(1)}},
		Roles: []api.Role{{Name: "worker", Replicas: 2, Command: []string{"fermi", "sample", "train", "--steps", "100000", "--step-time", "20ms"}, Resources: api.Resources{CPU: 500, Memory: 1 << 28}}},
	}}, false)
	if err != nil {
		t.Fatal(err)
	}
	w.phase("wide", api.PhaseRunning)
	if a, b := w.pods(), other(); len(a) != 1 || len(b) != 1 || a[0].Labels["fermi.io/zone"] != "k1" || b[0].Labels["fermi.io/zone"] != "k2" || a[0].Labels["fermi.io/task"] != b[0].Labels["fermi.io/task"] {
		t.Fatalf("%d and %d pods", len(a), len(b))
	}
	harness.Eventually(t, "it trains", func() bool { return strings.Contains(w.must("logs", "wide"), "step") })
	second.Down()
	harness.Eventually(t, "the second cluster takes no work", func() bool {
		n, err := client.Get[*api.Node](t.Context(), w.cl, "", "k2-m-"+namespace)
		return err == nil && !n.Status.Ready
	})
	w.must("train", "run", "--name", "alone", "--zone", "k1", "--", "true")
	before, said := harness.Task(t, w.cl, "wide").Status, len(w.must("logs", "wide"))
	harness.Eventually(t, "it trains on", func() bool {
		now := harness.Task(t, w.cl, "wide").Status
		return now.Phase == api.PhaseRunning && now.Generation == before.Generation && len(w.must("logs", "wide")) > said
	})
	if err := second.Up(); err != nil {
		t.Fatal(err)
	}
	w.must("train", "stop", "wide")
	w.phase("wide", api.PhaseStopped)
	for _, task := range []string{"wide", "alone"} {
		w.must("delete", "task", task)
	}
	w.noPods()
	harness.Eventually(t, "no pod is left there", func() bool { return len(other()) == 0 })
}
