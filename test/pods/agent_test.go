package pods

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/kubeengine/kubetest"
	"github.com/fermi-cluster/fermi/test/harness"
)

// agentOf gives a node the agent of the chart: its rights as they are rendered, a pod on that node, and that pod's own token in a kubeconfig.
func (w *world) agentOf(node string) (kubeconfig string) {
	w.t.Helper()
	for _, o := range render(w.t, w.namespace, "--set", "agent.enabled=true") {
		meta := o["metadata"].(map[string]any)
		kind, name := fmt.Sprint(o["kind"]), fmt.Sprint(meta["name"])
		if !strings.HasSuffix(name, "-agent") || kind == "DaemonSet" {
			continue
		}
		at := places[kind]
		if strings.Contains(at, "%s") {
			at = fmt.Sprintf(at, w.namespace)
		}
		w.s.Must(w.t, "POST", at, o, nil)
		if !strings.Contains(places[kind], "%s") {
			w.t.Cleanup(func() { _, _, _ = w.s.Do(kubetest.Admin, "DELETE", at+"/"+name, "", nil) })
		}
	}
	var pod corev1.Pod
	w.s.Must(w.t, "POST", "/api/v1/namespaces/"+w.namespace+"/pods", kubetest.Object{
		"metadata": kubetest.Object{"name": "agent-" + node},
		"spec":     kubetest.Object{"nodeName": node, "serviceAccountName": "fermi-agent", "automountServiceAccountToken": false, "containers": []kubetest.Object{{"name": "agent", "image": "i"}}},
	}, &pod)
	var got struct {
		Status struct{ Token string } `json:"status"`
	}
	w.s.Must(w.t, "POST", "/api/v1/namespaces/"+w.namespace+"/serviceaccounts/fermi-agent/token", kubetest.Object{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
		"spec": kubetest.Object{"boundObjectRef": kubetest.Object{"kind": "Pod", "apiVersion": "v1", "name": pod.Name, "uid": pod.UID}},
	}, &got)
	kubeconfig = filepath.Join(w.t.TempDir(), "kubeconfig")
	text, err := json.Marshal(kubetest.Object{
		"apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": []kubetest.Object{{"name": "c", "cluster": kubetest.Object{"server": w.s.URL, "insecure-skip-tls-verify": true}}},
		"users": []kubetest.Object{{"name": "u", "user": kubetest.Object{"token": got.Status.Token}}}, "contexts": []kubetest.Object{{"name": "c", "context": kubetest.Object{"cluster": "c", "user": "u"}}},
	})
	if err == nil {
		err = os.WriteFile(kubeconfig, text, 0o600)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return kubeconfig
}

// tool writes a program that says what NVIDIA's would of one card with so many memory errors.
func tool(t *testing.T, file string, errors int) {
	t.Helper()
	text := fmt.Sprintf(`#!/bin/sh
[ "$1" = -q ] || exit 1
echo '<nvidia_smi_log><gpu><product_name>NVIDIA A100-SXM4-80GB</product_name><uuid>GPU-1</uuid><temperature><gpu_temp>41 C</gpu_temp></temperature>
<ecc_errors><volatile><dram_uncorrectable>%d</dram_uncorrectable></volatile></ecc_errors></gpu></nvidia_smi_log>'
`, errors)
	if err := os.WriteFile(file+".new", []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

func conditionOf(n *corev1.Node) (c corev1.NodeCondition) {
	for _, c := range n.Status.Conditions {
		if c.Type == "fermi.io/unwell" {
			return c
		}
	}
	return c
}

// TestAgentWatch: the agent of the chart, with the rights that the chart gives it, says that a card of its node is at fault: what runs there moves at no cost of a
// restart. It is said again by the next agent, until an operator mended the node. What the agent may not do, the API server refuses.
func TestAgentWatch(t *testing.T) {
	w := up(t)
	w.onlyPods()
	w.meddle = func(l *kubetest.Life) bool { return strings.HasPrefix(l.Pod.Name, "agent-") } // it runs below
	node, other := "n-"+w.namespace, "o-"+w.namespace
	file := w.agentOf(node)
	smi := filepath.Join(t.TempDir(), "nvidia-smi")
	tool(t, smi, 0)
	listen := freeAddress(t)
	start := func() (stop func()) {
		cmd := exec.Command(w.bin, "agent", "watch", "--node", node, "--kubeconfig", file, "--nvidia-smi", smi, "--every", "200ms", "--listen", listen)
		out, err := os.Create(filepath.Join(t.TempDir(), "agent.log"))
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		stop = func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			_ = out.Close()
			if t.Failed() {
				raw, _ := os.ReadFile(out.Name())
				t.Logf("the agent: %s", raw)
			}
		}
		return stop
	}
	says := func(status corev1.ConditionStatus, words string) {
		t.Helper()
		harness.Eventually(t, fmt.Sprintf("the node says %s: %s", status, words), func() bool {
			var n corev1.Node
			w.s.Must(t, "GET", "/api/v1/nodes/"+node, nil, &n)
			c := conditionOf(&n)
			return c.Status == status && strings.Contains(c.Message, words)
		})
	}
	stop := start()
	defer func() { stop() }()
	says(corev1.ConditionFalse, "1 cards are well.")
	harness.Eventually(t, "metrics have the names of NVIDIA's exporter", func() bool {
		answer, err := http.Get("http://" + listen + "/metrics")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		raw, _ := io.ReadAll(answer.Body)
		return strings.Contains(string(raw), `DCGM_FI_DEV_GPU_TEMP{Hostname="`+node+`",UUID="GPU-1",gpu="0",modelName="NVIDIA A100-SXM4-80GB",pci_bus_id=""} 41`)
	})

	w.must("train", "run", "-d", "--name", "moves", "--zone", "k1", "--gpus", "1", "--", "sleep", "3600")
	w.phase("moves", api.PhaseRunning)
	w.s.Node(t, other, "nvidia.com/gpu", 8, nil)
	tool(t, smi, 2)
	says(corev1.ConditionTrue, "card 0 (GPU-1): its memory has had errors")
	harness.Eventually(t, "the task has moved", func() bool {
		now := harness.Task(t, w.cl, "moves")
		return now.Status.Phase == api.PhaseRunning && now.Status.Attempt == 2 && len(now.Status.Restarts) == 0
	})
	n, err := client.Get[*api.Node](t.Context(), w.cl, "", "k1-"+node)
	if err != nil || n.Status.Reason != engine.NodeUnwell {
		t.Errorf("%+v %v", n.Status, err)
	}

	stop()
	tool(t, smi, 0) // the driver was loaded again, which mends nothing
	stop = start()
	harness.Eventually(t, "the next agent answers", func() bool {
		answer, err := http.Get("http://" + listen + "/healthz")
		if err == nil {
			_ = answer.Body.Close()
		}
		return err == nil
	})
	says(corev1.ConditionTrue, "its memory has had errors")
	w.s.Must(t, "PATCH", "/api/v1/nodes/"+node, kubetest.Object{"metadata": kubetest.Object{"annotations": kubetest.Object{"fermi.io/mended": time.Now().UTC().Add(time.Second).Format(time.RFC3339)}}}, nil)
	says(corev1.ConditionFalse, "1 cards are well.")
	w.nodeReady(true)
	w.must("train", "stop", "moves")
	w.phase("moves", api.PhaseStopped)
	w.must("delete", "task", "moves")
}

// TestAgentRights: what the agent's token may do, and nothing else.
func TestAgentRights(t *testing.T) {
	s := kubetest.Get(t)
	w := &world{t: t, s: s, namespace: s.Namespace(t)}
	node, other := "n-"+w.namespace, "o-"+w.namespace
	for _, name := range []string{node, other} {
		s.Node(t, name, "nvidia.com/gpu", 8, nil)
	}
	var config struct {
		Users []struct {
			User struct{ Token string } `json:"user"`
		} `json:"users"`
	}
	raw, err := os.ReadFile(w.agentOf(node))
	if err == nil {
		err = json.Unmarshal(raw, &config)
	}
	if err != nil {
		t.Fatal(err)
	}
	conditions := func(kind string) kubetest.Object {
		return kubetest.Object{"status": kubetest.Object{"conditions": []kubetest.Object{{"type": kind, "status": "True", "reason": "Test", "message": "m"}}}}
	}
	ask := func(method, path string, body kubetest.Object) (int, string) {
		t.Helper()
		code, out, err := s.DoAs(config.Users[0].User.Token, method, path, "application/strategic-merge-patch+json", body)
		if err != nil {
			t.Fatal(err)
		}
		return code, string(out)
	}
	own := "/api/v1/nodes/" + node
	harness.Eventually(t, "it may say how its node is, and the policy holds", func() bool {
		mine, _ := ask("PATCH", own+"/status", conditions("fermi.io/unwell"))
		theirs, _ := ask("PATCH", "/api/v1/nodes/"+other+"/status", conditions("fermi.io/unwell"))
		return mine == http.StatusOK && theirs != http.StatusOK
	})
	if code, out := ask("GET", own, nil); code != http.StatusOK {
		t.Errorf("its own node: %d %s", code, out)
	}
	for what, c := range map[string]struct {
		method, path string
		body         kubetest.Object
		words        string
	}{
		"another node's condition": {"PATCH", "/api/v1/nodes/" + other + "/status", conditions("fermi.io/unwell"), "of its own node alone"},
		"another condition":        {"PATCH", own + "/status", conditions("Ready"), "the condition fermi.io/unwell alone"},
		"more cards than there are": {"PATCH", own + "/status", kubetest.Object{"status": kubetest.Object{"capacity": kubetest.Object{"nvidia.com/gpu": "16"}}},
			"the condition fermi.io/unwell alone"},
		"its taints":      {"PATCH", own, kubetest.Object{"spec": kubetest.Object{"unschedulable": true}}, "cannot patch"},
		"all nodes":       {"GET", "/api/v1/nodes", nil, "cannot list"},
		"pods":            {"GET", "/api/v1/namespaces/" + w.namespace + "/pods", nil, "cannot list"},
		"secrets":         {"GET", "/api/v1/namespaces/" + w.namespace + "/secrets", nil, "cannot list"},
		"deleting a node": {"DELETE", own, nil, "cannot delete"},
	} {
		if code, out := ask(c.method, c.path, c.body); code != http.StatusForbidden && code != http.StatusUnprocessableEntity || !strings.Contains(out, c.words) {
			t.Errorf("%s: %d %s", what, code, out)
		}
	}
}
