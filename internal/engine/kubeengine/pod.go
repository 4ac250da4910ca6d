package kubeengine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/kubeengine/pull"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// What is written on a pod.
const (
	LabelManaged = "app.kubernetes.io/managed-by" // "fermi"
	LabelZone    = "fermi.io/zone"
	LabelTask    = "fermi.io/task"    // the id of whose replica it is
	labelProject = "fermi.io/project" //
	labelRole    = "fermi.io/role"
	labelService = "fermi.io/service" // whose replica it is: a Service of the cluster may select by it
	LabelAttempt = "fermi.io/attempt"

	noteReplica = "fermi.io/replica" // engine.Replica, as JSON: the record of the replica
	noteName    = "fermi.io/replica-name"
	NoteTask    = "fermi.io/task-name"
	NoteOwner   = "fermi.io/owner" // who submitted it
	noteVersion = "fermi.io/version"
	noteStop    = "fermi.io/stop" // order, as JSON
	noteExit    = "fermi.io/exit" // engine.Exit, as JSON: where the engine decided that it has ended

	// noteUnmoved keeps a cluster autoscaler from taking a node away under a gang.
	noteUnmoved = "cluster-autoscaler.kubernetes.io/safe-to-evict"

	finalizer = "fermi.io/replica"
	Managed   = "fermi"

	Container = "replica" // the one that the launcher and its ranks run in
	enter     = "launcher"
)

// Where things are in a pod. User images have no such folders.
const (
	dirHouse    = "/fermi"         // of the launcher: its program and the replica's folder
	dirKey      = "/fermi-key"     // in memory; the launcher takes the token from it before anything else runs
	dirLink     = "/fermi-link"    // where servers are; follows the ConfigMap
	dirIdentity = "/fermi-account" // the pod's own token; not in the container that user code runs in

	fileProgram   = dirHouse + "/bin/fermi"
	searched      = "/usr/local/bin/fermi" // the program, where the search paths of all shells find it
	dirReplica    = dirHouse + "/replicas/own"
	dirHomes      = dirHouse + "/" + record.DirHomes // where a launcher with that folder looks for the home of its replica
	fileKey       = dirKey + "/token"
	keyEndpoints  = "endpoints" // of the ConfigMap, and the file's name
	fileEndpoints = dirLink + "/" + keyEndpoints
	fileIdentity  = dirIdentity + "/token"
)

const (
	// maxRecord bounds the record of a replica: annotations of one object may have 256 KiB together.
	maxRecord = 200 << 10
	// identityFor is how long the pod's own token is good: it is exchanged in the first seconds.
	identityFor = 10 * time.Minute
	// graceMore is what a launcher has for the hand-over beyond the grace of its ranks.
	graceMore = 60 * time.Second
	// never is how often the startup probe may fail: a replica waits for its gang as long as that takes.
	never = math.MaxInt32
)

// PodName is a replica's name as a pod may have it: names that are too long end in a digest.
func PodName(replica string) string {
	if len(replica) <= 63 {
		return replica
	}
	sum := sha256.Sum256([]byte(replica))
	return strings.TrimRight(replica[:50], "-") + "-" + hex.EncodeToString(sum[:])[:12]
}

// replicaName is whose pod it is; "": it is not ours.
func replicaName(pod *corev1.Pod) string { return pod.Annotations[noteName] }

// recordOf is the replica as it was written on its pod.
func recordOf(pod *corev1.Pod) (r engine.Replica, ok bool) {
	ok = json.Unmarshal([]byte(pod.Annotations[noteReplica]), &r) == nil && r.Name != "" && string(r.Name) == replicaName(pod)
	return r, ok
}

// brief is what of a record is asked for at every change of its pod.
type brief struct {
	Name    engine.Name `json:"name"`
	TaskID  string      `json:"taskId"`
	Node    string      `json:"node"`
	Devices []struct {
		Index int `json:"index"`
	} `json:"devices"`
}

// briefOf is recordOf for who asks often.
func briefOf(pod *corev1.Pod) (b brief, ok bool) {
	ok = json.Unmarshal([]byte(pod.Annotations[noteReplica]), &b) == nil && b.Name != "" && string(b.Name) == replicaName(pod)
	return b, ok
}

// mask is the devices, by index.
func (b brief) mask() (mask uint64) {
	for _, d := range b.Devices {
		mask |= 1 << d.Index
	}
	return mask
}

