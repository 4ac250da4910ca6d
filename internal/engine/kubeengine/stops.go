package kubeengine

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
)

// stops are the orders to end that are on their way to who can hear them. Safe for concurrent use.
type stops struct {
	cluster *Cluster
	fence   *fence
	tell    func(name engine.Name, grace time.Duration) error
	log     *slog.Logger
	clock   clock.Clock

	mu     sync.Mutex
	wishes map[engine.Name]deadline
}

// deadline is when a pod is ended that did not end by itself; zero: it is waited for.
type deadline struct {
	order order
	at    time.Time
}

// deaf is how long after an order to stop without any grace a pod may live on.
const deaf = 10 * time.Second

// note has an order repeated until the pod is over.
func (s *stops) note(name engine.Name, o order) {
	wish := deadline{order: o}
	if o.Grace == 0 {
		wish.at = s.clock.Now().Add(deaf)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if had, ok := s.wishes[name]; !ok || had.order.At != o.At {
		s.wishes[name] = wish
	}
}

func (s *stops) forget(name engine.Name) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.wishes, name)
}

// give hands an order to who can hear it.
func (s *stops) give(ctx context.Context, pod *corev1.Pod, o order) error {
	if s.tell(engine.Name(replicaName(pod)), o.Grace) == nil || pod.DeletionTimestamp != nil {
		return nil
	}
	seconds := int64(1)
	if o.Grace > 0 {
		seconds = int64((o.Grace + graceMore).Seconds())
	}
	return s.end(ctx, pod, seconds)
}

// press repeats orders to who has not heard them, and ends what does not hear at all. podOf is a replica's as it was seen last; nil: it is gone.
func (s *stops) press(ctx context.Context, podOf func(engine.Name) *corev1.Pod) {
	s.mu.Lock()
	list := maps.Clone(s.wishes)
	s.mu.Unlock()
	live := map[engine.Name]*corev1.Pod{}
	for name := range list {
		if pod := podOf(name); pod == nil || isOver(pod) {
			s.forget(name)
		} else {
			live[name] = pod
		}
	}
	if len(live) == 0 || s.fence.rule(ctx) != nil {
		return
	}
	for name, pod := range live {
		if err := s.repeat(ctx, name, pod, list[name]); err != nil && ctx.Err() == nil {
			s.log.Warn("an order to stop could not be given; trying again", "pod", pod.Name, "error", err)
		}
	}
}

// repeat gives an order once more; whoever is deaf to it is ended.
func (s *stops) repeat(ctx context.Context, name engine.Name, pod *corev1.Pod, w deadline) error {
	now := s.clock.Now()
	if w.at.IsZero() || now.Before(w.at) {
		return s.give(ctx, pod, w.order)
	}
	s.mu.Lock()
	s.wishes[name] = deadline{w.order, now.Add(deaf)}
	s.mu.Unlock()
	return s.end(ctx, pod, 1)
}

// isOver says that nothing of a pod runs any more.
func isOver(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// end has the kubelet end a pod. One that is gone is fine.
func (s *stops) end(ctx context.Context, pod *corev1.Pod, seconds int64) error {
	_, err := s.cluster.deletePod(ctx, pod, seconds)
	if IsGone(err) || IsConflict(err) {
		return nil
	}
	return s.cluster.Explain(err, "delete", "pods")
}

// letGo deletes a pod that is over, and takes our finalizer away, which kept it. One that is gone is fine.
func (s *stops) letGo(ctx context.Context, pod *corev1.Pod) error {
	left, err := s.cluster.deletePod(ctx, pod, 0)
	if IsConflict(err) {
		return nil // another one has its name
	}
	for err == nil && left != nil && left.UID == pod.UID && slices.Contains(left.Finalizers, finalizer) {
		rest := slices.DeleteFunc(slices.Clone(left.Finalizers), func(f string) bool { return f == finalizer })
		_, err = s.cluster.patchPod(ctx, left, map[string]any{"finalizers": rest, "resourceVersion": left.ResourceVersion})
		if err == nil || IsGone(err) {
			return nil
		}
		if !IsConflict(err) {
			return s.cluster.Explain(err, "patch", "pods")
		}
		left, err = s.cluster.getPod(ctx, pod.Name)
	}
	if err == nil || IsGone(err) {
		return nil
	}
	return s.cluster.Explain(err, "delete", "pods")
}
