package kubeengine

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// watcher follows a kind of objects.
type watcher struct {
	cache.SharedIndexInformer
	told cache.ResourceEventHandlerRegistration
}

// watchers are the informers: nodes, our pods, and those of others that use something.
func (e *Engine) watchers() []watcher {
	c := e.cfg.Cluster
	ours := LabelZone + "=" + c.Zone
	pods := func() runtime.Object { return &corev1.PodList{} }
	return []watcher{
		wanted{resource: "nodes", one: &corev1.Node{}, list: func() runtime.Object { return &corev1.NodeList{} }, slim: slimNode}.follow(c, e.fret, cache.ResourceEventHandlerFuncs{
			AddFunc: func(o any) { e.ground.sawNode(o.(*corev1.Node)) }, UpdateFunc: func(_, o any) { e.ground.sawNode(o.(*corev1.Node)) },
			DeleteFunc: func(o any) { e.ground.lostNode(last[*corev1.Node](o)) },
		}),
		wanted{resource: "pods", namespace: c.Namespace, labels: ours, one: &corev1.Pod{}, list: pods, slim: slimPod}.follow(c, e.fret, cache.ResourceEventHandlerFuncs{
			AddFunc: func(o any) { e.sawPod(o.(*corev1.Pod)) }, UpdateFunc: func(_, o any) { e.sawPod(o.(*corev1.Pod)) },
			DeleteFunc: func(o any) { e.lostPod(last[*corev1.Pod](o)) },
		}),
		wanted{
			resource: "pods", labels: LabelZone + "!=" + c.Zone, fields: "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed", one: &corev1.Pod{}, list: pods, slim: slimOther,
		}.follow(c, e.fret, cache.ResourceEventHandlerFuncs{
			AddFunc: func(o any) { e.ground.sawOther(o.(*corev1.Pod)) }, UpdateFunc: func(_, o any) { e.ground.sawOther(o.(*corev1.Pod)) },
			DeleteFunc: func(o any) { e.ground.lostOther(last[*corev1.Pod](o)) },
		}),
	}
}

// list are our pods as they were seen last.
func (e *Engine) list() []*corev1.Pod {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Values(e.seen))
}

// last is an object that is gone, as it was seen last.
func last[T any](o any) T {
	if d, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = d.Obj
	}
	t, _ := o.(T)
	return t
}

// wanted is a kind of objects that is followed.
type wanted struct {
	resource, namespace, labels, fields string // namespace "": all
	one                                 runtime.Object
	list                                func() runtime.Object
	slim                                cache.TransformFunc // what is kept of one
}

// follow follows them in a cluster, once it is run; fret hears why it can't be begun.
func (want wanted) follow(c *Cluster, fret func(error), h cache.ResourceEventHandlerFuncs) watcher {
	fill := func(o metav1.ListOptions) metav1.ListOptions {
		o.LabelSelector, o.FieldSelector = want.labels, want.fields
		return o
	}
	inf := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			into := want.list()
			return into, c.list(ctx, want.resource, want.namespace, into, fill(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			made, err := c.connect()
			if err != nil {
				return nil, err
			}
			o = fill(o)
			o.Watch = true
			return made.watches.Get().Namespace(want.namespace).Resource(want.resource).VersionedParams(&o, parameters()).Watch(ctx)
		},
	}, want.one, 0, cache.Indexers{})
	_ = inf.SetTransform(want.slim)
	_ = inf.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		if ctx.Err() == nil && !inf.HasSynced() { // later on, the beat says whether the cluster answers
			fret(c.Explain(err, "list", want.resource))
		}
	})
	told, _ := inf.AddEventHandler(h)
	return watcher{inf, told}
}

func slimNode(o any) (any, error) {
	if n, ok := o.(*corev1.Node); ok {
		n.ManagedFields, n.Status.Images, n.Annotations = nil, nil, nil
	}
	return o, nil
}

