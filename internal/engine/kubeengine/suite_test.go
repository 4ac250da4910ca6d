package kubeengine

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/enginetest"
	"github.com/fermi-cluster/fermi/internal/engine/kubeengine/kubetest"
	"github.com/fermi-cluster/fermi/internal/engine/record"
)

func TestMain(m *testing.M) { os.Exit(kubetest.Main(m)) }

// TestSuite: the port's promises hold on a real API server, where stops go to the kubelet, and where launchers hear them.
func TestSuite(t *testing.T) {
	for _, attached := range []bool{false, true} {
		name := "stops by the kubelet"
		if attached {
			name = "stops over the link"
		}
		t.Run(name, func(t *testing.T) {
			enginetest.Run(t, func(t *testing.T) enginetest.Site { return newSite(t, attached) })
		})
	}
}

// site is a namespace of a real API server, with a kubelet that plays the launchers.
type site struct {
	s         *kubetest.Server
	namespace string
	dir       string
	file      string
	attached  bool

	mu     sync.Mutex
	epoch  int64 // the newest leader that launchers heard of
	lives  map[engine.Name]*acted
	starts map[engine.Name]int
}

// acted is a launcher in a play.
type acted struct {
	begin, end, stop chan struct{}
	once             [3]sync.Once
}

func newSite(t *testing.T, attached bool) *site {
	s := kubetest.Get(t)
	z := &site{s: s, namespace: s.Namespace(t), dir: t.TempDir(), file: s.Kubeconfig(t, kubetest.Fermi), attached: attached, lives: map[engine.Name]*acted{}, starts: map[engine.Name]int{}}
	s.Node(t, "n", "nvidia.com/gpu", 8, map[string]string{"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"})
	s.StartKubelet(t, z.namespace, z.act)
	return z
}

func (z *site) life(name engine.Name) *acted {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.lives[name] == nil {
		z.lives[name] = &acted{begin: make(chan struct{}), end: make(chan struct{}), stop: make(chan struct{})}
	}
	return z.lives[name]
}

// act is the life of a pod: a launcher that waits to begin if it is held, then runs until it is ended or stopped.
func (z *site) act(l *kubetest.Life) {
	r, ok := recordOf(l.Pod)
	if !ok {
		return
	}
	a := z.life(r.Name)
	waiting := corev1.ContainerStatus{Name: Container, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}
	l.Report(corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{waiting}})
	finish := func(reason string, code int32, words bool) {
		t := &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.Now()}
		if words {
			raw, _ := record.LastWords{Exit: engine.Exit{Code: int(code), Reason: reason, At: time.Now()}}.Pack()
			t.Message = string(raw)
		}
		phase := corev1.PodFailed
		if code == 0 {
			phase = corev1.PodSucceeded
		}
		l.Report(corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{Name: Container, State: corev1.ContainerState{Terminated: t}}}})
	}
	for _, v := range r.Env {
		if v.Name != "GATE" {
			continue
		}
		select {
		case <-a.begin:
		case <-l.Deleted:
			l.Report(corev1.PodStatus{Phase: corev1.PodFailed}) // its containers never were
			return
		case <-a.stop:
			finish(engine.ReasonStopped, 143, true)
			return
		case <-l.Over:
			return
		}
	}
	if z.ordered(l.Pod.Name) { // no leader says go to what it has stopped, however late the kubelet hears of that
		l.Report(corev1.PodStatus{Phase: corev1.PodFailed})
		return
	}
	select {
	case <-a.stop:
		finish(engine.ReasonStopped, 143, true)
		return
	default:
	}
	z.mu.Lock()
	z.starts[r.Name]++
	z.mu.Unlock()
	yes := true
	l.Report(corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.7", ContainerStatuses: []corev1.ContainerStatus{{
		Name: Container, Started: &yes, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
	}}})
	select {
	case <-a.end:
		finish(engine.ReasonSucceeded, 0, true)
	case <-a.stop:
		finish(engine.ReasonStopped, 143, true)
	case <-l.Deleted:
		finish("", 143, false)
	case <-l.Over:
	}
}

