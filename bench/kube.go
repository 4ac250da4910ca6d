package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/engine/kubeengine/kubetest"
	"github.com/fermi-cluster/fermi/test/harness"
)

// The cluster, and how many clients create at once.
const (
	kubeDevices = 8
	kubeAtOnce  = 32
	kubeWait    = 5 * time.Minute
)

// shape is so many gangs of so many pods with so many devices each.
type shape struct{ gangs, pods, devices int }

func (s shape) String() string { return fmt.Sprintf("%d × %d × %d", s.gangs, s.pods, s.devices) }

func (s shape) total() int { return s.gangs * s.pods }

// benchKube: gangs on a cluster of KWOK nodes, against a plain client that creates the same pods already bound, and kube-scheduler, which knows no gangs, all on the
// same API server.
func benchKube(ctx context.Context, r *report) error {
	k, err := newKube(harness.EnvInt("FERMI_KUBE_NODES", 1250))
	if k != nil {
		defer k.close()
	}
	if err != nil {
		return err
	}
	shapes := []shape{{150, 8, 8}, {1000, 8, 1}}
	if n := harness.EnvInt("FERMI_KUBE_GANGS", 0); n > 0 {
		shapes = []shape{{n, 8, 8}}
	}
	for _, s := range shapes {
		if err := k.compare(ctx, r, s); err != nil {
			return err
		}
	}
	took, err := k.ours(ctx, shape{1, 128, 8})
	if err != nil {
		return err
	}
	r.atMost("one gang of 128 nodes: submit → last pod bound [s]", took.bound.Seconds(), 1.5)
	r.tell("one gang of 128 nodes: submit → all running [s]", took.running.Seconds())
	return nil
}

// kube is a cluster, and a Fermi that has it as a zone.
type kube struct {
	s    *kubetest.Server
	c    *harness.Cluster
	cl   *client.Client
	runs int
}

func newKube(nodes int) (*kube, error) {
	s, err := kubetest.Start()
	if err != nil {
		return nil, err
	}
	k := &kube{s: s}
	for _, user := range []string{kubetest.Admin, kubetest.Fermi} {
		if err := kubetest.WriteKubeconfig(k.file(user), s.URL, user); err != nil {
			return k, err
		}
	}
	if err := errors.Join(s.Install("fermi"), s.Install("plain"), s.Install("scheduled")); err != nil {
		return k, err
	}
	if err := s.Run("kwok", "--kubeconfig", k.file(kubetest.Admin), "--manage-all-nodes", "--node-lease-duration-seconds", "200"); err != nil {
		return k, err
	}
	begin := time.Now()
	make := func(i int) error {
		if err := s.Ask("POST", "/api/v1/nodes", kwokNode(i), nil); err != nil {
			return err
		}
		// A new node is tainted until a controller has seen that it is ready; there is none here.
		return s.Ask("PATCH", "/api/v1/nodes/"+kwokName(i), kubetest.Object{"spec": kubetest.Object{"taints": nil}}, nil)
	}
	if err := each(nodes, make); err != nil {
		return k, err
	}
	fmt.Printf("%d nodes: %v\n", nodes, time.Since(begin).Round(time.Millisecond))
	bin, err := harness.Binary()
	if err != nil {
		return k, err
	}
	if k.c, err = harness.New(bin, "up", "--cluster", "k1="+k.file(kubetest.Fermi)+":fermi", "--pods-image", "fermi:1", "--link-listen", "127.0.0.1:0"); err != nil {
		return k, err
	}
	if err := k.c.Start(context.Background()); err != nil {
		return k, err
	}
	if k.cl, err = k.c.Client(); err != nil {
		return k, err
	}
	return k, k.until("all nodes are ready", func() bool {
		ready := 0
		for o := (client.ListOptions{Limit: 500}); ; {
			list, err := k.cl.List(context.Background(), api.KindNode, o)
			if err != nil {
				return false
			}
			for _, o := range list.Items {
				if n := o.(*api.Node); n.Spec.Zone == "k1" && n.Status.Ready {
					ready++
				}
			}
			if o.Cursor = list.Next; o.Cursor == "" {
				return ready == nodes
			}
		}
	})
}

func (k *kube) file(user string) string { return filepath.Join(k.s.Dir, user+".kubeconfig") }

func (k *kube) close() {
	if k.c != nil {
		k.c.Cleanup()
	}
	k.s.Close()
}

