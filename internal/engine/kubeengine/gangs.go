package kubeengine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// A cluster may have queues of its own, which Kueue or Volcano keeps: others there share by them. A gang of Fermi is handed over to one of them as a whole: an
// object says what it needs, and no pod is made before the keeper lets it in. Where the pods stand is still Fermi's word.

// Keeper is who keeps the queues of a cluster.
type Keeper string

// The keepers.
const (
	Kueue   Keeper = "kueue"
	Volcano Keeper = "volcano"
)

// Gangs is the queue that gangs of a cluster are handed over to. Safe for concurrent use.
type Gangs struct {
	Cluster *Cluster
	Keeper  Keeper
	Queue   string
	// Of is the gang of a replica that is about to start.
	Of func(context.Context, engine.Replica) (Gang, error)

	mu      sync.Mutex
	version string          // of the keeper's API, as the cluster prefers it
	in      map[string]bool // gangs that were let in, by name; false: they wait
}

// Gang is what of some work stands in a cluster together.
type Gang struct {
	TaskID, Task, Owner string
	Attempt, Priority   int
	Sets                []GangSet
}

// GangSet are replicas that need the same.
type GangSet struct {
	Role      string
	Count     int
	Resources api.Resources
	Devices   []string // ids of those that one has
}

const (
	maxSets = 8 // Kueue takes no more
	// noteGroup is by what Volcano knows whose a pod is.
	noteGroup = "scheduling.k8s.io/group-name"
	volcanoes = "volcano" // its scheduler's name
)

// resource of the keeper, in its group.
func (k Keeper) resource() (group, plural, kind string) {
	if k == Kueue {
		return "kueue.x-k8s.io", "workloads", "Workload"
	}
	return "scheduling.volcano.sh", "podgroups", "PodGroup"
}

// nameOf is the object's name of an attempt.
func nameOf(taskID string, attempt int) string { return podName(fmt.Sprintf("%s-%d", taskID, attempt)) }

// admit hands the gang of a replica over, and returns once it was let in. Fault Unavailable: it waits; ask again.
func (g *Gangs) admit(ctx context.Context, r engine.Replica, pod *corev1.Pod) error {
	name := nameOf(r.TaskID, r.Attempt)
	if g.Keeper == Volcano {
		pod.Annotations[noteGroup], pod.Spec.SchedulerName = name, volcanoes
	}
	g.mu.Lock()
	in := g.in[name]
	g.mu.Unlock()
	if in {
		return nil
	}
	now, err := g.see(ctx, name)
	verb := "get"
	if gone(err) {
		verb = "create"
		var gang Gang
		if gang, err = g.Of(ctx, r); err != nil {
			return err
		}
		now, err = g.hand(ctx, name, gang)
	}
	if err != nil {
		return g.Cluster.explain(err, verb, g.Keeper.plural())
	}
	ok, why := now.letIn(g.Keeper)
	g.note(name, ok)
	if !ok {
		return fault.New(fault.Unavailable, "WaitsForQueue", fault.T(
			"It waits until %s lets it in, in queue %s of cluster %s: %s", "等待集群 %[3]s 的 %[1]s 在队列 %[2]s 中准入：%[4]s", g.Keeper, g.Queue, g.Cluster.Zone, short(cmp.Or(why, "nothing was said yet"))))
	}
	return nil
}

// note takes down whether a gang was let in; it says whether that is news to one that waited.
func (g *Gangs) note(name string, in bool) (news bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.in == nil {
		g.in = map[string]bool{}
	}
	was, known := g.in[name]
	g.in[name] = in
	return known && in && !was
}

// plural is the resource in full.
func (k Keeper) plural() string {
	group, plural, _ := k.resource()
	return plural + "." + group
}

// handed is what of a keeper's object is read.
type handed struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Status   struct {
		Phase      string `json:"phase"`
		Conditions []struct {
			Type    string                 `json:"type"`
			Status  metav1.ConditionStatus `json:"status"`
			Reason  string                 `json:"reason"`
			Message string                 `json:"message"`
		} `json:"conditions"`
	} `json:"status"`
}

