package kubeengine

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// order is a stop as it is written on a pod.
type order struct {
	Epoch int64         `json:"epoch"`
	Grace time.Duration `json:"grace"`
	At    time.Time     `json:"at"`
}

func stopOf(pod *corev1.Pod) (o order, ok bool) {
	ok = json.Unmarshal([]byte(pod.Annotations[noteStop]), &o) == nil
	return o, ok
}

// observe is what a pod says of its replica; false: it is none of ours. heard is how far its launcher said that it is, "" where nobody heard it.
func observe(pod *corev1.Pod, heard engine.State) (engine.Observation, bool) {
	r, ok := briefOf(pod)
	if !ok {
		return engine.Observation{}, false
	}
	return observed(r, pod, heard), true
}

// observed is observe for who has the record.
func observed(r brief, pod *corev1.Pod, heard engine.State) engine.Observation {
	o := engine.Observation{
		Name: r.Name, TaskID: r.TaskID, State: engine.StateCreated, Node: r.Node, Version: pod.Annotations[noteVersion],
		Address: pod.Status.PodIP, LauncherAddress: pod.Status.PodIP,
	}
	var began time.Time
	if s := statusOf(pod.Status.ContainerStatuses, Container); s != nil {
		switch {
		case s.State.Running != nil:
			began, o.Launched = s.State.Running.StartedAt.Time, true
			if s.Started != nil && *s.Started || engine.Order(heard) >= engine.Order(engine.StateRunning) {
				o.State, o.Started = engine.StateRunning, began
			}
		case s.State.Terminated != nil:
			began, o.Launched = s.State.Terminated.StartedAt.Time, true
		}
	}
	over := isOver(pod)
	exit := decided(pod)
	switch {
	case over && exit == nil:
		exit = endOf(pod)
		fallthrough
	case over:
		o.State, o.Exit = engine.StateDone, exit
		if ranBefore(exit) {
			o.Started = began
		}
	case exit != nil:
		o.State, o.Exit = engine.StateExited, exit // its pod is on its way out
	}
	o.Ready = o.State == engine.StateRunning && o.Address != ""
	return o
}

// ranBefore says that the user's processes ran before this end.
func ranBefore(e *engine.Exit) bool {
	return e.Reason != engine.ReasonStartFailed && e.Reason != engine.ReasonRefused && e.Reason != engine.ReasonLauncherLost && (e.Reason != engine.ReasonStopped || e.Ran > 0)
}

// decided is the end that the engine wrote down; nil: none.
func decided(pod *corev1.Pod) *engine.Exit {
	var e engine.Exit
	if json.Unmarshal([]byte(pod.Annotations[noteExit]), &e) != nil {
		return nil
	}
	return &e
}

func statusOf(list []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	if i := slices.IndexFunc(list, func(s corev1.ContainerStatus) bool { return s.Name == name }); i >= 0 {
		return &list[i]
	}
	return nil
}

// endOf is how the replica of a pod ended whose containers have: by the launcher's last words, else by the reason that the kubelet gives.
func endOf(pod *corev1.Pod) *engine.Exit {
	_, stopped := stopOf(pod)
	main, first := statusOf(pod.Status.ContainerStatuses, Container), statusOf(pod.Status.InitContainerStatuses, enter)
	if main != nil && main.State.Terminated != nil {
		t := main.State.Terminated
		at, code := t.FinishedAt.Time, int(t.ExitCode)
		if words, ok := record.ParseLastWords(t.Message); ok {
			if words.Exit.Reason == engine.ReasonStopped && !stopped && pod.DeletionTimestamp != nil {
				return lost(words.Exit.Code, words.Exit.At, fault.T("Somebody deleted the pod.", "Pod 被人为删除。"))
			}
			return &words.Exit
		}
		switch {
		case t.Reason == "OOMKilled":
			return &engine.Exit{Code: code, Signal: "SIGKILL", Reason: engine.ReasonOutOfMemory, At: at, Message: fault.T(
				"The kernel killed the pod's container: it used more memory than its limit.", "Pod 的容器内存超限，已被内核终止。").Pack()}
		case stopped:
			return &engine.Exit{Code: code, Reason: engine.ReasonStopped, At: at}
		case t.Reason == "StartError" || t.Reason == "ContainerCannotRun":
			return &engine.Exit{Code: code, Reason: engine.ReasonStartFailed, At: at, Message: fault.T(
				"The container could not be started: %s", "容器无法启动：%s", Short(t.Message)).Pack()}
		case pod.Status.Reason == "" && pod.DeletionTimestamp != nil:
			return lost(code, at, fault.T("Somebody deleted the pod.", "Pod 被人为删除。"))
		case pod.Status.Reason == "":
			return lost(code, at, fault.T("The container ended with exit code %d and left no word.", "容器以退出码 %d 结束，未留下任何信息。", code))
		}
	}
	at := ended(pod)
	if pod.Status.Reason == "" && stopped {
		return &engine.Exit{Code: 143, Reason: engine.ReasonStopped, At: at}
	}
	if first != nil && first.State.Terminated != nil && first.State.Terminated.ExitCode != 0 && pod.DeletionTimestamp == nil {
		return lost(int(first.State.Terminated.ExitCode), at, fault.T("The launcher could not enter the pod: %s", "启动器无法进入 Pod：%s", Short(first.State.Terminated.Message)))
	}
	if Refused(pod.Status.Reason) {
		return &engine.Exit{Code: -1, Reason: engine.ReasonRefused, At: at, Message: kubeletWords(pod).Pack()}
	}
	return lost(-1, at, kubeletWords(pod))
}

