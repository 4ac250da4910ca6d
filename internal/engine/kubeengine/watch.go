package kubeengine

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// seen is the cluster as we see it. Its holder has the engine's lock.
type seen struct {
	pods   map[engine.Name]*corev1.Pod
	nodes  map[string]*corev1.Node // by the cluster's name
	names  map[string]string       // the cluster's name of a node, by ours
	others map[types.UID]other     // pods that are not ours
	used   map[string]*use         // what they use, by node
	held   map[string]map[engine.Name]uint64
	dirty  map[string]bool     // nodes to be told of
	fewer  bool                // one is gone
	hidden bool                // they are told as out of reach
	told   map[string]api.Node // as they were told last, by our name
	wake   chan struct{}       // has one while dirty or fewer
	// turned are nodes that did not admit a pod of ours lately: there is less room than is known, and they are left alone for a while.
	turned map[string]refusal
}

// refusal is a kubelet's.
type refusal struct {
	at  time.Time
	why fault.Text
}

// turnedFor is how long a node that refused a pod gets none.
const turnedFor = 30 * time.Second

// other is a pod that is not ours, on a node.
type other struct {
	node string
	use  use
}

func newSeen() seen {
	return seen{
		pods: map[engine.Name]*corev1.Pod{}, nodes: map[string]*corev1.Node{}, names: map[string]string{}, others: map[types.UID]other{}, used: map[string]*use{},
		held: map[string]map[engine.Name]uint64{}, dirty: map[string]bool{}, told: map[string]api.Node{}, wake: make(chan struct{}, 1),
		turned: map[string]refusal{},
	}
}

func (s *seen) mark(node string) {
	s.dirty[node] = true
	s.ring()
}

func (s *seen) ring() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// watcher follows a kind of objects.
type watcher struct {
	cache.SharedIndexInformer
	told cache.ResourceEventHandlerRegistration
}

// eyes are the engine as it looks at nodes, and at what others do there.
type eyes Engine

// watchers are the informers: nodes, our pods, and those of others that use something.
func (e *eyes) watchers() []watcher {
	ours := labelZone + "=" + e.cfg.Cluster.Zone
	return []watcher{
		e.informer("nodes", "", metav1.ListOptions{}, &corev1.Node{}, func() runtime.Object { return &corev1.NodeList{} }, slimNode, cache.ResourceEventHandlerFuncs{
			AddFunc: func(o any) { e.sawNode(o.(*corev1.Node)) }, UpdateFunc: func(_, o any) { e.sawNode(o.(*corev1.Node)) },
			DeleteFunc: func(o any) { e.lostNode(last[*corev1.Node](o)) },
		}),
		e.informer("pods", e.cfg.Cluster.Namespace, metav1.ListOptions{LabelSelector: ours}, &corev1.Pod{}, func() runtime.Object { return &corev1.PodList{} }, slimPod, cache.ResourceEventHandlerFuncs{
			AddFunc: func(o any) { (*Engine)(e).sawPod(o.(*corev1.Pod)) }, UpdateFunc: func(_, o any) { (*Engine)(e).sawPod(o.(*corev1.Pod)) },
			DeleteFunc: func(o any) { (*Engine)(e).lostPod(last[*corev1.Pod](o)) },
		}),
		e.informer("pods", "", metav1.ListOptions{
			LabelSelector: labelZone + "!=" + e.cfg.Cluster.Zone, FieldSelector: "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed",
		}, &corev1.Pod{}, func() runtime.Object { return &corev1.PodList{} }, slimOther, cache.ResourceEventHandlerFuncs{
			AddFunc: func(o any) { e.sawOther(o.(*corev1.Pod)) }, UpdateFunc: func(_, o any) { e.sawOther(o.(*corev1.Pod)) },
			DeleteFunc: func(o any) { e.lostOther(last[*corev1.Pod](o)) },
		}),
	}
}

// list are our pods as they were seen last.
func (e *eyes) list() []*corev1.Pod {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Values(e.seen.pods))
}

