package pods

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/engine/kubeengine/kubetest"
	"github.com/fermi-cluster/fermi/test/harness"
)

const (
	chaosNodes   = 4
	chaosDevices = 4
	chaosTasks   = 10
	chaosStay    = 3 // tasks that run through all storms
)

// TestChaos: seeded storms over a cluster at work: pods deleted by hand, nodes that are not ready or gone, the API server and Fermi killed, watches cut,
// answers of 409, 429, 500, 503 and none at all. Meanwhile no device has two pods; after each storm the pods are what the placements say; at the end each task ends as it
// would have, no replica was started twice, and nothing is left. FERMI_SEED, FERMI_STORMS and FERMI_STORM_SECONDS, which is for all of them, change it.
func TestChaos(t *testing.T) {
	seed, storms, seconds := uint64(harness.EnvInt("FERMI_SEED", 1)), harness.EnvInt("FERMI_STORMS", 2), harness.EnvInt("FERMI_STORM_SECONDS", 25)
	t.Logf("FERMI_SEED=%d", seed)
	dice := rand.New(rand.NewPCG(seed, 1))
	s := kubetest.Get(t)
	proxy := s.Proxy(t, seed)
	w := begin(t, proxy.URL)
	w.onlyPods()
	nodes := []string{"n-" + w.namespace}
	for i := range chaosNodes - 1 {
		nodes = append(nodes, fmt.Sprintf("x%d-%s", i, w.namespace))
	}
	for _, n := range nodes {
		w.chaosNode(n)
	}
	journal, over := filepath.Join(t.TempDir(), "journal"), filepath.Join(t.TempDir(), "over")
	for i := range chaosStay {
		w.must("train", "run", "-d", "--name", fmt.Sprintf("s%d", i), "--replicas", fmt.Sprint(1+i%2), "--gpus", "1", "--restarts", "1000", "--",
			"sh", "-c", fmt.Sprintf("echo $FERMI_REPLICA >> %s; while [ ! -e %s ]; do sleep 0.2; done; echo right > $FERMI_OUTPUT/f", journal, over))
	}
	for i := range chaosTasks {
		w.must("train", "run", "-d", "--name", fmt.Sprintf("c%d", i), "--replicas", fmt.Sprint(1+dice.IntN(2)), "--gpus", fmt.Sprint(1+dice.IntN(3)), "--restarts", "1000", "--",
			"sh", "-c", fmt.Sprintf("echo $FERMI_REPLICA >> %s; sleep %d; echo right > $FERMI_OUTPUT/f", journal, 1+dice.IntN(8)))
	}
	stop := w.watchDevices(nodes)
	storm := &storm{world: w, proxy: proxy, dice: dice, nodes: nodes}
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for range storms {
		proxy.Storm(true)
		for end := time.Now().Add(time.Duration(seconds) * time.Second / time.Duration(storms)); time.Now().Before(end); <-tick.C {
			storm.strike()
		}
		proxy.Storm(false)
		for _, n := range nodes {
			w.chaosNode(n)
		}
		harness.Eventually(t, "the pods are what the placements say", w.asPlaced)
	}
	t.Logf("the storms: %v; answers: %v", storm.did, proxy.Done())
	if err := os.WriteFile(over, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for i := range chaosTasks {
		names = append(names, fmt.Sprintf("c%d", i))
	}
	for i := range chaosStay {
		names = append(names, fmt.Sprintf("s%d", i))
	}
	for _, name := range names {
		for end := time.Now().Add(4 * harness.Patience); time.Now().Before(end) && !harness.Task(t, w.cl, name).Status.Phase.Finished(); <-tick.C {
		}
		now := w.phase(name, api.PhaseCompleted)
		for k := range now.Status.Replicas.Total {
			dir := t.TempDir()
			w.must("train", "outputs", name, "--get", dir)
			if raw, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("worker-%d", k), "f")); err != nil || string(raw) != "right\n" {
				t.Errorf("%s, replica %d: %q %v", name, k, raw, err)
			}
		}
		w.must("delete", "task", name)
	}
	stop()
	w.noPods()
	raw, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	starts := map[string]int{}
	for _, line := range bytes.Fields(raw) {
		if starts[string(line)]++; starts[string(line)] == 2 {
			t.Errorf("%s was started twice", line)
		}
	}
	t.Logf("%d replicas were started", len(starts))
}

// stand is where a replica is, and with how many devices.
type stand struct {
	node    string
	devices int64
}

