package kubeengine

import (
	"context"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// The record of a zone in its namespace: who leads, and where servers are. Pods mount the latter.
const (
	keyEpoch    = "epoch"
	keyInstance = "instance"
)

// recordName is the record's.
func recordName(zone string) string { return "fermi-" + zone }

// fence is one leader among others: whose orders count.
type fence struct {
	cluster   *Cluster
	instance  string
	epoch     int64
	endpoints func() string
}

// enter makes our epoch the one whose orders count, and tells pods where servers are. Fault Unavailable, NewerLeader: a later one has been here.
func (f *fence) enter(ctx context.Context) error {
	for {
		now, err := f.look(ctx)
		if err != nil {
			return err
		}
		err = f.claim(ctx, now)
		if !IsConflict(err) && !IsTaken(err) {
			return f.cluster.Explain(err, "update", "configmaps")
		}
	}
}

// look reads the record; nil: there is none. An error: it is not there for us.
func (f *fence) look(ctx context.Context) (*corev1.ConfigMap, error) {
	now := &corev1.ConfigMap{}
	err := f.cluster.get(ctx, "configmaps", recordName(f.cluster.Zone), now)
	if IsGone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, f.cluster.Explain(err, "get", "configmaps")
	}
	if other := now.Data[keyInstance]; other != "" && other != f.instance {
		return nil, fault.New(fault.Conflict, "NamespaceTaken", fault.T(
			"Zone %s in namespace %s belongs to another Fermi (%s).", "命名空间 %[2]s 中的可用区 %[1]s 属于另一个 Fermi（%[3]s）。", f.cluster.Zone, f.cluster.Namespace, other)).
			WithHint(fault.T("Give this one a namespace of its own, or delete the ConfigMap %s if that Fermi is gone.", "请为本实例指定独立的命名空间；若另一个 Fermi 已不存在，请删除 ConfigMap %s。", now.Name))
	}
	if epoch, _ := strconv.ParseInt(now.Data[keyEpoch], 10, 64); epoch > f.epoch {
		return nil, fault.New(fault.Unavailable, newerLeader, fault.T(
			"A leader of epoch %d has been here; ours is %d.", "已有纪元 %d 的主节点在此运行，本节点纪元为 %d。", epoch, f.epoch))
	}
	return now, nil
}

const newerLeader = "NewerLeader"

// claim writes the record if it is not as we want it.
func (f *fence) claim(ctx context.Context, now *corev1.ConfigMap) error {
	want := map[string]string{keyEpoch: strconv.FormatInt(f.epoch, 10), keyInstance: f.instance, keyEndpoints: f.endpoints()}
	if now == nil {
		return f.cluster.create(ctx, "configmaps", &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Name: recordName(f.cluster.Zone), Namespace: f.cluster.Namespace,
				Labels: map[string]string{LabelManaged: Managed, LabelZone: f.cluster.Zone},
			},
			Data: want,
		}, &corev1.ConfigMap{})
	}
	same := true
	for k, v := range want {
		same = same && now.Data[k] == v
	}
	if same {
		return nil
	}
	next := now.DeepCopy()
	next.Data = want
	return f.cluster.update(ctx, "configmaps", next.Name, next, &corev1.ConfigMap{})
}

// rule asks whether we still lead, and renews what pods are told of servers. Orders that end something call it first: between its
// answer and the order lies one round trip, see the decision on pods.
func (f *fence) rule(ctx context.Context) error {
	now, err := f.look(ctx)
	if err != nil {
		return err
	}
	if now == nil || now.Data[keyEpoch] != strconv.FormatInt(f.epoch, 10) || now.Data[keyEndpoints] != f.endpoints() {
		return f.enter(ctx)
	}
	return nil
}
