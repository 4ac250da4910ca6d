package kubeengine

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Start creates the pod if there is none of its name. A pod that exists in any state is left alone.
func (e *Engine) Start(ctx context.Context, r engine.Replica) error {
	if r.Name == "" || r.TaskID == "" {
		return fault.New(fault.Invalid, "BadReplicaName", fault.T("%q cannot name a replica.", "%q 不能用作副本名称。", string(r.Name)))
	}
	if err := e.waitReady(ctx); err != nil {
		return err
	}
	if e.pod(r.Name) != nil {
		return nil
	}
	node, at, ok := e.ground.node(r.Node)
	if !ok {
		node = r.Node
	}
	pod, err := e.pods.make(r, node)
	if err == nil {
		e.pods.wire(pod, at, len(r.Devices))
		if gangs := e.cfg.Cluster.Gangs; gangs != nil {
			err = gangs.Admit(ctx, r, pod)
		}
	}
	if err == nil {
		err = (*homes)(e.cfg.Cluster).ready(ctx, r, node)
	}
	if err == nil {
		var made func()
		made, err = e.pods.admit(ctx, r, pod)
		defer made()
	}
	var away *elsewhere
	if errors.As(err, &away) {
		return e.redirect(r, away)
	}
	if err != nil {
		return e.decline(r, err)
	}
	made := &corev1.Pod{}
	err = e.cfg.Cluster.create(ctx, "pods", pod, made)
	if IsTaken(err) {
		if made, err = e.cfg.Cluster.getPod(ctx, pod.Name); IsGone(err) {
			return fault.New(fault.Unavailable, "PodLeaves", fault.T("A pod of the name %s is just leaving.", "名为 %s 的 Pod 正在退出。", pod.Name))
		}
		if err == nil && (replicaName(made) != string(r.Name) || made.Labels[LabelZone] != e.cfg.Cluster.Zone) {
			return fault.New(fault.Conflict, "PodNameTaken", fault.T(
				"Somebody else's pod in namespace %s has the name %s.", "命名空间 %s 中已有名为 %s 的其他 Pod。", e.cfg.Cluster.Namespace, pod.Name))
		}
	}
	if err != nil {
		return e.decline(r, e.cfg.Cluster.Explain(err, "create", "pods"))
	}
	e.sawPod(made)
	return nil
}

// decline takes down that a replica can never be started as it is: that is its end, and asking again changes nothing. Any other error is
// given back: the next try may do better.
func (e *Engine) decline(r engine.Replica, err error) error {
	f := fault.From(err)
	if f.Code != fault.Invalid && f.Code != fault.TooLarge {
		return err
	}
	why := fault.Text{EN: strings.TrimSpace(f.Message.EN + " " + f.Hint.EN), ZH: f.Message.ZH + f.Hint.ZH}
	e.cfg.Log.Info("a replica can't be a pod", "replica", r.Name, "reason", f.Reason, "error", err)
	e.Put(engine.Observation{Name: r.Name, TaskID: r.TaskID, Node: r.Node, State: engine.StateDone, Exit: unstarted(e.cfg.Clock.Now(), why)})
	return nil
}

// redirect takes down that a replica can't be on its node because its home can't: the place is given up, as one that a kubelet refused, and the
// next one is where the home is, if that is one node.
func (e *Engine) redirect(r engine.Replica, away *elsewhere) error {
	there := e.ground.reaching(away.rule)
	if len(there) != 1 {
		return e.decline(r, away.fault)
	}
	exit := unstarted(e.cfg.Clock.Now(), away.fault.Message)
	exit.Reason = engine.ReasonRefused
	e.Put(engine.Observation{Name: r.Name, TaskID: r.TaskID, Node: r.Node, State: engine.StateDone, Exit: exit, Home: there[0]})
	return nil
}

// find is the pod of a replica, by what was seen or else by asking; nil: there is none, or it is somebody else's.
func (e *Engine) find(ctx context.Context, name engine.Name) (*corev1.Pod, error) {
	if pod := e.pod(name); pod != nil {
		return pod, nil
	}
	pod, err := e.cfg.Cluster.getPod(ctx, PodName(string(name)))
	switch {
	case IsGone(err):
		return nil, nil
	case err != nil:
		return nil, e.cfg.Cluster.Explain(err, "get", "pods")
	case replicaName(pod) != string(name) || pod.Labels[LabelZone] != e.cfg.Cluster.Zone:
		return nil, nil
	}
	e.sawPod(pod)
	return pod, nil
}