// pods is what all pods of an engine share.
type pods struct {
	cluster   *Cluster
	image     string // of the launcher, and of replicas that name none
	account   string
	config    string // the ConfigMap with the servers
	version   string
	resources []Resource
	rdma      string // the extended resource of the fast network; "": nobody said
	pulls     *pull.Desk
}

// registry is the cluster as what lets the kubelet into registries.
func (p *pods) registry() pull.Cluster {
	c := p.cluster
	return pull.Cluster{
		Create: func(ctx context.Context, s *corev1.Secret) error {
			return c.create(ctx, "secrets", s, &corev1.Secret{})
		},
		Delete: func(ctx context.Context, name string) error {
			return c.remove(ctx, "secrets", name, &metav1.DeleteOptions{})
		},
		Account: func(ctx context.Context) (*corev1.ServiceAccount, error) {
			a := &corev1.ServiceAccount{}
			return a, c.get(ctx, "serviceaccounts", p.account, a)
		},
		Explain: c.Explain,
	}
}

// admit lets the kubelet pull the image of a replica that names accounts. The caller calls made when the pod is there, or will not be.
func (p *pods) admit(ctx context.Context, r engine.Replica, pod *corev1.Pod) (made func(), err error) {
	if r.Image == "" || len(r.Credentials) == 0 || p.cluster.Accounts == nil {
		return func() {}, nil
	}
	accounts, err := p.cluster.Accounts(ctx, r)
	if err != nil {
		return func() {}, err
	}
	return p.pulls.Use(ctx, pod, accounts)
}

// wire gives a pod with devices the fast network of its node, if that has one: the resource, and the right to keep memory where cards write to.
func (p *pods) wire(pod *corev1.Pod, node *corev1.Node, devices int) {
	if p.rdma == "" || node == nil || devices == 0 || quantity(node.Status.Allocatable, p.rdma) == 0 {
		return
	}
	main := &pod.Spec.Containers[0]
	one := *resource.NewQuantity(1, resource.DecimalSI)
	main.Resources.Limits[corev1.ResourceName(p.rdma)] = one // requests are the same list
	main.SecurityContext.Capabilities.Add = append(main.SecurityContext.Capabilities.Add, "IPC_LOCK")
}

// make is the pod of a replica on a node of the cluster. An error: it asks for what a pod can't have here.
func (p *pods) make(r engine.Replica, nodeName string) (*corev1.Pod, error) {
	if err := refuse(r); err != nil {
		return nil, err
	}
	whole, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if len(whole) > maxRecord {
		return nil, fault.New(fault.TooLarge, "ReplicaTooLarge", fault.T(
			"The record of replica %s has %d bytes; a pod takes %d.", "副本 %s 的记录有 %d 字节，Pod 最多容纳 %d 字节。", r.Name, len(whole), maxRecord)).
			WithHint(fault.T("Put long values into files of the code, not into variables.", "请把较长的内容放入代码文件，而不是环境变量。"))
	}
	limits, err := Limits(r)
	if err != nil {
		return nil, err
	}
	image := r.Image
	if image == "" || r.Images == engine.ImageKeep { // what is written over an image is nobody's there
		image = p.image
	}
	grace := int64((r.StopGrace.Std() + graceMore).Seconds())
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: PodName(string(r.Name)), Namespace: p.cluster.Namespace, Finalizers: []string{finalizer},
			Labels: map[string]string{
				LabelManaged: Managed, LabelZone: p.cluster.Zone, LabelTask: LabelOf(r.TaskID), labelProject: LabelOf(r.Project),
				labelRole: LabelOf(r.Role), LabelAttempt: strconv.Itoa(r.Attempt),
			},
			Annotations: map[string]string{
				noteUnmoved: "false", noteReplica: string(whole), noteName: string(r.Name), NoteTask: r.Task, NoteOwner: r.Owner, noteVersion: p.version,
			},
		},
		Spec: corev1.PodSpec{
			NodeName: nodeName, RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: &grace,
			ServiceAccountName: p.account, AutomountServiceAccountToken: new(bool), EnableServiceLinks: new(bool),
			Tolerations:     p.tolerations(),
			SecurityContext: security(r),
			Volumes:         p.volumes(r),
			InitContainers:  []corev1.Container{p.entering(r)},
			Containers:      []corev1.Container{p.running(r, image, limits)},
		},
	}
	if r.Serve != nil && r.Serve.Service != "" {
		pod.Labels[labelService] = LabelOf(r.Serve.Service)
	}
	p.cluster.Cache.mount(pod, r)
	return pod, nil
}

