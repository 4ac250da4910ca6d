package kubeengine

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/kubeengine/kubetest"
)

// TestManyFoundAgain: a server that starts again knows all pods that run, ends the one that it is told to, and touches no other. FERMI_KUBE_PODS is how many there are.
func TestManyFoundAgain(t *testing.T) {
	count := 300
	if n, err := strconv.Atoi(os.Getenv("FERMI_KUBE_PODS")); err == nil {
		count = n
	}
	s := kubetest.Get(t)
	z := &site{s: s, namespace: s.Namespace(t), dir: t.TempDir(), file: s.Kubeconfig(t, kubetest.Fermi), lives: map[engine.Name]*acted{}, starts: map[engine.Name]int{}}
	s.Node(t, "many", "nvidia.com/gpu", 8, nil)
	first, stop := z.Open(t, 1)
	name := func(i int) engine.Name { return engine.Name(fmt.Sprintf("task-m%05d-worker-0-1", i)) }
	yes := true
	each := func(do func(i int)) {
		var wg sync.WaitGroup
		for lane := range 16 {
			wg.Go(func() {
				for i := lane; i < count; i += 16 {
					do(i)
				}
			})
		}
		wg.Wait()
	}
	began := time.Now()
	each(func(i int) {
		r := engine.Replica{Name: name(i), TaskID: fmt.Sprintf("task-m%05d", i), Project: "p", Role: "worker", Attempt: 1, Zone: "z", Node: "z-many", Command: []string{"/bin/true"}, Resources: api.Resources{CPU: 1}}
		if err := first.Start(t.Context(), r); err != nil {
			t.Error(err)
			return
		}
		path := "/api/v1/namespaces/" + z.namespace + "/pods/" + string(r.Name) + "/status"
		running := corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.7", ContainerStatuses: []corev1.ContainerStatus{{
			Name: Container, Started: &yes, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
		}}}
		if code, out, err := s.Do(kubetest.Admin, http.MethodPatch, path, "application/merge-patch+json", kubetest.Object{"status": running}); err != nil || code != http.StatusOK {
			t.Errorf("%d %s %v", code, out, err)
		}
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Logf("%d pods were made in %s", count, time.Since(began).Round(time.Millisecond))
	stop()
	versions := func() map[string]string {
		var list corev1.PodList
		s.Must(t, "GET", "/api/v1/namespaces/"+z.namespace+"/pods", nil, &list)
		out := map[string]string{}
		for _, p := range list.Items {
			out[p.Name] = p.ResourceVersion
		}
		return out
	}
	before := versions()

	began = time.Now()
	again, stop := z.Open(t, 2)
	defer stop()
	found, running := again.Replicas(""), 0
	for _, o := range found {
		if o.State == engine.StateRunning && o.Exit == nil {
			running++
		}
	}
	if len(found) != count || running != count {
		t.Fatalf("%d of %d were found, %d run", len(found), count, running)
	}
	for again.Stop(t.Context(), name(7), time.Second) != nil { // the lists may take longer than a server waits for them
		select {
		case <-t.Context().Done():
			t.Fatal("it was never told to stop")
		case <-time.After(20 * time.Millisecond):
		}
	}
	t.Logf("%d pods were known and one was told to stop %s after the start", count, time.Since(began).Round(time.Millisecond))
	touched := 0
	for pod, version := range versions() {
		if before[pod] != version {
			touched++
		}
	}
	if touched != 1 {
		t.Errorf("%d pods were touched", touched)
	}
	stop()
	each(func(i int) { // namespaces of kubetest stay; what is in them need not
		_, _, _ = s.Do(kubetest.Admin, http.MethodPatch, "/api/v1/namespaces/"+z.namespace+"/pods/"+string(name(i)), "application/merge-patch+json", kubetest.Object{"metadata": kubetest.Object{"finalizers": nil}})
		_, _, _ = s.Do(kubetest.Admin, http.MethodDelete, "/api/v1/namespaces/"+z.namespace+"/pods/"+string(name(i)), "", kubetest.Object{"gracePeriodSeconds": 0})
	})
}