// last is an object that is gone, as it was seen last.
func last[T any](o any) T {
	if d, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = d.Obj
	}
	t, _ := o.(T)
	return t
}

func (e *eyes) informer(resource, namespace string, want metav1.ListOptions, kind runtime.Object, list func() runtime.Object, slim cache.TransformFunc, h cache.ResourceEventHandlerFuncs) watcher {
	c := e.cfg.Cluster
	fill := func(o metav1.ListOptions) metav1.ListOptions {
		o.LabelSelector, o.FieldSelector = want.LabelSelector, want.FieldSelector
		return o
	}
	inf := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			into := list()
			return into, c.list(ctx, resource, namespace, into, fill(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			made, err := c.connect()
			if err != nil {
				return nil, err
			}
			o = fill(o)
			o.Watch = true
			return made.core.Get().Namespace(namespace).Resource(resource).VersionedParams(&o, parameters()).Watch(ctx)
		},
	}, kind, 0, cache.Indexers{})
	_ = inf.SetTransform(slim)
	_ = inf.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		if ctx.Err() == nil && !inf.HasSynced() { // later on, the beat says whether the cluster answers
			(*Engine)(e).fret(c.explain(err, "list", resource))
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

func slimPod(o any) (any, error) {
	if p, ok := o.(*corev1.Pod); ok {
		p.ManagedFields = nil
	}
	return o, nil
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

func (e *eyes) sawNode(n *corev1.Node) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen.nodes[n.Name] = n
	e.seen.names[nodeNameOf(e.cfg.Cluster.Zone, n.Name)] = n.Name
	e.seen.mark(n.Name)
}

func (e *eyes) lostNode(n *corev1.Node) {
	if n == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.seen.nodes, n.Name)
	delete(e.seen.names, nodeNameOf(e.cfg.Cluster.Zone, n.Name))
	e.seen.fewer = true
	e.seen.ring()
}

func (e *eyes) sawOther(p *corev1.Pod) {
	now := other{p.Spec.NodeName, requests(p, e.pods.resources)}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.forgetOther(p.UID)
	e.seen.others[p.UID] = now
	if e.seen.used[now.node] == nil {
		e.seen.used[now.node] = &use{}
	}
	e.seen.used[now.node].add(now.use, 1)
	e.seen.mark(now.node)
}

func (e *eyes) lostOther(p *corev1.Pod) {
	if p == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.forgetOther(p.UID)
}

// forgetOther is for holders of the lock.
func (e *eyes) forgetOther(uid types.UID) {
	if old, ok := e.seen.others[uid]; ok {
		e.seen.used[old.node].add(old.use, -1)
		delete(e.seen.others, uid)
		e.seen.mark(old.node)
	}
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
	if old := e.seen.pods[r.Name]; old != nil && old.UID == p.UID && newer(old, p) {
		return
	}
	e.seen.pods[r.Name] = p
	if o.Exit != nil && o.Exit.Reason == engine.ReasonRefused {
		(*eyes)(e).turn(p.Spec.NodeName, o.Exit)
	}
	e.hold(p.Spec.NodeName, r.Name, r.mask(), o.State != engine.StateDone)
	e.Put(o)
	e.noted = false
}

// turn notes that a node refused a pod, mu held.
func (e *eyes) turn(node string, exit *engine.Exit) {
	if old, ok := e.seen.turned[node]; ok && !exit.At.After(old.at) || e.cfg.Clock.Now().Sub(exit.At) >= turnedFor {
		return
	}
	e.seen.turned[node] = refusal{exit.At, fault.Unpack(exit.Message)}
	e.seen.mark(node)
}

// reopen takes nodes back whose refusal is a while ago.
func (e *eyes) reopen(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for node, r := range e.seen.turned {
		if now.Sub(r.at) >= turnedFor {
			delete(e.seen.turned, node)
			e.seen.mark(node)
		}
	}
}