// readiness is what the kubelet asks a replica of a service whose port is known: the cluster's own Services heed the answer. Fermi's gateway
// heeds the launcher's.
func readiness(s *engine.Serve) *corev1.Probe {
	if s == nil || s.Port == 0 {
		return nil
	}
	port := intstr.FromInt32(int32(s.Port))
	probe := &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: port}},
		PeriodSeconds: seconds(s.Every), TimeoutSeconds: seconds(s.Timeout), FailureThreshold: int32(max(s.Failures, 1)),
	}
	if s.Path != "" {
		probe.ProbeHandler = corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: s.Path, Port: port}}
	}
	return probe
}

// seconds is a time as probes have it: at least one.
func seconds(d api.Duration) int32 { return int32(max(math.Ceil(d.Std().Seconds()), 1)) }

// refuse names what a pod can't give.
func refuse(r engine.Replica) error {
	no := func(reason string, what fault.Text) error {
		return fault.New(fault.Invalid, reason, what).WithHint(fault.T("Name a zone of plain hosts in spec.zones.allow.", "请在 spec.zones.allow 中指定普通主机的可用区。"))
	}
	switch {
	case r.Inside != "":
		return no("InsideNotOnKubernetes", fault.T("A task inside an environment needs a zone of hosts; %s is on Kubernetes.", "环境内的任务需要主机可用区；%s 位于 Kubernetes。", r.Zone))
	case r.Code != nil && r.Code.Folder != "":
		return no("FolderNotOnKubernetes", fault.T("Zone %s is on Kubernetes: folders of hosts are not there.", "可用区 %s 位于 Kubernetes，无法使用主机目录。", r.Zone))
	case r.Resources.Accelerators.Share != 0:
		return no("ShareNotOnKubernetes", fault.T("Zone %s is on Kubernetes, which gives whole devices only.", "可用区 %s 位于 Kubernetes，仅分配整卡。", r.Zone))
	}
	return nil
}

// Limits are what the kubelet holds the pod to; requests are the same.
func Limits(r engine.Replica) (corev1.ResourceList, error) {
	out := corev1.ResourceList{}
	if r.Resources.CPU > 0 {
		out[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(r.Resources.CPU), resource.DecimalSI)
	}
	if r.Resources.Memory > 0 {
		out[corev1.ResourceMemory] = *resource.NewQuantity(int64(r.Resources.Memory), resource.BinarySI)
	}
	if r.Resources.EphemeralDisk > 0 {
		out[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(int64(r.Resources.EphemeralDisk), resource.BinarySI)
	}
	for _, d := range r.Devices {
		name, _, ok := cutUUID(d.UUID)
		if !ok {
			return nil, fault.New(fault.Invalid, "DeviceUnknown", fault.T(
				"Device %d of node %s is no resource of a cluster.", "节点 %[2]s 的 %[1]d 号加速卡不是集群资源。", d.Index, r.Node))
		}
		n := out[corev1.ResourceName(name)]
		n.Add(*resource.NewQuantity(1, resource.DecimalSI))
		out[corev1.ResourceName(name)] = n
	}
	return out, nil
}

// tolerations: the taints that set nodes with devices apart, and those of a node that is away: who is lost is judged by Fermi, and by more
// than a node's silence.
func (p *pods) tolerations() []corev1.Toleration {
	out := []corev1.Toleration{
		{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	}
	for _, name := range slices.Sorted(maps.Keys(spots)) {
		out = append(out, corev1.Toleration{Key: name, Operator: corev1.TolerationOpExists})
	}
	for _, r := range p.resources {
		if r.Part != "" {
			continue // taints are named after whole devices
		}
		out = append(out, corev1.Toleration{Key: r.Name, Operator: corev1.TolerationOpExists})
	}
	return out
}

func (p *pods) volumes(r engine.Replica) []corev1.Volume {
	memory := func(limit api.Bytes) corev1.VolumeSource {
		dir := &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}
		if limit > 0 {
			dir.SizeLimit = resource.NewQuantity(int64(limit), resource.BinarySI)
		}
		return corev1.VolumeSource{EmptyDir: dir}
	}
	identity := int64(identityFor.Seconds())
	out := []corev1.Volume{
		{Name: "fermi", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "fermi-key", VolumeSource: memory(1 << 20)},
		{Name: "fermi-link", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: p.config}}}},
		{Name: "fermi-account", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: Audience, ExpirationSeconds: &identity, Path: "token"}},
		}}}},
		{Name: "shm", VolumeSource: memory(r.Resources.SharedMemory)},
	}
	if r.Home != "" {
		out = append(out, corev1.Volume{Name: "home", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(r.Home)}}})
	}
	return out
}