// Stop writes the order on the pod, then gives it: to the launcher if one is there to hear it, else to the kubelet.
func (e *Engine) Stop(ctx context.Context, name engine.Name, grace time.Duration) error {
	if name == "" {
		return nil
	}
	if err := e.waitReady(ctx); err != nil {
		return err
	}
	pod, err := e.find(ctx, name)
	if pod == nil || err != nil {
		return err
	}
	if o, _ := observe(pod, ""); o.State == engine.StateDone {
		return nil
	}
	if err := e.fence.rule(ctx); err != nil {
		return err
	}
	grace = max(grace, 0)
	o, ok := stopOf(pod)
	if !ok || o.Epoch != e.cfg.Epoch || o.Grace > grace {
		o = order{Epoch: e.cfg.Epoch, Grace: grace, At: e.cfg.Clock.Now().UTC()}
		raw, err := json.Marshal(o)
		if err != nil {
			return err
		}
		next, err := e.cfg.Cluster.patchPod(ctx, pod, map[string]any{"annotations": map[string]any{noteStop: string(raw)}})
		if IsGone(err) || IsConflict(err) {
			return nil // the pod of that replica is gone
		}
		if err != nil {
			return e.cfg.Cluster.Explain(err, "patch", "pods")
		}
		pod = next
		e.sawPod(pod)
	}
	e.stops.note(name, o)
	return e.stops.give(ctx, pod, o)
}

// lookAgain looks at what changes by time alone: nodes that refused a pod, pods that can't start.
func (e *Engine) lookAgain() {
	now := e.cfg.Clock.Now()
	e.ground.reopen(now)
	e.mu.Lock()
	var list []*corev1.Pod
	for _, pod := range e.seen {
		if _, hopeless := stuck(pod, now); hopeless && !e.ending[pod.UID] {
			e.ending[pod.UID] = true
			list = append(list, pod)
		}
	}
	e.mu.Unlock()
	for _, pod := range list {
		if err := e.giveUp(pod, now); err != nil {
			e.cfg.Log.Warn("a pod that can't start could not be ended; trying again", "pod", pod.Name, "error", err)
			e.mu.Lock()
			delete(e.ending, pod.UID)
			e.mu.Unlock()
		}
	}
}

// giveUp writes the end of a pod that can't start, then ends it.
func (e *Engine) giveUp(pod *corev1.Pod, now time.Time) error {
	ctx, cancel := context.WithTimeout(context.Background(), callFor)
	defer cancel()
	exit, _ := stuck(pod, now)
	if err := e.fence.rule(ctx); err != nil {
		return err
	}
	if decided(pod) == nil {
		raw, err := json.Marshal(exit)
		if err != nil {
			return err
		}
		next, err := e.cfg.Cluster.patchPod(ctx, pod, map[string]any{"annotations": map[string]any{noteExit: string(raw)}})
		if IsGone(err) || IsConflict(err) {
			return nil
		}
		if err != nil {
			return e.cfg.Cluster.Explain(err, "patch", "pods")
		}
		e.cfg.Log.Info("a pod can't start and is ended", "pod", pod.Name, "why", fault.Unpack(exit.Message).EN)
		pod = next
		e.sawPod(pod)
	}
	return e.stops.end(ctx, pod, 1)
}

// Remove lets the pod of a replica go that is done: it is deleted, then its finalizer is taken away, and with that it is gone.
func (e *Engine) Remove(ctx context.Context, name engine.Name) error {
	if name == "" {
		return nil
	}
	if err := e.waitReady(ctx); err != nil {
		return err
	}
	pod, err := e.find(ctx, name)
	if err != nil {
		return err
	}
	if pod == nil {
		e.forget(name, nil) // also where it was removed behind our back
		return nil
	}
	if o, _ := observe(pod, ""); o.State != engine.StateDone {
		return fault.New(fault.Conflict, "ReplicaNotDone", fault.T("Replica %s has not handed over everything yet.", "副本 %s 尚未完成交接。", name))
	}
	if err := e.pods.pulls.Leave(ctx, pod, e.list); err != nil {
		return err
	}
	if err := e.stops.letGo(ctx, pod); err != nil {
		return err
	}
	e.forget(name, pod)
	return nil
}

func (e *Engine) forget(name engine.Name, pod *corev1.Pod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if pod != nil {
		if e.seen[name] != nil { // until the watch says that it is gone
			e.removed[pod.UID] = true
		}
		e.ground.hold(pod.Spec.NodeName, name, 0, false)
	}
	delete(e.seen, name)
	e.stops.forget(name)
	e.Drop(name)
	e.notes.touch(false)
}

// Spec is what the launcher of a pod is told.
func (e *Engine) Spec(ctx context.Context, name engine.Name) ([]byte, error) {
	if err := e.waitReady(ctx); err != nil {
		return nil, err
	}
	pod, err := e.find(ctx, name)
	if err != nil {
		return nil, err
	}
	if pod != nil {
		if r, ok := recordOf(pod); ok {
			return json.Marshal(record.Spec{Replica: inPod(r), Link: record.Link{Own: true, Tiers: record.Tiers{Shared: e.cfg.Cluster.Shared}}})
		}
	}
	return nil, fault.New(fault.NotFound, "NoSpec", fault.T("There is no replica %s.", "副本 %s 不存在。", name))
}

// Poke says that a launcher said something: how far it is, or that it is there to hear an order.
func (e *Engine) Poke(name engine.Name) {
	if pod := e.pod(name); pod != nil {
		e.sawPod(pod)
	}
}
