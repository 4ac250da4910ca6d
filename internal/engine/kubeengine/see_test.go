package kubeengine

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
)

var noon = time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)

// onNode is a pod of ours as it was made.
func onNode(t *testing.T, change func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	p := testPods()
	pod, err := p.make(engine.Replica{Name: "task-1-worker-0-1", TaskID: "task-1", Task: "t", Node: "z-n1", Role: "worker", Attempt: 1, Zone: "z"}, "n1")
	if err != nil {
		t.Fatal(err)
	}
	pod.CreationTimestamp = metav1.NewTime(noon)
	change(pod)
	return pod
}

func testPods() *pods {
	return &pods{cluster: &Cluster{Zone: "z", Namespace: "fermi"}, image: "fermi:1", account: "default", config: "fermi-z", version: "v1", resources: Resources}
}

func ended137(reason, message string, code int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodFailed
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: Container, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: code, Reason: reason, Message: message, StartedAt: metav1.NewTime(noon), FinishedAt: metav1.NewTime(noon.Add(time.Minute)),
		}}}}
	}
}

func lastSaid(t *testing.T, e engine.Exit) string {
	t.Helper()
	raw, err := record.LastWords{Exit: e}.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestObserve: every way in which a pod can stand or end says the right thing of its replica, in both languages.
func TestObserve(t *testing.T) {
	yes, at := true, metav1.NewTime(noon)
	running := func(started bool) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Phase, p.Status.PodIP = corev1.PodRunning, "10.0.0.7"
			s := corev1.ContainerStatus{Name: Container, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}}}
			if started {
				s.Started = &yes
			}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{s}
		}
	}
	failed := func(reason, message string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, reason, message
		}
	}
	deleted := func(next func(*corev1.Pod)) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.DeletionTimestamp = &at
			next(p)
		}
	}
	stopped := func(next func(*corev1.Pod)) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Annotations[noteStop] = `{"epoch":7,"grace":0}`
			next(p)
		}
	}
	for _, c := range []struct {
		name   string
		pod    func(*corev1.Pod)
		heard  engine.State
		state  engine.State
		reason string
		says   string // of the English words
	}{
		{"just made", func(*corev1.Pod) {}, "", engine.StateCreated, "", ""},
		{"its launcher waits", running(false), "", engine.StateCreated, "", ""},
		{"the probe has passed", running(true), "", engine.StateRunning, "", ""},
		{"the launcher said so", running(false), engine.StateRunning, engine.StateRunning, "", ""},
		{"succeeded", func(p *corev1.Pod) {
			ended137("Completed", lastSaid(t, engine.Exit{Reason: engine.ReasonSucceeded, At: noon}), 0)(p)
			p.Status.Phase = corev1.PodSucceeded
		}, "", engine.StateDone, engine.ReasonSucceeded, ""},
		{"failed by itself", ended137("Error", lastSaid(t, engine.Exit{Code: 3, Reason: engine.ReasonNonZero, At: noon}), 3), "", engine.StateDone, engine.ReasonNonZero, ""},
		{"out of memory", ended137("OOMKilled", "", 137), "", engine.StateDone, engine.ReasonOutOfMemory, "more memory than its limit"},
		{"the launcher was killed", ended137("Error", "", 137), "", engine.StateDone, engine.ReasonLauncherLost, "exit code 137"},
		{"no such command", ended137("StartError", `exec: "/fermi/bin/fermi": no such file`, 128), "", engine.StateDone, engine.ReasonStartFailed, "no such file"},
		{"stopped by us, killed by the kubelet", stopped(deleted(ended137("Error", "", 137))), "", engine.StateDone, engine.ReasonStopped, ""},
		{"stopped by us before it ran", stopped(deleted(failed("", ""))), "", engine.StateDone, engine.ReasonStopped, ""},
		{"deleted by hand", deleted(ended137("Error", lastSaid(t, engine.Exit{Code: 143, Reason: engine.ReasonStopped, At: noon}), 143)), "", engine.StateDone, engine.ReasonLauncherLost, "Somebody deleted the pod"},
		{"deleted by hand, no last words", deleted(ended137("Error", "", 137)), "", engine.StateDone, engine.ReasonLauncherLost, "Somebody deleted the pod"},
		{"deleted by hand before it ran", deleted(failed("", "")), "", engine.StateDone, engine.ReasonLauncherLost, "Somebody deleted the pod"},
		{"evicted", failed("Evicted", "The node was low on resource: memory."), "", engine.StateDone, engine.ReasonLauncherLost, "evicted the pod: The node was low"},
		{"refused", failed("OutOfcpu", "Node didn't have enough resource: cpu"), "", engine.StateDone, engine.ReasonRefused, "refused the pod (OutOfcpu)"},
		{"refused a card", failed("UnexpectedAdmissionError", "Allocate failed due to requested number of devices unavailable"), "", engine.StateDone, engine.ReasonRefused, "refused the pod"},
		{"the node shuts down", failed("NodeShutdown", ""), "", engine.StateDone, engine.ReasonLauncherLost, "shuts down"},
		{"the launcher could not enter", func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodFailed
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: enter, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "no server answers"}}}}
		}, "", engine.StateDone, engine.ReasonLauncherLost, "could not enter the pod: no server answers"},
		{"given up, on its way out", func(p *corev1.Pod) { p.Annotations[noteExit] = `{"code":-1,"reason":"StartFailed"}` }, "", engine.StateExited, engine.ReasonStartFailed, ""},
		{"given up", func(p *corev1.Pod) {
			p.Annotations[noteExit] = `{"code":-1,"reason":"StartFailed","message":"no image"}`
			failed("", "")(p)
		}, "", engine.StateDone, engine.ReasonStartFailed, "no image"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, ok := observe(onNode(t, c.pod), c.heard)
			if !ok || o.State != c.state || o.Node != "z-n1" || o.TaskID != "task-1" || o.Version != "v1" {
				t.Fatalf("%v %+v", ok, o)
			}
			if o.Ready != (c.state == engine.StateRunning) {
				t.Error("ready:", o.Ready)
			}
			if c.reason == "" {
				if o.Exit != nil {
					t.Errorf("ended: %+v", o.Exit)
				}
				return
			}
			if o.Exit == nil || o.Exit.Reason != c.reason {
				t.Fatalf("%+v", o.Exit)
			}
			text := fault.Unpack(o.Exit.Message)
			if !strings.Contains(text.EN, c.says) || c.says != "" && c.says != "no image" && text.ZH == "" {
				t.Errorf("it says %+v", text)
			}
		})
	}
	if _, ok := observe(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{noteReplica: "{"}}}, ""); ok {
		t.Error("somebody else's pod is ours")
	}
}