// security is what holds for all containers of a pod.
func security(r engine.Replica) *corev1.PodSecurityContext {
	s := &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
	if r.Home != "" {
		group, seldom := int64(homeGroup), corev1.FSGroupChangeOnRootMismatch
		s.FSGroup, s.FSGroupChangePolicy = &group, &seldom
	}
	return s
}

// entering is the container that brings the launcher into the pod, whatever image the replica has, and gets it the replica's token.
func (p *pods) entering(r engine.Replica) corev1.Container {
	return corev1.Container{
		Name: enter, Image: p.image, ImagePullPolicy: corev1.PullIfNotPresent, SecurityContext: confined(),
		Args: []string{"launch", "enter", "--program", fileProgram, "--replica", string(r.Name), "--zone", p.cluster.Zone, "--endpoints", fileEndpoints, "--identity", fileIdentity, "--token-file", fileKey},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "fermi", MountPath: dirHouse}, {Name: "fermi-key", MountPath: dirKey}, {Name: "fermi-link", MountPath: dirLink, ReadOnly: true},
			{Name: "fermi-account", MountPath: dirIdentity, ReadOnly: true},
		},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
}

// running is the container that the launcher and its ranks run in.
func (p *pods) running(r engine.Replica, image string, limits corev1.ResourceList) corev1.Container {
	mounts := []corev1.VolumeMount{
		{Name: "fermi", MountPath: dirHouse}, {Name: "fermi-key", MountPath: dirKey}, {Name: "fermi-link", MountPath: dirLink, ReadOnly: true}, {Name: "shm", MountPath: "/dev/shm"},
		{Name: "fermi", MountPath: searched, SubPath: strings.TrimPrefix(fileProgram, dirHouse+"/"), ReadOnly: true},
	}
	if r.Home != "" {
		mounts = append(mounts, corev1.VolumeMount{Name: "home", MountPath: dirHomes + "/" + r.Home})
	}
	return corev1.Container{
		Name: Container, Image: image, ImagePullPolicy: corev1.PullIfNotPresent, SecurityContext: confined(),
		Command:        []string{fileProgram, "launch", "--dir", dirReplica, "--replica", string(r.Name), "--endpoints", fileEndpoints, "--token-file", fileKey, "--last-words", corev1.TerminationMessagePathDefault},
		Resources:      corev1.ResourceRequirements{Limits: limits, Requests: limits},
		Env:            []corev1.EnvVar{{Name: "FERMI_POD_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}}},
		VolumeMounts:   mounts,
		ReadinessProbe: readiness(r.Serve),
		// It has passed when the ranks were started, and is asked no more then. The link says it sooner; this is what a server finds that was away.
		StartupProbe: &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{fileProgram, "launch", "started", "--dir", dirReplica}}},
			PeriodSeconds: 5, TimeoutSeconds: 10, FailureThreshold: never,
		},
	}
}

// confined is what no container of ours needs.
func confined() *corev1.SecurityContext {
	return &corev1.SecurityContext{AllowPrivilegeEscalation: new(bool), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"NET_RAW", "MKNOD", "AUDIT_WRITE"}}}
}

// LabelOf is a text as a label's value may be; "" where it can't.
func LabelOf(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, s)
	return strings.Trim(s[:min(len(s), 63)], "-_.")
}

// inPod is a replica as its launcher in a pod sees it: the image is the container's own, and the cards are those that the kubelet gave, by
// whatever names: all that are there.
func inPod(r engine.Replica) engine.Replica {
	r.Image, r.UID, r.Folders = "", 0, nil
	r.Devices = slices.Clone(r.Devices)
	for i := range r.Devices {
		r.Devices[i].Index, r.Devices[i].UUID, r.Devices[i].Bus = i, "", ""
	}
	return r
}