func lost(code int, at time.Time, why fault.Text) *engine.Exit {
	return &engine.Exit{Code: code, Reason: engine.ReasonLauncherLost, At: at, Message: why.Pack()}
}

// kubeletWords says why a pod failed as a whole.
func kubeletWords(pod *corev1.Pod) fault.Text {
	said, node := Short(pod.Status.Message), pod.Spec.NodeName
	switch reason := pod.Status.Reason; {
	case reason == "Evicted":
		return fault.T("Node %s evicted the pod: %s", "节点 %s 驱逐了 Pod：%s", node, said)
	case Refused(reason):
		return fault.T("Node %s refused the pod (%s): %s", "节点 %s 拒绝了 Pod（%s）：%s", node, reason, said)
	case reason == "NodeShutdown" || reason == "Terminated" || reason == "Shutdown":
		return fault.T("Node %s shuts down.", "节点 %s 正在关机。", node)
	case reason == "DeadlineExceeded":
		return fault.T("The pod's deadline is over: %s", "Pod 已超过期限：%s", said)
	case reason == "" && pod.DeletionTimestamp != nil:
		return fault.T("Somebody deleted the pod.", "Pod 被人为删除。")
	case reason == "" && said == "":
		return fault.T("The pod failed on node %s without a word.", "Pod 在节点 %s 上失败，未给出原因。", node)
	default:
		return fault.T("The pod failed on node %s (%s): %s", "Pod 在节点 %s 上失败（%s）：%s", node, reason, said)
	}
}

// Refused says that a kubelet did not admit a pod that was bound to its node: somebody else was faster, or the node is not what was thought.
func Refused(reason string) bool {
	return strings.HasPrefix(reason, "OutOf") || slices.Contains([]string{
		"UnexpectedAdmissionError", "NodeAffinity", "NodeSelectorMismatching", "Preempting", "TopologyAffinityError", "PodOSNotSupported", "PodOSSelectorNodeLabelDoesNotMatch", "NodeName",
	}, reason)
}

// ended is when a pod did, as well as it can be told.
func ended(pod *corev1.Pod) time.Time {
	at := pod.CreationTimestamp.Time
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, s := range list {
			if t := s.State.Terminated; t != nil && t.FinishedAt.After(at) {
				at = t.FinishedAt.Time
			}
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.LastTransitionTime.After(at) {
			at = c.LastTransitionTime.Time
		}
	}
	return at
}

// stuck is why a pod can never start as it is, or has not for long enough; false: it may yet.
func stuck(pod *corev1.Pod, now time.Time) (*engine.Exit, bool) {
	if pod.Status.Phase != corev1.PodPending || pod.DeletionTimestamp != nil {
		return nil, false
	}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		w := s.State.Waiting
		if w == nil {
			continue
		}
		patient := now.Sub(pod.CreationTimestamp.Time) < pullPatience
		switch w.Reason {
		case "ErrImagePull", "ImagePullBackOff":
			if patient && !hopeless(w.Message) {
				continue
			}
			return unstarted(now, fault.T("The image %s can't be pulled on node %s: %s", "节点 %[2]s 无法拉取镜像 %[1]s：%[3]s", s.Image, pod.Spec.NodeName, Short(w.Message))), true
		case "InvalidImageName":
			return unstarted(now, fault.T("%s is no name of an image: %s", "%s 不是合法的镜像名：%s", s.Image, Short(w.Message))), true
		case "ErrImageNeverPull":
			return unstarted(now, fault.T("The image %s is not on node %s, and may not be pulled.", "镜像 %s 不在节点 %s 上，且不允许拉取。", s.Image, pod.Spec.NodeName)), true
		case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
			if patient {
				continue
			}
			return unstarted(now, fault.T("Node %s can't make the container: %s", "节点 %s 无法创建容器：%s", pod.Spec.NodeName, Short(w.Message))), true
		}
	}
	return nil, false
}

// pullPatience is how long an image that can't be pulled is waited for: registries come back.
const pullPatience = 2 * time.Minute

// hopeless says by a registry's words that asking again changes nothing.
func hopeless(said string) bool {
	said = strings.ToLower(said)
	for _, w := range []string{"not found", "manifest unknown", "unauthorized", "access denied", "denied:", "does not exist", "no match for platform"} {
		if strings.Contains(said, w) {
			return true
		}
	}
	return false
}

func unstarted(at time.Time, why fault.Text) *engine.Exit {
	return &engine.Exit{Code: -1, Reason: engine.ReasonStartFailed, At: at, Message: why.Pack()}
}
