package kubeengine

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// A home is a claim of a volume, one for each environment. It is made with the environment's first pod and deleted with the environment.

const (
	labelHome = "fermi.io/home" // the id of whose home a claim is
	// noteSelected tells a provisioner that waits for the first consumer where that is: usually the scheduler's word.
	noteSelected = "volume.kubernetes.io/selected-node"
	// homeGroup owns homes, so that images whose user is not root can write to theirs.
	homeGroup = 2000
)

// claimName is the claim's that holds the home of an owner.
func claimName(id string) string { return PodName("fermi-home-" + id) }

// homes is a cluster as the keeper of homes.
type homes Cluster

func (h *homes) cluster() *Cluster { return (*Cluster)(h) }

// ready sees that the home of a replica is there and can be opened on this node. Calling it again changes nothing.
func (h *homes) ready(ctx context.Context, r engine.Replica, node string) error {
	if r.Home == "" {
		return nil
	}
	c := h.cluster()
	claim := &corev1.PersistentVolumeClaim{}
	err := c.get(ctx, claims, claimName(r.Home), claim)
	if IsGone(err) {
		err = c.create(ctx, claims, h.claim(r, node), claim)
		if IsTaken(err) {
			err = c.get(ctx, claims, claimName(r.Home), claim)
		}
	}
	if err != nil {
		return c.Explain(err, "create", claims)
	}
	if claim.Labels[labelHome] != LabelOf(r.Home) || claim.Labels[LabelZone] != c.Zone {
		return fault.New(fault.Conflict, "HomeNameTaken", fault.T(
			"Somebody else's claim in namespace %s has the name %s.", "命名空间 %s 中已有名为 %s 的其他存储声明。", c.Namespace, claim.Name))
	}
	if claim.DeletionTimestamp != nil {
		return fault.New(fault.Unavailable, "HomeLeaves", fault.T("The claim %s is just being deleted.", "存储声明 %s 正在被删除。", claim.Name))
	}
	if claim.Spec.VolumeName != "" {
		if err := h.opens(ctx, claim, node); err != nil {
			return err
		}
	}
	return h.adjust(ctx, claim, r, node)
}

const claims = "persistentvolumeclaims"

func homeSize(r engine.Replica) resource.Quantity {
	return *resource.NewQuantity(int64(r.HomeLimit), resource.BinarySI)
}

func (h *homes) claim(r engine.Replica, node string) *corev1.PersistentVolumeClaim {
	out := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: claimName(r.Home), Namespace: h.Namespace,
			Labels:      map[string]string{LabelManaged: Managed, LabelZone: h.Zone, labelHome: LabelOf(r.Home), labelProject: LabelOf(r.Project)},
			Annotations: map[string]string{NoteTask: r.Task, NoteOwner: r.Owner, noteSelected: node},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: homeSize(r)}},
		},
	}
	if h.StorageClass != "" {
		out.Spec.StorageClassName = &h.StorageClass
	}
	return out
}

// adjust tells a provisioner where the home is first used, and asks for more where the environment's limit was raised.
func (h *homes) adjust(ctx context.Context, claim *corev1.PersistentVolumeClaim, r engine.Replica, node string) error {
	patch := map[string]any{}
	if claim.Spec.VolumeName == "" && claim.Annotations[noteSelected] != node {
		patch["metadata"] = map[string]any{"annotations": map[string]any{noteSelected: node}}
	}
	want := homeSize(r)
	if had := claim.Spec.Resources.Requests[corev1.ResourceStorage]; want.Cmp(had) > 0 {
		patch["spec"] = map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": want.String()}}}
	}
	if len(patch) == 0 {
		return nil
	}
	raw, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	c := h.cluster()
	made, err := c.connect()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	return c.Explain(made.core.Patch(types.MergePatchType).Namespace(c.Namespace).Resource(claims).Name(claim.Name).Body(raw).Do(ctx).Error(), "patch", claims)
}

// opens refuses a node on which the volume of a home can't be had.
func (h *homes) opens(ctx context.Context, claim *corev1.PersistentVolumeClaim, node string) error {
	c := h.cluster()
	made, err := c.connect()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	volume, at := &corev1.PersistentVolume{}, &corev1.Node{}
	if err := made.core.Get().Resource("persistentvolumes").Name(claim.Spec.VolumeName).Do(ctx).Into(volume); err != nil {
		return c.Explain(err, "get", "persistentvolumes")
	}
	if volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		return nil
	}
	if err := made.core.Get().Resource("nodes").Name(node).Do(ctx).Into(at); err != nil {
		return c.Explain(err, "get", "nodes")
	}
	if reaches(volume.Spec.NodeAffinity.Required, at) {
		return nil
	}
	return &elsewhere{volume.Spec.NodeAffinity.Required, fault.New(fault.Invalid, "HomeElsewhere", fault.T(
		"Its home lies on a volume that node %s does not reach: %s", "其主目录所在的卷无法在节点 %s 上使用：%s", node, affinityText(volume.Spec.NodeAffinity.Required))).
		WithHint(fault.T("Make room on a node that reaches it, or cordon those that don't; then start it again.", "请在可访问该卷的节点上腾出资源，或对其他节点停止调度，然后再次启动。"))}
}

// elsewhere says that a home can't be opened on a node, and where it can.
type elsewhere struct {
	rule  *corev1.NodeSelector
	fault *fault.Error
}

func (e *elsewhere) Error() string { return e.fault.Error() }

func (e *elsewhere) Unwrap() error { return e.fault }

// reaches says that a node is one of those that a volume names.
func reaches(want *corev1.NodeSelector, node *corev1.Node) bool {
	return slices.ContainsFunc(want.NodeSelectorTerms, func(term corev1.NodeSelectorTerm) bool {
		if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
			return false
		}
		return matchesAll(term.MatchExpressions, node.Labels) && matchesAll(term.MatchFields, map[string]string{"metadata.name": node.Name})
	})
}

// operators of a volume's rules, as those of labels.
var operators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn, corev1.NodeSelectorOpExists: selection.Exists,
	corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist, corev1.NodeSelectorOpGt: selection.GreaterThan, corev1.NodeSelectorOpLt: selection.LessThan,
}

func matchesAll(list []corev1.NodeSelectorRequirement, values map[string]string) bool {
	for _, want := range list {
		r, err := labels.NewRequirement(want.Key, operators[want.Operator], want.Values)
		if err != nil || !r.Matches(labels.Set(values)) {
			return false
		}
	}
	return true
}

func affinityText(want *corev1.NodeSelector) string {
	var terms []string
	for _, term := range want.NodeSelectorTerms {
		for _, e := range slices.Concat(term.MatchExpressions, term.MatchFields) {
			terms = append(terms, strings.TrimSpace(e.Key+" "+string(e.Operator)+" "+strings.Join(e.Values, ",")))
		}
	}
	return Short(strings.Join(terms, "; "))
}

// DropHome deletes the home of an owner, of whom no pod is left. None is fine.
func (c *Cluster) DropHome(ctx context.Context, id string) error {
	claim := &corev1.PersistentVolumeClaim{}
	err := c.get(ctx, claims, claimName(id), claim)
	if IsGone(err) || err == nil && (claim.Labels[labelHome] != LabelOf(id) || claim.Labels[LabelZone] != c.Zone) {
		return nil
	}
	if err != nil {
		return c.Explain(err, "get", claims)
	}
	err = c.remove(ctx, claims, claim.Name, &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &claim.UID}})
	if IsGone(err) || IsConflict(err) {
		return nil
	}
	return c.Explain(err, "delete", claims)
}