// newer says that the first is of a later version than the second: events and answers cross. Versions of one object are numbers that grow.
func newer(a, b *corev1.Pod) bool {
	if len(a.ResourceVersion) != len(b.ResourceVersion) {
		return len(a.ResourceVersion) > len(b.ResourceVersion)
	}
	return a.ResourceVersion > b.ResourceVersion
}

// hold notes which devices a replica has; mu held.
func (e *Engine) hold(node string, name engine.Name, mask uint64, lives bool) {
	was := e.seen.held[node][name]
	switch {
	case lives && mask != 0:
		if e.seen.held[node] == nil {
			e.seen.held[node] = map[engine.Name]uint64{}
		}
		e.seen.held[node][name] = mask
	default:
		mask = 0
		delete(e.seen.held[node], name)
	}
	if was != mask {
		e.seen.mark(node)
	}
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
	if now := e.seen.pods[r.Name]; now == nil || now.UID != p.UID {
		return
	}
	delete(e.seen.pods, r.Name)
	delete(e.wishes, r.Name)
	e.hold(p.Spec.NodeName, r.Name, 0, false)
	e.noted = false
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
		if e.seen.pods[o.Name] == nil {
			e.Drop(o.Name)
		}
	}
	e.seen.hidden, e.seen.fewer = false, true // all nodes are told at once
	e.seen.ring()
	e.cfg.Log.Info("the pods of a cluster were found", "zone", e.cfg.Cluster.Zone, "pods", len(e.seen.pods), "nodes", len(e.seen.nodes))
}

// reportNodes tells what changes.
func (e *eyes) reportNodes(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.seen.wake:
		}
		e.tellNodes()
	}
}

func (e *eyes) tellNodes() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.seen.hidden || !e.synced {
		return // told when it is over
	}
	all := e.seen.fewer
	for node := range e.seen.dirty {
		n := e.seen.nodes[node]
		if n == nil {
			continue
		}
		now := e.reportOf(n)
		if _, known := e.seen.told[now.Meta.Name]; !known {
			all = true
		}
		e.seen.told[now.Meta.Name] = now
		if !all {
			e.ReportOne(now)
		}
	}
	clear(e.seen.dirty)
	if !all {
		return
	}
	e.seen.fewer = false
	told := map[string]api.Node{}
	for _, n := range e.seen.nodes {
		now := e.reportOf(n)
		told[now.Meta.Name] = now
	}
	e.seen.told = told
	list := make([]api.Node, 0, len(told))
	for _, name := range slices.Sorted(maps.Keys(told)) {
		list = append(list, told[name])
	}
	e.Report(list)
}

// reportOf is a node as it is now, mu held.
func (e *eyes) reportOf(n *corev1.Node) api.Node {
	var held uint64
	for _, mask := range e.seen.held[n.Name] {
		held |= mask
	}
	var others use
	if u := e.seen.used[n.Name]; u != nil {
		others = *u
	}
	out := report(e.cfg.Cluster.Zone, n, others, held, e.pods.resources)
	if r, ok := e.seen.turned[n.Name]; ok && out.Status.Ready {
		out.Status.Ready, out.Status.Reason, out.Status.Message = false, engine.ReasonRefused, r.why
	}
	return out
}

// hide tells that the nodes can't be reached; show that they can.
func (e *eyes) hide() {
	why := fault.T("Its cluster does not answer.", "所在集群没有响应。")
	if f := e.cfg.Cluster.Trouble(); f != nil {
		why = f.Message
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.seen.told) == 0 && e.cfg.Last != nil {
		for _, n := range e.cfg.Last() {
			e.seen.told[n.Meta.Name] = n
		}
	}
	if len(e.seen.told) > 0 {
		e.Report(unreachable(e.seen.told, why))
	}
	e.seen.hidden = true
}

func (e *eyes) show() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.seen.hidden {
		e.seen.hidden, e.seen.fewer = false, true
		e.seen.ring()
	}
}
