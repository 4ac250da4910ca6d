package kubeengine

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/kubeengine/pull"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// InCluster stands for the credentials of the pod that the server runs in, in the place of a file.
const InCluster = "in-cluster"

// Cluster is a Kubernetes cluster, and in it the namespace that is Fermi's. It connects when it is first needed. Safe for concurrent use.
type Cluster struct {
	Zone       string
	Kubeconfig string // a file, or InCluster
	Namespace  string
	// StorageClass is that of homes; "": the cluster's own choice.
	StorageClass string
	// Shared is the store for checkpoints, as launchers in its pods reach it; zero: they stay in memory.
	Shared record.SharedTier
	// Cache is the folder of its nodes that versions of datasets and models are kept in for all pods of a project; zero: each pod fetches its own.
	Cache Cache
	// Gangs is the queue of the cluster's own that gangs are handed over to; nil: none.
	Gangs interface {
		Admit(ctx context.Context, r engine.Replica, pod *corev1.Pod) error
	}
	// Accounts are those at registries that a replica names; nil: its image is pulled with the accounts of pods alone.
	Accounts func(context.Context, engine.Replica) (pull.Accounts, error)
	// Wrap changes how requests travel; nil: it does not. For tests.
	Wrap func(http.RoundTripper) http.RoundTripper

	mu     sync.Mutex
	made   *client
	readAt time.Time // when the file that made is of was written
	// trouble is why it can't be used now.
	trouble *fault.Error
}

// client is the two groups of the API that we use. Each call has a connection of its own: on one connection for all, as HTTP/2 has it, an API server answers
// half as many creations a second, because everything that it writes there, watches too, passes one after the other. Watches stay on such a one: its pings
// find out that nobody is there any more.
type client struct {
	core, auth, watches *rest.RESTClient
}

// words is the part of the API that we speak: little of it, so that the program stays small and starts fast.
var words = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, authenticationv1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err) // two types of one name: a mistake of ours
		}
	}
	return s
})

var parameters = sync.OnceValue(func() runtime.ParameterCodec { return runtime.NewParameterCodec(words()) })

const (
	protobuf = "application/vnd.kubernetes.protobuf"
	// callFor is how long one call may take.
	callFor = 20 * time.Second
)

// connect is the client; the file is read again when it was written anew: credentials are renewed.
func (c *Cluster) connect() (*client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var written time.Time
	if c.Kubeconfig != InCluster {
		if info, err := os.Stat(c.Kubeconfig); err == nil {
			written = info.ModTime()
		}
	}
	if c.made != nil && written.Equal(c.readAt) {
		return c.made, nil
	}
	cfg, err := c.config()
	if err != nil {
		return nil, fault.New(fault.Unavailable, "BadKubeconfig", fault.T(
			"The credentials of cluster %s can't be read from %s.", "无法从 %[2]s 读取集群 %[1]s 的凭据。", c.Zone, c.Kubeconfig)).
			WithHint(fault.T("Check the file that --cluster names.", "请检查 --cluster 指定的文件。")).Because(err)
	}
	made := &client{}
	calls := rest.CopyConfig(cfg)
	calls.NextProtos = []string{"http/1.1"}
	if made.core, err = restFor(calls, corev1.SchemeGroupVersion, "/api"); err == nil {
		made.auth, err = restFor(calls, authenticationv1.SchemeGroupVersion, "/apis")
	}
	if err == nil {
		made.watches, err = restFor(cfg, corev1.SchemeGroupVersion, "/api")
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "BadKubeconfig", fault.T(
			"Nobody could be reached with the credentials of cluster %s in %s.", "集群 %s 在 %s 中的凭据无法使用。", c.Zone, c.Kubeconfig)).Because(err)
	}
	c.made, c.readAt = made, written
	return made, nil
}

func (c *Cluster) config() (*rest.Config, error) {
	var cfg *rest.Config
	var err error
	if c.Kubeconfig == InCluster {
		cfg, err = rest.InClusterConfig()
	} else {
		if _, err := os.Stat(c.Kubeconfig); errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		cfg, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	}
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1 // the API server shares itself out
	cfg.UserAgent = "fermi"
	if c.Wrap != nil {
		cfg.Wrap(c.Wrap)
	}
	return cfg, nil
}

func restFor(cfg *rest.Config, group schema.GroupVersion, path string) (*rest.RESTClient, error) {
	own := rest.CopyConfig(cfg)
	own.GroupVersion, own.APIPath = &group, path
	own.NegotiatedSerializer = serializer.NewCodecFactory(words()).WithoutConversion()
	own.ContentType, own.AcceptContentTypes = protobuf, protobuf+",application/json"
	return rest.RESTClientFor(own)
}

// list and watch are of a kind in a namespace, "" for all.
func (c *Cluster) list(ctx context.Context, resource, namespace string, into runtime.Object, o metav1.ListOptions) error {
	made, err := c.connect()
	if err != nil {
		return err
	}
	return made.core.Get().Namespace(namespace).Resource(resource).VersionedParams(&o, parameters()).Do(ctx).Into(into)
}

func (c *Cluster) getPod(ctx context.Context, name string) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	return pod, c.get(ctx, "pods", name, pod)
}