// letIn says whether a gang's pods may be made, and if not, what the keeper says of it.
func (h *handed) letIn(k Keeper) (ok bool, why string) {
	for _, c := range h.Status.Conditions {
		switch {
		case k == Kueue && c.Type == "Admitted" && c.Status == metav1.ConditionTrue:
			return true, ""
		case k == Kueue && c.Status != metav1.ConditionTrue, k == Volcano && c.Type == "Unschedulable" && c.Status == metav1.ConditionTrue:
			why = cmp.Or(c.Message, c.Reason, why)
		}
	}
	return k == Volcano && slices.Contains([]string{"Inqueue", "Running", "Completed"}, h.Status.Phase), cmp.Or(why, h.Status.Phase)
}

// path is where the keeper's objects are; it asks once which version the cluster prefers.
func (g *Gangs) path(ctx context.Context) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	group, plural, _ := g.Keeper.resource()
	if g.version == "" {
		version, err := g.Cluster.preferred(ctx, group)
		if gone(err) {
			return "", fault.New(fault.Unavailable, "NoKeeper", fault.T("Cluster %s does not run %s: it has no %s.", "集群 %s 未运行 %s：没有 %s。", g.Cluster.Zone, g.Keeper, plural)).
				WithHint(fault.T("Install it, or take the zone out of --pods-gangs.", "请安装它，或从 --pods-gangs 中去掉该可用区。")).Because(err)
		}
		if err != nil {
			return "", err
		}
		g.version = version
	}
	return "/apis/" + group + "/" + g.version + "/namespaces/" + g.Cluster.Namespace + "/" + plural, nil
}

func (g *Gangs) see(ctx context.Context, name string) (*handed, error) {
	at, err := g.path(ctx)
	if err != nil {
		return nil, err
	}
	now := &handed{}
	return now, g.Cluster.raw(ctx, "GET", at+"/"+name, nil, now)
}

// hand makes the object of a gang.
func (g *Gangs) hand(ctx context.Context, name string, gang Gang) (*handed, error) {
	at, err := g.path(ctx)
	if err != nil {
		return nil, err
	}
	spec, err := gang.spec(g.Keeper, g.Queue)
	if err != nil {
		return nil, err
	}
	group, _, kind := g.Keeper.resource()
	made := &handed{}
	err = g.Cluster.raw(ctx, "POST", at, map[string]any{
		"apiVersion": group + "/" + g.version, "kind": kind, "spec": spec,
		"metadata": map[string]any{
			"name": name, "labels": map[string]string{labelManaged: managed, labelZone: g.Cluster.Zone, labelTask: label(gang.TaskID), labelAttempt: strconv.Itoa(gang.Attempt)},
			"annotations": map[string]string{noteTask: gang.Task, noteOwner: gang.Owner},
		},
	}, made)
	if taken(err) {
		return g.see(ctx, name)
	}
	return made, err
}

