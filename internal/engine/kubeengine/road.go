package kubeengine

import (
	"context"
	"log/slog"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/pattern"
)

// The cluster's own road to a service of Fermi: a Service that selects its pods, and whose endpoints are those that are ready. It is there while pods of
// the service are. Fermi's gateway has no use for it.

// road is one: whose, and at which port.
type road struct {
	project string
	port    int32
}

// roads keeps them; for one goroutine.
type roads struct {
	cluster *Cluster
	log     *slog.Logger
	told    string          // the reason of the last failure
	made    map[string]road // by name; nil: nobody has looked which there are
	not     map[string]bool // names that somebody else's Service has
}

const services = "services"

// roadName is what the name of a Service must be.
var roadName = pattern.New(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)

// roadOf is the road that a pod is at the end of; false: none, because it serves nothing, or at a port that its launcher chose.
func roadOf(pod *corev1.Pod) (name string, r road, ok bool) {
	name = pod.Labels[labelService]
	if name == "" || !roadName.MatchString(name) || isOver(pod) {
		return "", road{}, false
	}
	probe := pod.Spec.Containers[0].ReadinessProbe
	switch {
	case probe == nil:
		return "", road{}, false
	case probe.HTTPGet != nil:
		return name, road{pod.Labels[labelProject], probe.HTTPGet.Port.IntVal}, true
	case probe.TCPSocket != nil:
		return name, road{pod.Labels[labelProject], probe.TCPSocket.Port.IntVal}, true
	}
	return "", road{}, false
}

// pave keeps roads for the pods that there are. What fails is tried again, and logged when it is news.
func (r *roads) pave(ctx context.Context, pods []*corev1.Pod) {
	want := map[string]road{}
	for _, pod := range pods {
		if name, one, ok := roadOf(pod); ok {
			want[name] = one
		}
	}
	reason := ""
	err := r.keep(ctx, want)
	if err != nil && ctx.Err() == nil {
		if reason = fault.ReasonOf(err); reason != r.told {
			r.log.Warn("the cluster's own way to services can't be kept; trying again", "zone", r.cluster.Zone, "reason", reason, "error", err)
		}
	}
	r.told = reason
}

// keep makes those that are wanted and missing, and takes away those that are not wanted any more.
func (r *roads) keep(ctx context.Context, want map[string]road) error {
	if r.made == nil {
		if err := r.look(ctx); err != nil {
			if len(want) == 0 {
				return nil // there may be no right to look, and no need
			}
			return r.cluster.Explain(err, "list", services)
		}
	}
	for name, now := range maps.Clone(r.made) {
		if next, ok := want[name]; !ok || next != now {
			err := r.cluster.remove(ctx, services, name, &metav1.DeleteOptions{})
			if err != nil && !IsGone(err) {
				return r.cluster.Explain(err, "delete", services)
			}
			delete(r.made, name)
		}
	}
	for name, one := range want {
		if _, ok := r.made[name]; ok || r.not[name] {
			continue
		}
		err := r.cluster.create(ctx, services, r.object(name, one), &corev1.Service{})
		if IsTaken(err) {
			r.not[name] = true
			continue
		}
		if err != nil {
			return r.cluster.Explain(err, "create", services)
		}
		r.made[name] = one
	}
	return nil
}

// look finds those that there are.
func (r *roads) look(ctx context.Context) error {
	var list corev1.ServiceList
	err := r.cluster.list(ctx, services, r.cluster.Namespace, &list, metav1.ListOptions{LabelSelector: LabelManaged + "=" + Managed + "," + LabelZone + "=" + r.cluster.Zone})
	if err != nil {
		return err
	}
	r.made, r.not = map[string]road{}, map[string]bool{}
	for _, s := range list.Items {
		one := road{project: s.Labels[labelProject]}
		for _, p := range s.Spec.Ports {
			one.port = p.TargetPort.IntVal
		}
		r.made[s.Name] = one
	}
	return nil
}

func (r *roads) object(name string, one road) *corev1.Service {
	mine := map[string]string{LabelManaged: Managed, LabelZone: r.cluster.Zone, labelProject: one.project, labelService: name}
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: r.cluster.Namespace, Labels: mine},
		Spec:       corev1.ServiceSpec{Selector: mine, Ports: []corev1.ServicePort{{Name: "http", Port: one.port, TargetPort: intstr.FromInt32(one.port)}}},
	}
}