// slimPod keeps of a pod of ours what is asked of it later: its record, where it is, how it does.
func slimPod(o any) (any, error) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	p.ManagedFields = nil
	spec := corev1.PodSpec{NodeName: p.Spec.NodeName, ImagePullSecrets: p.Spec.ImagePullSecrets}
	for _, c := range p.Spec.Containers {
		spec.Containers = append(spec.Containers, corev1.Container{Name: c.Name, ReadinessProbe: c.ReadinessProbe})
	}
	p.Spec = spec
	return p, nil
}

// slimOther keeps of a pod of others where it is and what it asks for.
func slimOther(o any) (any, error) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	less := func(list []corev1.Container) []corev1.Container {
		out := make([]corev1.Container, len(list))
		for i, c := range list {
			out[i] = corev1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy}
		}
		return out
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, UID: p.UID, ResourceVersion: p.ResourceVersion},
		Spec:       corev1.PodSpec{NodeName: p.Spec.NodeName, Containers: less(p.Spec.Containers), InitContainers: less(p.Spec.InitContainers)},
	}, nil
}

// sawPod takes down what one of ours says.
func (e *Engine) sawPod(p *corev1.Pod) {
	r, ok := briefOf(p)
	if !ok {
		e.cfg.Log.Warn("a pod has our label but no record of a replica; it is left alone", "pod", p.Name)
		return
	}
	heard, _ := e.cfg.Heard(r.Name)
	o := observed(r, p, heard)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.removed[p.UID] {
		return
	}
	if old := e.seen[r.Name]; old != nil && old.UID == p.UID && newer(old, p) {
		return
	}
	e.seen[r.Name] = p
	if o.Exit != nil && o.Exit.Reason == engine.ReasonRefused {
		e.ground.turn(p.Spec.NodeName, o.Exit)
	}
	e.ground.hold(p.Spec.NodeName, r.Name, r.mask(), o.State != engine.StateDone)
	e.Put(o)
	e.notes.touch(false)
}

// newer says that the first is of a later version than the second: events and answers cross. Versions of one object are numbers that grow.
func newer(a, b *corev1.Pod) bool {
	if len(a.ResourceVersion) != len(b.ResourceVersion) {
		return len(a.ResourceVersion) > len(b.ResourceVersion)
	}
	return a.ResourceVersion > b.ResourceVersion
}

// lostPod is for a pod that is gone altogether. If we did not let it go ourselves, its replica is lost.
func (e *Engine) lostPod(p *corev1.Pod) {
	if p == nil {
		return
	}
	r, ok := briefOf(p)
	if !ok {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	ours := e.removed[p.UID]
	delete(e.removed, p.UID)
	delete(e.ending, p.UID)
	if now := e.seen[r.Name]; now == nil || now.UID != p.UID {
		return
	}
	delete(e.seen, r.Name)
	e.stops.forget(r.Name)
	e.ground.hold(p.Spec.NodeName, r.Name, 0, false)
	e.notes.touch(false)
	if ours {
		return
	}
	o := observed(r, p, "")
	if o.State != engine.StateDone {
		o.State, o.Ready = engine.StateDone, false
		if o.Exit == nil {
			o.Exit = lost(-1, e.cfg.Clock.Now(), fault.T("The pod was removed from the cluster behind Fermi's back.", "Pod 被绕过 Fermi 从集群中移除。"))
		}
	}
	e.Put(o)
}

// adopt says that the lists are whole: what was remembered and is not there is gone.
func (e *Engine) adopt() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.synced = true
	for _, o := range e.Replicas("") {
		if e.seen[o.Name] == nil {
			e.Drop(o.Name)
		}
	}
	e.notes.touch(true)
	e.cfg.Log.Info("the pods of a cluster were found", "zone", e.cfg.Cluster.Zone, "pods", len(e.seen), "nodes", e.ground.adopt())
}
