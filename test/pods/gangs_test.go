package pods

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine/kubeengine/kubetest"
	"github.com/fermi-cluster/fermi/test/harness"
)

// keeper is a program of the cluster that keeps queues, as far as Fermi sees it: its own definitions, and a test that writes its word.
type keeper struct {
	name, file, crds  string
	group, plural     string
	admitted, evicted kubetest.Object // status
	waits             kubetest.Object
	words             string // of waits, as a user reads them
}

func kueueStatus(kind, status, message string) kubetest.Object {
	return kubetest.Object{"type": kind, "status": status, "reason": "Test", "message": message, "lastTransitionTime": "2026-11-19T08:00:00Z"}
}

var keepers = []keeper{
	{
		"kueue", "kueue.x-k8s.io_workloads.yaml", "kueue-crds", "kueue.x-k8s.io", "workloads",
		kubetest.Object{"conditions": []kubetest.Object{kueueStatus("Admitted", "True", "The workload is admitted")}},
		kubetest.Object{"conditions": []kubetest.Object{kueueStatus("Evicted", "True", "Preempted to accommodate a workload"), kueueStatus("Admitted", "False", "evicted")}},
		kubetest.Object{"conditions": []kubetest.Object{kueueStatus("QuotaReserved", "False", "insufficient unused quota for nvidia.com/gpu")}},
		"Kueue says: QuotaReserved=False: insufficient unused quota for nvidia.com/gpu",
	},
	{
		"volcano", "scheduling.volcano.sh_podgroups.yaml", "volcano-crds", "scheduling.volcano.sh", "podgroups",
		kubetest.Object{"phase": "Inqueue"}, nil,
		kubetest.Object{"phase": "Pending", "conditions": []kubetest.Object{{"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "queue resource quota insufficient", "transitionID": "x"}}},
		"Volcano says: Unschedulable=True: queue resource quota insufficient",
	},
}

// define brings the keeper's own definitions into the cluster.
func (k *keeper) define(t *testing.T, s *kubetest.Server) {
	t.Helper()
	dir, err := kubetest.Program(k.crds)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, k.file))
	if err != nil {
		t.Fatal(err)
	}
	var crd kubetest.Object
	if err := yaml.Unmarshal(raw, &crd); err != nil {
		t.Fatal(err)
	}
	at := "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	s.Must(t, "POST", at, crd, nil)
	t.Cleanup(func() { _, _, _ = s.Do(kubetest.Admin, "DELETE", at+"/"+k.plural+"."+k.group, "", nil) })
	harness.Eventually(t, k.plural+" are served", func() bool {
		code, _, err := s.Do(kubetest.Admin, "GET", "/apis/"+k.group, "", nil)
		return err == nil && code == http.StatusOK
	})
}

// allow gives Fermi the rights that the chart would.
func (k *keeper) allow(w *world) {
	w.t.Helper()
	for _, o := range render(w.t, w.namespace, "--set", "pods.gangs="+k.name+":research") {
		if o["kind"] != "Role" {
			continue
		}
		for _, r := range o["rules"].([]any) {
			if fmt.Sprint(r.(map[string]any)["apiGroups"]) != "["+k.group+"]" {
				continue
			}
			at := "/apis/rbac.authorization.k8s.io/v1/namespaces/" + w.namespace
			w.s.Must(w.t, "POST", at+"/roles", kubetest.Object{"metadata": kubetest.Object{"name": "gangs"}, "rules": []any{r}}, nil)
			w.s.Must(w.t, "POST", at+"/rolebindings", kubetest.Object{
				"metadata": kubetest.Object{"name": "gangs"}, "roleRef": kubetest.Object{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "gangs"},
				"subjects": []kubetest.Object{{"kind": "User", "name": kubetest.Fermi}},
			}, nil)
			return
		}
	}
	w.t.Fatal("the chart gives no right to ", k.plural)
}

// handed are the keeper's objects.
type handed struct {
	Metadata struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		QueueName, Queue string
		MinMember        int
		MinResources     corev1.ResourceList
		PodSets          []struct {
			Name     string
			Count    int
			Template corev1.PodTemplateSpec
		}
	} `json:"spec"`
}

func (k *keeper) objects(w *world) []handed {
	w.t.Helper()
	var list struct {
		Items []handed `json:"items"`
	}
	w.s.Must(w.t, "GET", k.path(w), nil, &list)
	return list.Items
}

func (k *keeper) path(w *world) string {
	return "/apis/" + k.group + "/v1beta1/namespaces/" + w.namespace + "/" + k.plural
}

// say writes the keeper's word.
func (k *keeper) say(w *world, name string, status kubetest.Object) {
	w.t.Helper()
	at := k.path(w) + "/" + name
	if k.name == "kueue" { // its status is a part of its own; that of Volcano is not
		at += "/status"
	}
	w.s.Must(w.t, "PATCH", at, kubetest.Object{"status": status}, nil)
}