func (k *kube) until(what string, ok func() bool) error {
	for end := time.Now().Add(kubeWait); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if ok() {
			return nil
		}
	}
	return fmt.Errorf("still not so after %v: %s\n%s", kubeWait, what, k.c.LogTail())
}

// each calls f for 0 … n-1, several side by side.
func each(n int, f func(i int) error) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, kubeAtOnce)
	for w := range errs {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && errs[w] == nil; i = int(next.Add(1)) - 1 {
				errs[w] = f(i)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func kwokName(i int) string { return fmt.Sprintf("kwok-%04d", i) }

func kwokNode(i int) kubetest.Object {
	amounts := kubetest.Object{"cpu": "128", "memory": "1Ti", "pods": "110", "ephemeral-storage": "1Ti", "nvidia.com/gpu": fmt.Sprint(kubeDevices)}
	now := time.Now().UTC().Format(time.RFC3339)
	name := kwokName(i)
	return kubetest.Object{
		"metadata": kubetest.Object{"name": name, "annotations": kubetest.Object{"kwok.x-k8s.io/node": "fake"}, "labels": kubetest.Object{
			"kubernetes.io/hostname": name, "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "fermi.io/rack": fmt.Sprintf("r%02d", i/16),
		}},
		"status": kubetest.Object{"capacity": amounts, "allocatable": amounts, "conditions": []kubetest.Object{
			{"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": now, "lastHeartbeatTime": now},
		}},
	}
}

// took is how long a shape took, from the first call on.
type took struct{ bound, running time.Duration }

// pods follows a namespace's pods: how many are bound, and how many run.
type podWatch struct {
	mu             sync.Mutex
	bound, running map[string]bool
	stop           context.CancelFunc
	ended          chan struct{}
}

// follow watches by rows of a table, which are small: the watcher shall not cost what is measured. A busy API server ends watches; then it looks anew.
func (k *kube) follow(ctx context.Context, namespace string) *podWatch {
	ctx, stop := context.WithCancel(ctx)
	w := &podWatch{stop: stop, ended: make(chan struct{})}
	w.clear()
	go func() {
		defer close(w.ended)
		for ctx.Err() == nil {
			stream, err := k.s.Stream(ctx, kubetest.Admin, "/api/v1/namespaces/"+namespace+"/pods?watch=1&includeObject=None", "application/json;as=Table;v=v1;g=meta.k8s.io")
			if err != nil {
				continue
			}
			w.clear()
			lines := bufio.NewScanner(stream)
			lines.Buffer(nil, 1<<22)
			for lines.Scan() {
				w.take(lines.Bytes())
			}
			_ = stream.Close()
		}
	}()
	return w
}

func (w *podWatch) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bound, w.running = map[string]bool{}, map[string]bool{}
}

// Columns of the table of pods.
const (
	columnName, columnStatus, columnNode = 0, 2, 6
)

func (w *podWatch) take(line []byte) {
	var e struct {
		Type   string
		Object struct{ Rows []struct{ Cells []any } }
	}
	if json.Unmarshal(line, &e) != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, row := range e.Object.Rows {
		if len(row.Cells) <= columnNode {
			continue
		}
		name := fmt.Sprint(row.Cells[columnName])
		if e.Type == "DELETED" {
			delete(w.bound, name)
			delete(w.running, name)
			continue
		}
		if node := row.Cells[columnNode]; node != nil && node != "<none>" && node != "" {
			w.bound[name] = true
		}
		if row.Cells[columnStatus] == "Running" {
			w.running[name] = true
		}
	}
}

func (w *podWatch) counts() (bound, running int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.bound), len(w.running)
}