// spec is what the gang needs, in the keeper's words.
func (g *Gang) spec(keeper Keeper, queue string) (map[string]any, error) {
	type set struct {
		name   string
		count  int
		limits corev1.ResourceList
	}
	var sets []set
	p := pods{}
	total, members := corev1.ResourceList{}, 0
	for _, s := range g.Sets {
		r := engine.Replica{Resources: s.Resources}
		for _, id := range s.Devices {
			r.Devices = append(r.Devices, api.Device{UUID: id})
		}
		limits, err := p.limits(r)
		if err != nil {
			return nil, err
		}
		sets = append(sets, set{strings.ToLower(s.Role), s.Count, limits})
		for name, q := range limits {
			sum := total[name]
			for range s.Count {
				sum.Add(q)
			}
			total[name] = sum
		}
		members += s.Count
	}
	if keeper == Volcano {
		total[corev1.ResourcePods] = *resource.NewQuantity(int64(members), resource.DecimalSI)
		return map[string]any{"minMember": members, "minResources": total, "queue": queue}, nil
	}
	if len(sets) == 0 || len(sets) > maxSets {
		return nil, fault.New(fault.Invalid, "GangTooVaried", fault.T(
			"A gang has 1 to %d sorts of replicas where it is handed over to Kueue; this one has %d.", "移交给 Kueue 的任务组须有 1 到 %d 种副本，此任务组有 %d 种。", maxSets, len(sets)))
	}
	list := make([]map[string]any, len(sets))
	for i, s := range sets {
		list[i] = map[string]any{"name": s.name, "count": s.count, "template": map[string]any{"spec": map[string]any{
			"restartPolicy": corev1.RestartPolicyNever,
			"containers":    []map[string]any{{"name": container, "image": "replica", "resources": corev1.ResourceRequirements{Requests: s.limits, Limits: s.limits}}},
		}}}
	}
	return map[string]any{"queueName": queue, "priority": g.Priority, "active": true, "podSets": list}, nil
}

// Sweep deletes the objects of gangs that are over, and tells of those that were let in since they waited, and of those that the keeper wants out: it took back what it
// had let in.
func (g *Gangs) Sweep(ctx context.Context, stands func(taskID string, attempt int) bool, in func(taskID string), out func(taskID, why string)) error {
	at, err := g.path(ctx)
	if err != nil {
		return err
	}
	var list struct {
		Items []handed `json:"items"`
	}
	if err := g.Cluster.raw(ctx, "GET", at+"?labelSelector="+labelZone+"%3D"+g.Cluster.Zone, nil, &list); err != nil {
		return g.Cluster.explain(err, "list", g.Keeper.plural())
	}
	var errs []error
	for i := range list.Items {
		h := &list.Items[i]
		taskID := h.Metadata.Labels[labelTask]
		attempt, _ := strconv.Atoi(h.Metadata.Labels[labelAttempt])
		if !stands(taskID, attempt) {
			g.forget(h.Metadata.Name)
			err := g.Cluster.raw(ctx, "DELETE", at+"/"+h.Metadata.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &h.Metadata.UID}}, nil)
			if err != nil && !gone(err) && !conflict(err) {
				errs = append(errs, g.Cluster.explain(err, "delete", g.Keeper.plural()))
			}
			continue
		}
		if why, evicted := h.evicted(g.Keeper); evicted {
			g.forget(h.Metadata.Name)
			out(taskID, why)
		} else if ok, _ := h.letIn(g.Keeper); ok && g.note(h.Metadata.Name, true) {
			in(taskID)
		}
	}
	return errors.Join(errs...)
}

func (g *Gangs) forget(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.in, name)
}

// evicted says that a gang has to give back what it was let in with.
func (h *handed) evicted(k Keeper) (why string, yes bool) {
	for _, c := range h.Status.Conditions {
		if k == Kueue && c.Type == "Evicted" && c.Status == metav1.ConditionTrue {
			return cmp.Or(c.Message, c.Reason), true
		}
	}
	return "", false
}

// preferred is the version of a group that the cluster would rather speak; gone: it has no such group.
func (c *Cluster) preferred(ctx context.Context, group string) (string, error) {
	var found metav1.APIGroup
	err := c.raw(ctx, "GET", "/apis/"+group, nil, &found)
	return found.PreferredVersion.Version, err
}

// raw is a call about objects of which the program knows no types.
func (c *Cluster) raw(ctx context.Context, method, path string, body, into any) error {
	made, err := c.connect()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	req := made.core.Verb(method).RequestURI(path).SetHeader("Accept", "application/json")
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return err
		}
		req = req.SetHeader("Content-Type", "application/json").Body(raw)
	}
	out, err := req.Do(ctx).Raw()
	var said metav1.Status
	if err != nil && json.Unmarshal(out, &said) == nil && said.Reason != "" {
		return apierrors.FromObject(&said) // the client reads such words in its own encoding alone
	}
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(out, into)
}