// TestHandedOver: a gang is handed over to the cluster's own queue as a whole, with what it needs; there is no pod before it was let in, the task says what it waits for, and
// when it is over so is the object. A gang that Kueue wants out leaves at no cost of a restart, and waits again.
func TestHandedOver(t *testing.T) {
	for i := range keepers {
		k := &keepers[i]
		t.Run(k.name, func(t *testing.T) {
			k.define(t, kubetest.Get(t))
			w := up(t, "--pods-gangs", "k1="+k.name+":research")
			w.onlyPods()
			k.allow(w)
			w.must("train", "run", "-d", "--name", "gang", "--zone", "k1", "--replicas", "2", "--gpus", "3", "--cpu", "2", "--memory", "1Gi", "--restarts", "3", "--", "sleep", "3600")
			harness.Eventually(t, "the task says what it waits for", func() bool { return strings.Contains(w.must("events", "task", "gang"), "WaitsForQueue") })
			if out := w.must("events", "task", "gang"); strings.Contains(out, "ClusterPermission") {
				t.Fatal(out)
			}
			list := k.objects(w)
			if len(list) != 1 || len(w.pods()) != 0 {
				t.Fatalf("%d objects, %d pods", len(list), len(w.pods()))
			}
			one := list[0]
			if k.name == "kueue" {
				set := one.Spec.PodSets
				if one.Spec.QueueName != "research" || len(set) != 1 || set[0].Count != 2 || set[0].Template.Spec.Containers[0].Resources.Requests.Name("nvidia.com/gpu", "").Value() != 3 {
					t.Errorf("%+v", one.Spec)
				}
			} else if gpus := one.Spec.MinResources["nvidia.com/gpu"]; one.Spec.Queue != "research" || one.Spec.MinMember != 2 || gpus.Value() != 6 {
				t.Errorf("%+v", one.Spec)
			}
			if out := w.must("why", "gang"); !strings.Contains(out, "[WaitsForQueue]") || !strings.Contains(out, "in queue research of cluster k1") {
				t.Error(out)
			}
			k.say(w, one.Metadata.Name, k.waits)
			harness.Eventually(t, "why says what the keeper says", func() bool { return strings.Contains(w.must("why", "gang"), k.words) })
			if out := w.must("why", "gang", "--lang", "zh"); !strings.Contains(out, "的答复："+strings.SplitN(k.words, ": ", 2)[1]) {
				t.Error(out)
			}
			k.say(w, one.Metadata.Name, k.admitted)
			first := w.phase("gang", api.PhaseRunning)
			if out := w.must("why", "gang"); strings.Contains(out, "WaitsForQueue") {
				t.Error(out)
			}
			for _, p := range w.pods() {
				if k.name == "volcano" && (p.Annotations["scheduling.k8s.io/group-name"] != one.Metadata.Name || p.Spec.SchedulerName != "volcano") || p.Spec.NodeName != "n-"+w.namespace {
					t.Errorf("%s: %v %s on %s", p.Name, p.Annotations, p.Spec.SchedulerName, p.Spec.NodeName)
				}
			}
			w.s.Must(t, "DELETE", "/api/v1/namespaces/"+w.namespace+"/pods/"+w.pods()[0].Name, kubetest.Object{"gracePeriodSeconds": 1}, nil)
			harness.Eventually(t, "it runs again in its place, which is not asked for anew", func() bool {
				now := harness.Task(t, w.cl, "gang")
				return now.Status.Phase == api.PhaseRunning && now.Status.Attempt > first.Status.Attempt
			})
			if list := k.objects(w); len(list) != 1 || list[0].Metadata.Name != one.Metadata.Name {
				t.Errorf("%+v", list)
			}
			first = harness.Task(t, w.cl, "gang")
			if k.evicted != nil {
				k.say(w, one.Metadata.Name, k.evicted)
				var next handed
				harness.Eventually(t, "it left, and waits again", func() bool {
					for _, h := range k.objects(w) {
						if h.Metadata.Name != one.Metadata.Name {
							next = h
							return true
						}
					}
					return false
				})
				k.say(w, next.Metadata.Name, k.admitted)
				harness.Eventually(t, "it runs again", func() bool {
					now := harness.Task(t, w.cl, "gang")
					return now.Status.Phase == api.PhaseRunning && now.Status.Attempt > first.Status.Attempt && len(now.Status.Restarts) == len(first.Status.Restarts)
				})
				if out := w.must("events", "task", "gang"); !strings.Contains(out, "wants the share of queue research back") {
					t.Error(out)
				}
			}
			w.must("train", "stop", "gang")
			w.phase("gang", api.PhaseStopped)
			harness.Eventually(t, "its object is gone", func() bool { return len(k.objects(w)) == 0 })
			w.must("delete", "task", "gang")
			w.noPods()
		})
	}
}