// asPlaced says that every task that runs has a pod for each replica, where its place is and with so many devices, that tasks which wait or are over have none,
// and that nobody else has any.
func (w *world) asPlaced() bool {
	placed := map[string]stand{}
	list, err := w.cl.List(w.t.Context(), api.KindTrainingTask, client.ListOptions{})
	if err != nil {
		return false
	}
	for _, o := range list.Items {
		task := o.(*api.TrainingTask)
		switch now := task.Status; {
		case now.Phase == api.PhasePending || now.Phase.Finished():
			continue
		case now.Phase != api.PhaseRunning:
			return false // on its way
		}
		replicas, err := w.cl.Replicas(w.t.Context(), task.Meta.Project, task.Meta.Name)
		if err != nil {
			return false
		}
		n := 0
		for _, r := range replicas {
			if r.Attempt != task.Status.Attempt {
				continue
			}
			n++
			placed[r.Name] = stand{strings.TrimPrefix(r.Node, "k1-"), int64(r.Devices)}
		}
		if n != task.Status.Replicas.Total {
			return false
		}
	}
	for _, p := range w.pods() {
		if p.DeletionTimestamp != nil {
			return false
		}
		if p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded {
			continue // its end is being taken over
		}
		gpus := p.Spec.Containers[0].Resources.Limits["nvidia.com/gpu"]
		name := p.Annotations["fermi.io/replica-name"]
		if placed[name] != (stand{p.Spec.NodeName, gpus.Value()}) {
			return false
		}
		delete(placed, name)
	}
	return len(placed) == 0
}

// chaosNode makes a node, or makes it ready again.
func (w *world) chaosNode(name string) {
	w.t.Helper()
	w.s.Node(w.t, name, "nvidia.com/gpu", chaosDevices, nil)
}

// watchDevices looks again and again whether pods have more devices of a node than there are, until it is stopped.
func (w *world) watchDevices(nodes []string) (stop func()) {
	over := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for looks := 0; ; looks++ {
			code, out, err := w.s.Do(kubetest.Admin, "GET", "/api/v1/namespaces/"+w.namespace+"/pods", "", nil)
			var list corev1.PodList
			if err == nil && code == http.StatusOK && json.Unmarshal(out, &list) == nil {
				used := map[string]int64{}
				for _, p := range list.Items {
					if p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded {
						n := p.Spec.Containers[0].Resources.Limits["nvidia.com/gpu"]
						used[p.Spec.NodeName] += n.Value()
					}
				}
				for _, n := range nodes {
					if used[n] > chaosDevices {
						w.t.Errorf("pods have %d of %d devices of %s", used[n], chaosDevices, n)
					}
				}
			}
			select {
			case <-over:
				w.t.Logf("%d looks at the devices", looks)
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	return sync.OnceFunc(func() {
		close(over)
		wg.Wait()
	})
}

// storm is what happens to a cluster.
type storm struct {
	*world
	proxy *kubetest.Proxy
	dice  *rand.Rand
	nodes []string
	did   []string
}

func (s *storm) strike() {
	node := s.nodes[s.dice.IntN(len(s.nodes))]
	note := func(what string) { s.did = append(s.did, what) }
	switch n := s.dice.IntN(100); {
	case n < 40:
		list := s.world.pods()
		if len(list) == 0 {
			return
		}
		p := list[s.dice.IntN(len(list))]
		_, _, _ = s.s.Do(kubetest.Admin, "DELETE", "/api/v1/namespaces/"+s.namespace+"/pods/"+p.Name, "", kubetest.Object{"gracePeriodSeconds": s.dice.IntN(3)})
		note("pod")
	case n < 60:
		s.proxy.CutWatches()
		note("watches")
	case n < 75:
		s.s.Must(s.t, "PATCH", "/api/v1/nodes/"+node+"/status", kubetest.Object{"status": kubetest.Object{"conditions": []kubetest.Object{{
			"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339), "lastHeartbeatTime": time.Now().UTC().Format(time.RFC3339),
		}}}}, nil)
		note("notReady")
	case n < 88:
		s.chaosNode(node)
		note("ready")
	case n < 93:
		_, _, _ = s.s.Do(kubetest.Admin, "DELETE", "/api/v1/nodes/"+node, "", nil)
		s.chaosNode(node)
		note("nodeGone")
	case n < 97:
		s.s.Down()
		if err := s.s.Up(); err != nil {
			s.t.Fatal(err)
		}
		note("apiServer")
	default:
		s.Kill()
		harness.Ready(s.t, s.Cluster)
		cl, err := s.Client()
		if err != nil {
			s.t.Fatal(err)
		}
		s.cl = cl
		note("fermi")
	}
}
