package kubeengine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/spot"
)

// Autoscalers of clusters bring nodes for pods that their scheduler found no room for. Fermi makes pods only where there is room, so what waits is shown to them as
// placeholders: pods that nobody schedules and nothing runs in, of the size of the replicas. They go as soon as there is no wish for them any more.

// Wish is a replica that no node has room for.
type Wish struct {
	TaskID, Task, Owner string
	Role                string
	Index               int
	Resources           api.Resources
	Spot                spot.Rule
}

// Growth shows a cluster's autoscaler what waits. For one goroutine.
type Growth struct {
	Cluster   *Cluster
	Image     string
	Resources []Resource // rows before those of the table
}

const (
	labelRoom = "fermi.io/room" // a zone: the pod is a placeholder of it
	// scheduler is nobody: what names it is bound by no scheduler of the cluster.
	scheduler = "fermi"
)

// Want makes the placeholders of the cluster those of the wishes, and no others. Calling it again changes nothing.
func (g *Growth) Want(ctx context.Context, wishes []Wish) error {
	var list corev1.PodList
	if err := g.Cluster.list(ctx, "pods", g.Cluster.Namespace, &list, metav1.ListOptions{LabelSelector: labelRoom + "=" + g.Cluster.Zone}); err != nil {
		return g.Cluster.Explain(err, "list", "pods")
	}
	want := map[string]Wish{}
	for _, w := range wishes {
		want[g.name(w)] = w
	}
	for i := range list.Items {
		pod := &list.Items[i]
		if _, ok := want[pod.Name]; ok && pod.DeletionTimestamp == nil {
			if err := g.tell(ctx, pod); err != nil {
				return err
			}
			delete(want, pod.Name)
			continue
		}
		zero := int64(0)
		err := g.Cluster.remove(ctx, "pods", pod.Name, &metav1.DeleteOptions{GracePeriodSeconds: &zero, Preconditions: &metav1.Preconditions{UID: &pod.UID}})
		if err != nil && !IsGone(err) && !IsConflict(err) {
			return g.Cluster.Explain(err, "delete", "pods")
		}
	}
	if len(want) == 0 {
		return nil
	}
	var nodes corev1.NodeList
	if err := g.Cluster.list(ctx, "nodes", "", &nodes, metav1.ListOptions{}); err != nil {
		return g.Cluster.Explain(err, "list", "nodes")
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		pod := &corev1.Pod{}
		err := g.Cluster.create(ctx, "pods", g.placeholder(name, want[name], nodes.Items), pod)
		if IsTaken(err) {
			continue // it is just leaving
		}
		if err != nil {
			return g.Cluster.Explain(err, "create", "pods")
		}
		if err := g.tell(ctx, pod); err != nil {
			return err
		}
	}
	return nil
}

// name is a placeholder's: another wish has another one.
func (g *Growth) name(w Wish) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d/%+v/%s", w.TaskID, w.Role, w.Index, w.Resources, w.Spot))
	return "fermi-room-" + hex.EncodeToString(sum[:])[:16]
}

// tell says on a placeholder that it found no room, in the words that autoscalers wait for: nobody else will.
func (g *Growth) tell(ctx context.Context, pod *corev1.Pod) error {
	if slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable
	}) {
		return nil
	}
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": map[string]any{"conditions": []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.Now(),
		Message: "0 nodes have room for a replica of " + pod.Annotations[NoteTask],
	}}}})
	if err != nil {
		return err
	}
	made, err := g.Cluster.connect()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	err = made.core.Patch(types.MergePatchType).Namespace(g.Cluster.Namespace).Resource("pods").Name(pod.Name).SubResource("status").Body(raw).Do(ctx).Error()
	if IsGone(err) || IsConflict(err) {
		return nil
	}
	return g.Cluster.Explain(err, "patch", "pods/status")
}