func (c *Cluster) get(ctx context.Context, resource, name string, into runtime.Object) error {
	made, err := c.connect()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	return made.core.Get().Namespace(c.Namespace).Resource(resource).Name(name).Do(ctx).Into(into)
}

func (c *Cluster) create(ctx context.Context, resource string, o, into runtime.Object) error {
	made, err := c.connect()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	return made.core.Post().Namespace(c.Namespace).Resource(resource).Body(o).Do(ctx).Into(into)
}

func (c *Cluster) update(ctx context.Context, resource, name string, o, into runtime.Object) error {
	made, err := c.connect()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	return made.core.Put().Namespace(c.Namespace).Resource(resource).Name(name).Body(o).Do(ctx).Into(into)
}

// patchPod changes the metadata of a pod, if it is still this one.
func (c *Cluster) patchPod(ctx context.Context, pod *corev1.Pod, meta map[string]any) (*corev1.Pod, error) {
	made, err := c.connect()
	if err != nil {
		return nil, err
	}
	meta["uid"] = pod.UID // another pod of the name is a conflict
	patch, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	next := &corev1.Pod{}
	err = made.core.Patch(types.MergePatchType).Namespace(c.Namespace).Resource("pods").Name(pod.Name).Body(patch).Do(ctx).Into(next)
	if _, exact := meta["resourceVersion"]; !exact {
		err = c.settle(ctx, pod, err)
	}
	return next, err
}

// settle asks what a conflict was about: another pod has the name, and it stays one; or the API server was busy with this pod, and
// the call is worth repeating.
func (c *Cluster) settle(ctx context.Context, pod *corev1.Pod, err error) error {
	if !IsConflict(err) {
		return err
	}
	now, gerr := c.getPod(ctx, pod.Name)
	switch {
	case IsGone(gerr):
		return err
	case gerr != nil:
		return gerr
	case now.UID != pod.UID:
		return err
	}
	return fault.New(fault.Unavailable, "ClusterBusy", fault.T("Pod %s is being changed by somebody else, too.", "Pod %s 正同时被他人修改。", pod.Name)).Because(err)
}

// deletePod has the kubelet end a pod within the grace. The pod stays until its finalizer is taken away: it is given as it is now, nil where it is gone.
func (c *Cluster) deletePod(ctx context.Context, pod *corev1.Pod, grace int64) (*corev1.Pod, error) {
	made, err := c.connect()
	if err != nil {
		return nil, err
	}
	o := &metav1.DeleteOptions{GracePeriodSeconds: &grace, Preconditions: &metav1.Preconditions{UID: &pod.UID}}
	call, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	out, err := made.core.Delete().Namespace(c.Namespace).Resource("pods").Name(pod.Name).Body(o).Do(call).Get()
	left, _ := out.(*corev1.Pod) // else a Status: it is gone
	return left, c.settle(ctx, pod, err)
}

func (c *Cluster) remove(ctx context.Context, resource, name string, o *metav1.DeleteOptions) error {
	made, err := c.connect()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	return made.core.Delete().Namespace(c.Namespace).Resource(resource).Name(name).Body(o).Do(ctx).Error()
}

// Preferred is the version of a group that the cluster would rather speak; gone: it has no such group.
func (c *Cluster) Preferred(ctx context.Context, group string) (string, error) {
	var found metav1.APIGroup
	err := c.Raw(ctx, "GET", "/apis/"+group, nil, &found)
	return found.PreferredVersion.Version, err
}

// Raw is a call about objects of which the program knows no types.
func (c *Cluster) Raw(ctx context.Context, method, path string, body, into any) error {
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

// Audience is whom the tokens of pods are made for.
const Audience = "fermi"

// Vouch says nothing where the token is that of the pod of this replica: the cluster's own word, asked for each time.
func (c *Cluster) Vouch(ctx context.Context, replica, token string) error {
	made, err := c.connect()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{Audience}}}
	if err := made.auth.Post().Resource("tokenreviews").Body(review).Do(ctx).Into(review); err != nil {
		return c.Explain(err, "create", "tokenreviews.authentication.k8s.io")
	}
	who := review.Status.User
	extra := func(key string) string { return strings.Join(who.Extra[key], ",") }
	refused := func(why error) error {
		return fault.New(fault.Forbidden, "NotThatPod", fault.T("Cluster %s does not say that this is the pod of replica %s.", "集群 %s 未确认这是副本 %s 的 Pod。", c.Zone, replica)).Because(why)
	}
	switch {
	case !review.Status.Authenticated:
		return refused(errors.New(review.Status.Error))
	case !strings.HasPrefix(who.Username, "system:serviceaccount:"+c.Namespace+":"):
		return refused(errors.New("of " + who.Username))
	case extra("authentication.kubernetes.io/pod-name") != PodName(replica):
		return refused(errors.New("of pod " + extra("authentication.kubernetes.io/pod-name")))
	}
	pod, err := c.getPod(ctx, PodName(replica))
	if err != nil {
		return c.Explain(err, "get", "pods")
	}
	if string(pod.UID) != extra("authentication.kubernetes.io/pod-uid") || replicaName(pod) != replica || pod.Labels[LabelZone] != c.Zone {
		return refused(errors.New("of another pod of that name"))
	}
	return nil
}