// measure calls begin, then waits until n pods of the namespace run.
func (k *kube) measure(ctx context.Context, namespace string, n int, begin func() error) (t took, err error) {
	w := k.follow(ctx, namespace)
	defer func() {
		w.stop()
		<-w.ended
	}()
	start := time.Now()
	begun := make(chan error, 1)
	go func() { begun <- begin() }()
	for last := start; ; {
		bound, running := w.counts()
		if t.bound == 0 && bound >= n {
			t.bound = time.Since(start)
		}
		if running >= n {
			t.running = time.Since(start)
			return t, <-begun
		}
		if time.Since(last) > 10*time.Second {
			fmt.Printf("  %s: %v, %d of %d bound, %d run\n", namespace, time.Since(start).Round(time.Second), bound, n, running)
			last = time.Now()
		}
		if time.Since(start) > kubeWait {
			return t, fmt.Errorf("%s: %d of %d pods bound, %d run after %v\n%s", namespace, bound, n, running, kubeWait, k.c.LogTail())
		}
		select {
		case <-ctx.Done():
			return t, ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (k *kube) list(namespace string) (list corev1.PodList, err error) {
	return list, k.s.Ask("GET", "/api/v1/namespaces/"+namespace+"/pods", nil, &list)
}

// submit has Fermi make a shape, and leaves it there.
func (k *kube) submit(ctx context.Context, s shape) (names []string, t took, err error) {
	k.runs++
	for i := range s.gangs {
		names = append(names, fmt.Sprintf("g%d-%d", k.runs, i))
	}
	t, err = k.measure(ctx, "fermi", s.total(), func() error {
		return each(s.gangs, func(i int) error { return k.gang(ctx, names[i], s) })
	})
	return names, t, err
}

// gang submits one of a shape.
func (k *kube) gang(ctx context.Context, name string, s shape) error {
	_, err := k.cl.Submit(ctx, &api.TrainingTask{Meta: api.Meta{Name: name}, Spec: api.TrainingTaskSpec{
		Zones: &api.ZoneRules{Allow: []string{"k1"}},
		Roles: []api.Role{{
			Name: "worker", Replicas: s.pods, Command: []string{"sleep", "3600"}, Standby: &api.Standby{Disabled: true},
			Resources: api.Resources{CPU: 1000, Memory: 1 << 30, Accelerators: api.Accelerators{Count: s.devices}},
		}},
	}}, false)
	return err
}

// clear ends tasks and waits until no pod is left.
func (k *kube) clear(ctx context.Context, names []string) error {
	err := each(len(names), func(i int) error {
		return k.cl.Delete(ctx, api.KindTrainingTask, "", names[i])
	})
	if err != nil {
		return err
	}
	return k.empty("fermi", true)
}

// empty waits until a namespace has no pods; by itself they go where somebody else ends them.
func (k *kube) empty(namespace string, alone bool) error {
	return k.until("no pods are left", func() bool {
		list, err := k.list(namespace)
		if err != nil || len(list.Items) == 0 {
			return err == nil
		}
		if !alone {
			_ = each(len(list.Items), func(i int) error {
				return k.s.Ask("DELETE", "/api/v1/namespaces/"+namespace+"/pods/"+list.Items[i].Name, kubetest.Object{"gracePeriodSeconds": 0}, nil)
			})
		}
		return false
	})
}

// ours is Fermi's time for a shape.
func (k *kube) ours(ctx context.Context, s shape) (took, error) {
	names, t, err := k.submit(ctx, s)
	if err != nil {
		return t, err
	}
	return t, k.clear(ctx, names)
}

// compare measures a shape on one API server: Fermi and the plain client in turn, so that what else the machine does meets both; then kube-scheduler. A ratio is
// the median of those of the rounds.
func (k *kube) compare(ctx context.Context, r *report, s shape) error {
	var pods corev1.PodList
	var ours, plain []took
	for round := 1; round <= s.rounds(); round++ {
		names, mine, err := k.submit(ctx, s)
		if err != nil {
			return err
		}
		if pods, err = k.list("fermi"); err != nil {
			return err
		}
		if round == s.rounds() {
			if err := k.restart(ctx, r, s, pods.Items); err != nil {
				return err
			}
			names = append(names, afterRestart)
		}
		if err := k.clear(ctx, names); err != nil {
			return err
		}
		theirs, err := k.plain(ctx, "plain", pods.Items, true)
		if err != nil {
			return err
		}
		ours, plain = append(ours, mine), append(plain, theirs)
		fmt.Printf("%v: Fermi bound %v, running %v; plain client bound %v, running %v\n", s, mine.bound.Round(time.Millisecond), mine.running.Round(time.Millisecond),
			theirs.bound.Round(time.Millisecond), theirs.running.Round(time.Millisecond))
	}
	if err := k.s.Run("kube-scheduler", "--kubeconfig", k.file(kubetest.Admin), "--leader-elect=false", "--secure-port", "0", "--kube-api-qps", "1000", "--kube-api-burst", "2000"); err != nil {
		return err
	}
	scheduled, err := k.plain(ctx, "scheduled", pods.Items, false)
	k.s.EndOf("kube-scheduler")
	if err != nil {
		return err
	}
	for _, one := range []struct {
		name string
		of   func(took) time.Duration
	}{{"bound", func(t took) time.Duration { return t.bound }}, {"running", func(t took) time.Duration { return t.running }}} {
		rate := func(t took) float64 { return float64(s.total()) / one.of(t).Seconds() }
		r.tell(fmt.Sprintf("%v, %s: Fermi [pods/s]", s, one.name), median(all(ours, rate)))
		r.tell(fmt.Sprintf("%v, %s: a plain client that creates the same bound pods [pods/s]", s, one.name), median(all(plain, rate)))
		r.tell(fmt.Sprintf("%v, %s: kube-scheduler without gangs [pods/s]", s, one.name), rate(scheduled))
		var ratios []float64
		for i := range ours {
			ratios = append(ratios, rate(ours[i])/rate(plain[i]))
		}
		r.atLeast(fmt.Sprintf("%v, %s: Fermi ÷ plain client", s, one.name), median(ratios), .8).Among(ratios)
		if one.name == "bound" {
			r.atLeast(fmt.Sprintf("%v, bound: Fermi ÷ kube-scheduler", s), median(all(ours, rate))/rate(scheduled), 1)
		}
	}
	return nil
}

// rounds is how often a shape is measured.
func (s shape) rounds() int {
	if s.total() > 2000 {
		return 1
	}
	return 3
}

func all[T any](list []T, of func(T) float64) (out []float64) {
	for _, x := range list {
		out = append(out, of(x))
	}
	return out
}

const afterRestart = "after-restart"

// restart kills Fermi while a shape runs, and has it place one more task.
func (k *kube) restart(ctx context.Context, r *report, s shape, before []corev1.Pod) error {
	k.c.Kill()
	t, err := k.measure(ctx, "fermi", s.total()+1, func() error {
		if err := k.c.Start(ctx); err != nil {
			return err
		}
		var err error
		if k.cl, err = k.c.Client(); err != nil {
			return err
		}
		return k.gang(ctx, afterRestart, shape{1, 1, 1})
	})
	if err != nil {
		return err
	}
	now, err := k.list("fermi")
	if err != nil {
		return err
	}
	same := map[types.UID]bool{}
	for _, p := range now.Items {
		same[p.UID] = p.DeletionTimestamp == nil
	}
	touched := 0
	for _, p := range before {
		if !same[p.UID] {
			touched++
		}
	}
	r.atMost(fmt.Sprintf("%d pods run: SIGKILL of Fermi → the next task is bound [s]", s.total()), t.bound.Seconds(), 10)
	r.exactly(fmt.Sprintf("%d pods run: pods that the restart touched", s.total()), float64(touched), 0)
	return nil
}

var podForm = sync.OnceValue(func() *protobuf.Serializer {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		panic(err)
	}
	return protobuf.NewSerializer(scheme, scheme)
})

// plain creates copies of pods as the user that Fermi is, and ends them; bound ones have their node.
func (k *kube) plain(ctx context.Context, namespace string, like []corev1.Pod, bound bool) (took, error) {
	bodies := make([][]byte, len(like))
	for i := range like {
		p := like[i].DeepCopy()
		p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		p.ObjectMeta = metav1.ObjectMeta{Name: fmt.Sprintf("p-%d", i), Namespace: namespace, Labels: p.Labels, Annotations: p.Annotations}
		p.Status = corev1.PodStatus{}
		if !bound {
			p.Spec.NodeName = ""
		}
		var b bytes.Buffer
		if err := podForm().Encode(p, &b); err != nil {
			return took{}, err
		}
		bodies[i] = b.Bytes()
	}
	t, err := k.measure(ctx, namespace, len(like), func() error {
		return each(len(bodies), func(i int) error {
			code, out, err := k.s.Do(kubetest.Fermi, "POST", "/api/v1/namespaces/"+namespace+"/pods", kubetest.Protobuf, bodies[i])
			if err == nil && code != http.StatusCreated {
				err = fmt.Errorf("create a pod: %d %s", code, out)
			}
			return err
		})
	})
	if err != nil {
		return t, err
	}
	return t, k.empty(namespace, false)
}