func (g *Growth) placeholder(name string, w Wish, nodes []corev1.Node) *corev1.Pod {
	p := pods{resources: table(g.Resources)}
	limits := corev1.ResourceList{}
	for name, q := range map[corev1.ResourceName]resource.Quantity{
		corev1.ResourceCPU: *resource.NewMilliQuantity(int64(w.Resources.CPU), resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(int64(w.Resources.Memory), resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(int64(w.Resources.EphemeralDisk), resource.BinarySI),
	} {
		if !q.IsZero() {
			limits[name] = q
		}
	}
	var where []corev1.NodeSelectorRequirement
	if a := w.Resources.Accelerators; a.Count > 0 {
		name, rule := p.deviceOf(a.Types(), nodes)
		limits[corev1.ResourceName(name)] = *resource.NewQuantity(int64(a.Count), resource.DecimalSI)
		where = append(where, rule...)
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: g.Cluster.Namespace, Labels: map[string]string{labelRoom: g.Cluster.Zone},
			Annotations: map[string]string{NoteTask: w.Task, NoteOwner: w.Owner},
		},
		Spec: corev1.PodSpec{
			SchedulerName: scheduler, RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: new(bool), EnableServiceLinks: new(bool),
			Tolerations: p.tolerations(), Affinity: affinity(where, w.Spot),
			Containers: []corev1.Container{{Name: "room", Image: g.Image, SecurityContext: confined(), Resources: corev1.ResourceRequirements{Limits: limits, Requests: limits}}},
		},
	}
}

// deviceOf is the extended resource of the first of these types that a node or the table has, and what a node of it is known by. Of a type that nobody has seen
// it is told by the label that operators give to their groups of nodes.
func (p *pods) deviceOf(kinds []string, nodes []corev1.Node) (name string, where []corev1.NodeSelectorRequirement) {
	if len(kinds) == 0 {
		kinds = []string{""} // any
	}
	for _, kind := range kinds {
		for _, r := range p.resources {
			for i := range nodes {
				n := &nodes[i]
				if quantity(n.Status.Capacity, r.Name) == 0 || kind != "" && api.FoldDevice(typeOf(n, r)) != api.FoldDevice(kind) {
					continue
				}
				for _, label := range append([]string{deviceLabel}, r.TypeLabels...) {
					if v := n.Labels[label]; v != "" && kind != "" {
						return r.Name, []corev1.NodeSelectorRequirement{{Key: label, Operator: corev1.NodeSelectorOpIn, Values: []string{v}}}
					}
				}
				return r.Name, nil
			}
		}
		for _, r := range p.resources {
			if kind != "" && api.FoldDevice(r.Type) == api.FoldDevice(kind) {
				return r.Name, nil
			}
		}
	}
	if kinds[0] == "" {
		return p.resources[0].Name, nil
	}
	return p.resources[0].Name, []corev1.NodeSelectorRequirement{{Key: deviceLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{strings.ReplaceAll(kinds[0], " ", "-")}}}
}

// affinity is on which nodes a placeholder would do.
func affinity(where []corev1.NodeSelectorRequirement, rule spot.Rule) *corev1.Affinity {
	var terms []corev1.NodeSelectorTerm
	names := slices.Sorted(maps.Keys(spots))
	switch rule {
	case spot.Only: // by one label or another
		for _, name := range names {
			terms = append(terms, corev1.NodeSelectorTerm{MatchExpressions: append(slices.Clone(where), corev1.NodeSelectorRequirement{Key: name, Operator: corev1.NodeSelectorOpIn, Values: []string{spots[name]}})})
		}
	case spot.Never:
		for _, name := range names {
			where = append(where, corev1.NodeSelectorRequirement{Key: name, Operator: corev1.NodeSelectorOpNotIn, Values: []string{spots[name]}})
		}
		fallthrough
	default:
		if len(where) == 0 {
			return nil
		}
		terms = []corev1.NodeSelectorTerm{{MatchExpressions: where}}
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
}
