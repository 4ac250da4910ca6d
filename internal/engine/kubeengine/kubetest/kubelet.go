package kubetest

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Kubelet does for pods of a namespace what their nodes would, by Run.
type Kubelet struct {
	s         *Server
	namespace string
	// Run is the life of one pod; it reports by Life, and when it returns the pod has ended.
	run func(l *Life)

	mu    sync.Mutex
	lives map[types.UID]*Life
	wg    sync.WaitGroup
}

// Life is a pod that runs.
type Life struct {
	Pod *corev1.Pod
	// Deleted is closed when somebody wants it to end; within Grace.
	Deleted chan struct{}
	Grace   time.Duration
	// Over is closed when the test is.
	Over <-chan struct{}

	k     *Kubelet
	asked bool
}

// StartKubelet runs one until the test is over.
func (s *Server) StartKubelet(t testing.TB, namespace string, run func(*Life)) *Kubelet {
	k := &Kubelet{s: s, namespace: namespace, run: run, lives: map[types.UID]*Life{}}
	ctx, cancel := context.WithCancel(context.Background())
	k.wg.Go(func() { k.loop(ctx) })
	t.Cleanup(func() {
		cancel()
		k.wg.Wait()
	})
	return k
}

func (k *Kubelet) loop(ctx context.Context) {
	for ctx.Err() == nil {
		code, out, err := k.s.Do(Admin, "GET", "/api/v1/namespaces/"+k.namespace+"/pods", "", nil)
		var list corev1.PodList
		if err == nil && code == http.StatusOK && json.Unmarshal(out, &list) == nil {
			for i := range list.Items {
				k.see(ctx, &list.Items[i])
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (k *Kubelet) see(ctx context.Context, pod *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.lives[pod.UID]
	if l == nil {
		if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
			return
		}
		l = &Life{Pod: pod, Deleted: make(chan struct{}), Over: ctx.Done(), k: k}
		k.lives[pod.UID] = l
		k.wg.Go(func() { k.run(l) })
	}
	if pod.DeletionTimestamp != nil && !l.asked {
		l.asked = true
		if pod.DeletionGracePeriodSeconds != nil {
			l.Grace = time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
		}
		close(l.Deleted)
	}
}

// Report writes the pod's status; it is tried until it is written, or the pod is gone.
func (l *Life) Report(status corev1.PodStatus) {
	for {
		code, _, err := l.k.s.Do(Admin, "PATCH", "/api/v1/namespaces/"+l.Pod.Namespace+"/pods/"+l.Pod.Name+"/status", "application/merge-patch+json", Object{"metadata": Object{"uid": l.Pod.UID}, "status": status})
		if err == nil && (code < 300 || code == http.StatusNotFound || code == http.StatusConflict) {
			return
		}
		select {
		case <-l.Over:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}
