package keeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/kubeengine"
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
	Cluster *kubeengine.Cluster
	Keeper  Keeper
	Queue   string
	// Since is the first attempt that may use the place of a replica: attempts in one place are one gang to the keeper.
	Since func(context.Context, engine.Replica) (int, error)
	// Of is the gang of a replica that is about to start.
	Of func(context.Context, engine.Replica) (Gang, error)

	mu      sync.Mutex
	version string           // of the keeper's API, as the cluster prefers it
	asked   map[string]Asked // gangs that were handed over, by name
}

// Asked is a gang that was handed over, as it was seen last.
type Asked struct {
	Zone, Queue, Name string
	Keeper            Keeper
	TaskID            string
	Since             time.Time // when it was handed over
	In                bool
	// Said is what the keeper says of one that waits, in its own words; none: it has not said anything.
	Said []string
}

// Gang is what of some work stands in a cluster together.
type Gang struct {
	TaskID, Task, Owner string
	Since, Priority     int // Since is the first attempt in its place
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

// object is what the keeper takes a gang as.
func (k Keeper) object() (group, plural, kind string) {
	if k == Kueue {
		return "kueue.x-k8s.io", "workloads", "Workload"
	}
	return "scheduling.volcano.sh", "podgroups", "PodGroup"
}

// Title is the keeper's name as people write it.
func (k Keeper) Title() string {
	if k == Kueue {
		return "Kueue"
	}
	return "Volcano"
}

// nameOf is the object's name, of the first attempt in a place.
func nameOf(taskID string, since int) string {
	return kubeengine.PodName(fmt.Sprintf("%s-%d", taskID, since))
}

// Admit hands the gang of a replica over, and returns once it was let in. Fault Unavailable: it waits; ask again.
func (g *Gangs) Admit(ctx context.Context, r engine.Replica, pod *corev1.Pod) error {
	since, err := g.Since(ctx, r)
	if err != nil {
		return err
	}
	name := nameOf(r.TaskID, since)
	if g.Keeper == Volcano {
		pod.Annotations[noteGroup], pod.Spec.SchedulerName = name, volcanoes
	}
	g.mu.Lock()
	in := g.asked[name].In
	g.mu.Unlock()
	if in {
		return nil
	}
	now, err := g.see(ctx, name)
	verb := "get"
	if kubeengine.IsGone(err) {
		verb = "create"
		var gang Gang
		if gang, err = g.Of(ctx, r); err != nil {
			return err
		}
		now, err = g.hand(ctx, name, gang)
	}
	if err != nil {
		return g.Cluster.Explain(err, verb, g.Keeper.Resource())
	}
	g.note(name, r.TaskID, now)
	if ok, why := now.letIn(g.Keeper); !ok {
		return fault.New(fault.Unavailable, WaitsForQueue, fault.T(
			"It waits until %s lets it in, in queue %s of cluster %s: %s", "等待集群 %[3]s 的 %[1]s 在队列 %[2]s 中准入：%[4]s", g.Keeper, g.Queue, g.Cluster.Zone, kubeengine.Short(cmp.Or(why, "nothing was said yet"))))
	}
	return nil
}

// WaitsForQueue is the reason of a gang that was handed over and not let in.
const WaitsForQueue = "WaitsForQueue"

// note takes down what the keeper says of a gang; it says whether it is news to one that waited that it was let in.
func (g *Gangs) note(name, taskID string, now *handed) (news bool) {
	in, _ := now.letIn(g.Keeper)
	next := Asked{Zone: g.Cluster.Zone, Queue: g.Queue, Name: name, Keeper: g.Keeper, TaskID: taskID, Since: now.Metadata.CreationTimestamp.UTC(), In: in}
	if !in {
		next.Said = now.words()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.asked == nil {
		g.asked = map[string]Asked{}
	}
	was, known := g.asked[name]
	g.asked[name] = next
	return known && in && !was.In
}

// Waits is the gang of some work that was handed over and not let in yet; false: there is none.
func (g *Gangs) Waits(taskID string) (Asked, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, a := range g.asked {
		if a.TaskID == taskID && !a.In {
			return a, true
		}
	}
	return Asked{}, false
}

// Resource is that of the keeper's objects, in full.
func (k Keeper) Resource() string {
	group, plural, _ := k.object()
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

// mostWords bounds what is kept of a keeper's words.
const mostWords = 6

// words are what the keeper says of a gang, one for each of its conditions that says more than that it is so.
func (h *handed) words() (out []string) {
	if h.Status.Phase != "" {
		out = append(out, kubeengine.Short(h.Status.Phase))
	}
	for _, c := range h.Status.Conditions {
		if why := cmp.Or(c.Message, c.Reason); why != "" && len(out) < mostWords {
			out = append(out, kubeengine.Short(c.Type+"="+string(c.Status)+": "+why))
		}
	}
	return out
}

// path is where the keeper's objects are; it asks once which version the cluster prefers.
func (g *Gangs) path(ctx context.Context) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	group, plural, _ := g.Keeper.object()
	if g.version == "" {
		version, err := g.Cluster.Preferred(ctx, group)
		if kubeengine.IsGone(err) {
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
	return now, g.Cluster.Raw(ctx, "GET", at+"/"+name, nil, now)
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
	group, _, kind := g.Keeper.object()
	made := &handed{}
	err = g.Cluster.Raw(ctx, "POST", at, map[string]any{
		"apiVersion": group + "/" + g.version, "kind": kind, "spec": spec,
		"metadata": map[string]any{
			"name": name, "labels": map[string]string{kubeengine.LabelManaged: kubeengine.Managed, kubeengine.LabelZone: g.Cluster.Zone, kubeengine.LabelTask: kubeengine.LabelOf(gang.TaskID), kubeengine.LabelAttempt: strconv.Itoa(gang.Since)},
			"annotations": map[string]string{kubeengine.NoteTask: gang.Task, kubeengine.NoteOwner: gang.Owner},
		},
	}, made)
	if kubeengine.IsTaken(err) {
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
	total, members := corev1.ResourceList{}, 0
	for _, s := range g.Sets {
		r := engine.Replica{Resources: s.Resources}
		for _, id := range s.Devices {
			r.Devices = append(r.Devices, api.Device{UUID: id})
		}
		limits, err := kubeengine.Limits(r)
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
			"containers":    []map[string]any{{"name": kubeengine.Container, "image": "replica", "resources": corev1.ResourceRequirements{Requests: s.limits, Limits: s.limits}}},
		}}}
	}
	return map[string]any{"queueName": queue, "priority": g.Priority, "active": true, "podSets": list}, nil
}

// Sweep deletes the objects of gangs that are over, and tells of those that were let in since they waited, and of those that the keeper wants out: it took back what it
// had let in.
func (g *Gangs) Sweep(ctx context.Context, stands func(taskID string, since int) bool, in func(taskID string), out func(taskID, why string)) error {
	at, err := g.path(ctx)
	if err != nil {
		return err
	}
	g.mu.Lock()
	known := maps.Clone(g.asked)
	g.mu.Unlock()
	var list struct {
		Items []handed `json:"items"`
	}
	if err := g.Cluster.Raw(ctx, "GET", at+"?labelSelector="+kubeengine.LabelZone+"%3D"+g.Cluster.Zone, nil, &list); err != nil {
		return g.Cluster.Explain(err, "list", g.Keeper.Resource())
	}
	var errs []error
	for i := range list.Items {
		h := &list.Items[i]
		delete(known, h.Metadata.Name)
		taskID := h.Metadata.Labels[kubeengine.LabelTask]
		since, _ := strconv.Atoi(h.Metadata.Labels[kubeengine.LabelAttempt])
		if !stands(taskID, since) {
			g.forget(h.Metadata.Name)
			err := g.Cluster.Raw(ctx, "DELETE", at+"/"+h.Metadata.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &h.Metadata.UID}}, nil)
			if err != nil && !kubeengine.IsGone(err) && !kubeengine.IsConflict(err) {
				errs = append(errs, g.Cluster.Explain(err, "delete", g.Keeper.Resource()))
			}
			continue
		}
		if why, evicted := h.evicted(g.Keeper); evicted {
			g.forget(h.Metadata.Name)
			out(taskID, why)
		} else if g.note(h.Metadata.Name, taskID, h) {
			in(taskID)
		}
	}
	for name := range known { // somebody deleted it
		g.forget(name)
	}
	return errors.Join(errs...)
}

func (g *Gangs) forget(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.asked, name)
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