// ordered says that somebody wrote a stop on the pod.
func (z *site) ordered(pod string) bool {
	var now corev1.Pod
	code, out, err := z.s.Do(kubetest.Admin, "GET", "/api/v1/namespaces/"+z.namespace+"/pods/"+pod, "", nil)
	if err != nil || code != http.StatusOK || json.Unmarshal(out, &now) != nil {
		return true
	}
	_, stopped := stopOf(&now)
	return stopped || now.DeletionTimestamp != nil
}

func (z *site) config(epoch int64, c *Cluster) Config {
	return Config{
		Cluster: c, Dir: z.dir, Instance: "suite", Epoch: epoch, Image: "registry.example.com/fermi:1", Endpoints: func() string { return "tls://10.0.0.1:7072#x\n" },
		Heard: func(engine.Name) (engine.State, bool) { return "", false },
		Tell: func(name engine.Name, _ time.Duration) error {
			if !z.attached {
				return errors.New("not attached")
			}
			z.mu.Lock()
			late := epoch < z.epoch
			z.mu.Unlock()
			if !late {
				a := z.life(name)
				a.once[0].Do(func() { close(a.stop) })
			}
			return nil
		},
	}
}

func (z *site) cluster() *Cluster {
	return &Cluster{Zone: "z", Kubeconfig: z.file, Namespace: z.namespace}
}

func (z *site) Open(t *testing.T, epoch int64) (engine.Adapter, func()) {
	e, err := New(z.config(epoch, z.cluster()))
	if err != nil {
		t.Fatal(err)
	}
	z.mu.Lock()
	z.epoch = max(z.epoch, epoch)
	z.mu.Unlock()
	return e, z.run(t, e)
}

// run has an engine work, and waits until it is ready.
func (z *site) run(t *testing.T, e *Engine) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	select {
	case <-e.Ready():
	case err := <-ended:
		t.Fatal("it ended:", err)
	}
	return sync.OnceFunc(func() {
		cancel()
		<-ended
	})
}

func (z *site) OpenLate(t *testing.T, epoch int64) error {
	e, err := New(z.config(epoch, z.cluster()))
	if err != nil {
		t.Fatal(err)
	}
	return e.Run(t.Context())
}

// cut is a way that can be cut off for ever.
type cut struct {
	http.RoundTripper
	off *atomic.Bool
}

func (c cut) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.off.Load() {
		return nil, errors.New("killed")
	}
	answer, err := c.RoundTripper.RoundTrip(r)
	if err == nil && c.off.Load() {
		_ = answer.Body.Close()
		return nil, errors.New("killed")
	}
	return answer, err
}

// Owner is an engine whose way to the cluster is cut when it is killed: what was under way may have arrived, and nothing comes after.
func (z *site) Owner(t *testing.T, epoch int64) (enginetest.Orders, func()) {
	var off atomic.Bool
	c := z.cluster()
	c.Wrap = func(rt http.RoundTripper) http.RoundTripper { return cut{rt, &off} }
	e, err := New(z.config(epoch, c))
	if err != nil {
		t.Fatal(err)
	}
	z.mu.Lock()
	z.epoch = max(z.epoch, epoch)
	z.mu.Unlock()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	return e, sync.OnceFunc(func() {
		off.Store(true)
		cancel()
		<-ended
	})
}

func (z *site) Shape(r *engine.Replica, held bool) {
	r.Command, r.StopGrace, r.Virtual = []string{"/bin/true"}, api.Duration(time.Second), false
	if held {
		r.Env = append(r.Env, api.EnvVar{Name: "GATE", Value: "1"})
	}
}

func (z *site) Begin(_ *testing.T, name engine.Name) {
	a := z.life(name)
	a.once[1].Do(func() { close(a.begin) })
}

func (z *site) End(_ *testing.T, name engine.Name) {
	a := z.life(name)
	a.once[2].Do(func() { close(a.end) })
}

func (z *site) Starts(name engine.Name) int {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.starts[name]
}
