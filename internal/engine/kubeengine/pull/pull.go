package pull

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
)

// Accounts are those at registries that somebody's work names; none: it needs no Secret. Version differs as soon as one of them does.
type Accounts struct {
	Version string
	List    []api.RegistryCredential
}

// Cluster is what is done there. Errors are its own; Explain puts them into words.
type Cluster struct {
	Create func(context.Context, *corev1.Secret) error
	Delete func(ctx context.Context, name string) error
	// Account is the service account of pods.
	Account func(context.Context) (*corev1.ServiceAccount, error)
	Explain func(err error, verb, resource string) error
}

// usualFor is how long the usual ones are not asked for again.
const usualFor = time.Minute

// Desk keeps the Secrets of a zone. Safe for concurrent use.
type Desk struct {
	cluster Cluster
	labels  map[string]string
	clock   clock.Clock

	mu    sync.Mutex
	has   map[string]bool               // that they are there
	users map[string]int                // pods that are about to be made
	usual []corev1.LocalObjectReference // of pods that name none: one that names some gets no others
	asked time.Time                     // for usual
}

// New makes one; all its Secrets have the labels.
func New(c Cluster, labels map[string]string, clock clock.Clock) *Desk {
	return &Desk{cluster: c, labels: labels, clock: clock, has: map[string]bool{}, users: map[string]int{}}
}

const prefix = "fermi-pull-"

// Of is the Secret of ours that a pod needs; "": none.
func Of(pod *corev1.Pod) string {
	for _, s := range pod.Spec.ImagePullSecrets {
		if strings.HasPrefix(s.Name, prefix) {
			return s.Name
		}
	}
	return ""
}

// Use gives a pod that is about to be made what it needs. The caller calls made when the pod is there, or will not be, whether there was an error or not.
func (d *Desk) Use(ctx context.Context, pod *corev1.Pod, a Accounts) (made func(), err error) {
	if len(a.List) == 0 {
		return func() {}, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock() // also while it is made: the others of a gang need the same one
	name := prefix + a.Version
	if d.asked.IsZero() || d.clock.Now().Sub(d.asked) >= usualFor {
		account, err := d.cluster.Account(ctx)
		if err != nil {
			return func() {}, d.cluster.Explain(err, "get", "serviceaccounts")
		}
		d.usual, d.asked = account.ImagePullSecrets, d.clock.Now()
	}
	if !d.has[name] {
		if err := d.cluster.Create(ctx, d.secret(name, a.List)); err != nil && !apierrors.IsAlreadyExists(err) {
			return func() {}, d.cluster.Explain(err, "create", "secrets")
		}
		d.has[name] = true
	}
	pod.Spec.ImagePullSecrets = append([]corev1.LocalObjectReference{{Name: name}}, d.usual...)
	d.users[name]++
	return sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.users[name]--; d.users[name] == 0 {
			delete(d.users, name)
		}
	}), nil
}

// Leave deletes the Secret that a pod needed which is about to go, if none of the others needs it.
func (d *Desk) Leave(ctx context.Context, pod *corev1.Pod, others func() []*corev1.Pod) error {
	name := Of(pod)
	if name == "" {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.users[name] > 0 || slices.ContainsFunc(others(), func(p *corev1.Pod) bool { return p.UID != pod.UID && Of(p) == name }) {
		return nil
	}
	delete(d.has, name)
	if err := d.cluster.Delete(ctx, name); err != nil && !apierrors.IsNotFound(err) {
		return d.cluster.Explain(err, "delete", "secrets")
	}
	return nil
}

func (d *Desk) secret(name string, list []api.RegistryCredential) *corev1.Secret {
	type account struct {
		Username string `json:"username"`
		Password string `json:"password"`
		Auth     string `json:"auth"`
	}
	auths := map[string]account{}
	for _, r := range list {
		auths[r.Server] = account{r.Username, r.Password, base64.StdEncoding.EncodeToString([]byte(r.Username + ":" + r.Password))}
	}
	raw, err := json.Marshal(map[string]any{"auths": auths})
	if err != nil {
		panic(err) // texts only
	}
	yes := true
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: d.labels}, Type: corev1.SecretTypeDockerConfigJson, Immutable: &yes,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: raw},
	}
}