// TestStuck: what can never start is given up; what may come back is waited for.
func TestStuck(t *testing.T) {
	waits := func(reason, message string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodPending
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: Container, Image: "example.com/x:1", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
		}
	}
	for _, c := range []struct {
		name  string
		pod   func(*corev1.Pod)
		after time.Duration
		says  string // "": it is waited for
	}{
		{"it is made", waits("ContainerCreating", ""), time.Hour, ""},
		{"the registry is away", waits("ImagePullBackOff", "dial tcp: i/o timeout"), time.Minute, ""},
		{"it stays away", waits("ImagePullBackOff", "dial tcp: i/o timeout"), 3 * time.Minute, "example.com/x:1 can't be pulled on node n1: dial tcp"},
		{"there is no such image", waits("ErrImagePull", "rpc error: manifest unknown"), time.Second, "can't be pulled"},
		{"no right to it", waits("ErrImagePull", "pull access denied, repository does not exist"), time.Second, "can't be pulled"},
		{"no name", waits("InvalidImageName", "couldn't parse"), 0, "no name of an image"},
		{"a missing config", waits("CreateContainerConfigError", `configmap "x" not found`), time.Second, ""},
		{"still missing", waits("CreateContainerConfigError", `configmap "x" not found`), 3 * time.Minute, "can't make the container"},
	} {
		t.Run(c.name, func(t *testing.T) {
			exit, ok := stuck(onNode(t, c.pod), noon.Add(c.after))
			if ok != (c.says != "") {
				t.Fatalf("%v %+v", ok, exit)
			}
			if ok && (exit.Reason != engine.ReasonStartFailed || !strings.Contains(fault.Unpack(exit.Message).EN, c.says) || fault.Unpack(exit.Message).ZH == "") {
				t.Errorf("%+v", exit)
			}
		})
	}
}
