package pods

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/fermi-cluster/fermi/internal/engine/kubeengine/kubetest"
	"github.com/fermi-cluster/fermi/test/harness"
)

const chart = "../../deploy/chart"

// render is what Helm makes of the chart, by kind and name.
func render(t *testing.T, namespace string, args ...string) []kubetest.Object {
	t.Helper()
	helm, err := kubetest.Program("helm")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.Command(helm, append([]string{"template", "fermi", chart, "--namespace", namespace, "--kube-version", "1.34.4"}, args...)...)
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+dir, "HELM_CONFIG_HOME="+dir, "HELM_DATA_HOME="+dir)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("helm %v: %v %s", args, err, err.(*exec.ExitError).Stderr)
	}
	var list []kubetest.Object
	for _, doc := range regexp.MustCompile(`(?m)^---$`).Split(string(out), -1) {
		var o kubetest.Object
		if err := yaml.UnmarshalStrict([]byte(doc), &o); err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		if len(o) > 0 {
			list = append(list, o)
		}
	}
	return list
}

// places are where objects of a kind live beyond those that rbac.yaml has.
var places = map[string]string{
	"ServiceAccount": "/api/v1/namespaces/%s/serviceaccounts", "ConfigMap": "/api/v1/namespaces/%s/configmaps", "Service": "/api/v1/namespaces/%s/services",
	"PersistentVolumeClaim": "/api/v1/namespaces/%s/persistentvolumeclaims", "StatefulSet": "/apis/apps/v1/namespaces/%s/statefulsets", "Deployment": "/apis/apps/v1/namespaces/%s/deployments",
	"PodDisruptionBudget": "/apis/policy/v1/namespaces/%s/poddisruptionbudgets", "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/%s/networkpolicies",
	"Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/roles", "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/rolebindings",
	"ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles", "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
	"DaemonSet": "/apis/apps/v1/namespaces/%s/daemonsets", "PodMonitor": "/apis/monitoring.coreos.com/v1/namespaces/%s/podmonitors",
	"ValidatingAdmissionPolicy":        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
	"ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
	"ServiceMonitor":                   "/apis/monitoring.coreos.com/v1/namespaces/%s/servicemonitors", "PrometheusRule": "/apis/monitoring.coreos.com/v1/namespaces/%s/prometheusrules",
}

// TestChart: everything that the chart makes is taken by the API server in a dry run that knows every field, plain and with all switched on.
func TestChart(t *testing.T) {
	s := kubetest.Get(t)
	namespace := s.Namespace(t)
	s.Must(t, "POST", "/api/v1/namespaces", kubetest.Object{"metadata": kubetest.Object{"name": "research"}}, nil)
	for kind, plural := range map[string]string{"ServiceMonitor": "servicemonitors", "PodMonitor": "podmonitors", "PrometheusRule": "prometheusrules"} { // as the operator of Prometheus brings them, less strict
		s.Must(t, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", kubetest.Object{
			"metadata": kubetest.Object{"name": plural + ".monitoring.coreos.com"}, "spec": kubetest.Object{
				"group": "monitoring.coreos.com", "scope": "Namespaced", "names": kubetest.Object{"kind": kind, "plural": plural},
				"versions": []kubetest.Object{{"name": "v1", "served": true, "storage": true, "schema": kubetest.Object{"openAPIV3Schema": kubetest.Object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
			}}, nil)
		harness.Eventually(t, plural+" are served", func() bool {
			code, _, err := s.Do(kubetest.Admin, "GET", fmt.Sprintf(places[kind], namespace), "", nil)
			return err == nil && code == http.StatusOK
		})
	}
	for name, args := range map[string][]string{"plain": nil, "all": {"-f", chart + "/examples/ha.yaml"}} {
		t.Run(name, func(t *testing.T) {
			kinds := map[string]int{}
			for _, o := range render(t, namespace, args...) {
				kind := fmt.Sprint(o["kind"])
				kinds[kind]++
				meta := o["metadata"].(map[string]any)
				in := namespace
				if own, ok := meta["namespace"].(string); ok {
					in = own
				}
				at, ok := places[kind]
				if !ok {
					t.Errorf("what is %s?", kind)
					continue
				}
				if strings.Contains(at, "%s") {
					at = fmt.Sprintf(at, in)
				}
				code, out, err := s.Do(kubetest.Admin, "POST", at+"?dryRun=All&fieldValidation=Strict", "", o)
				if err != nil || code != http.StatusCreated && code != http.StatusConflict {
					t.Errorf("%s %s: %d %s %v", kind, meta["name"], code, out, err)
				}
			}
			t.Log(kinds)
			if want := map[string]int{"plain": 1, "all": 4}[name]; kinds["NetworkPolicy"] != want || kinds["StatefulSet"] != 1 {
				t.Errorf("%v", kinds)
			}
			if name == "all" && (kinds["PodDisruptionBudget"] != 2 || kinds["PrometheusRule"] != 1 || kinds["ServiceMonitor"] != 1 || kinds["Deployment"] != 2 || kinds["DaemonSet"] != 1 || kinds["ValidatingAdmissionPolicyBinding"] != 1) {
				t.Errorf("%v", kinds)
			}
		})
	}
}

// TestChartRights: the chart gives the server what rbac.yaml does without the mirror, with which the other tests run, and no more.
func TestChartRights(t *testing.T) {
	kubetest.Get(t)
	rules := func(o kubetest.Object) (out []string) {
		list, _ := o["rules"].([]any)
		for _, r := range list {
			raw, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(raw), "fermi.io") {
				out = append(out, string(raw))
			}
		}
		slices.Sort(out)
		return out
	}
	raw, err := os.ReadFile("../../deploy/kubernetes/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{}
	for _, doc := range strings.Split(string(raw), "\n---\n") {
		var o kubetest.Object
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatal(err)
		}
		if o["rules"] != nil {
			want[fmt.Sprint(o["kind"])] = rules(o)
		}
	}
	for _, o := range render(t, "fermi") {
		if kind := fmt.Sprint(o["kind"]); o["rules"] != nil && !slices.Equal(rules(o), want[kind]) {
			t.Errorf("%s: %v, not %v", kind, rules(o), want[kind])
		}
	}
}

// TestChartAlerts: Prometheus' own tool takes the rules, and each alert fires when it should, and not before.
func TestChartAlerts(t *testing.T) {
	kubetest.Get(t)
	promtool, err := kubetest.Program("promtool")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := filepath.Abs(filepath.Join(chart, "files", "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	cases, err := os.ReadFile("testdata/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "alerts.yaml")
	if err := os.WriteFile(file, bytes.ReplaceAll(cases, []byte("RULES"), []byte(rules)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"check", "rules", rules}, {"test", "rules", file}} {
		if out, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// TestChartMetrics: rules and dashboards speak of metrics that there are.
func TestChartMetrics(t *testing.T) {
	known := map[string]bool{}
	name := regexp.MustCompile(`"(fermi_[a-z_]+)"`)
	err := filepath.WalkDir("../../internal", func(path string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		raw, err := os.ReadFile(path)
		for _, m := range name.FindAllStringSubmatch(string(raw), -1) {
			known[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	used := regexp.MustCompile(`fermi_[a-z_]+`)
	found := 0
	for _, file := range []string{"rules.yaml", "overview.json"} {
		raw, err := os.ReadFile(filepath.Join(chart, "files", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range used.FindAllString(string(raw), -1) {
			found++
			if !known[strings.TrimSuffix(m, "_bucket")] {
				t.Errorf("%s: there is no metric %s", file, m)
			}
		}
	}
	if found < 15 {
		t.Errorf("%d metrics are named", found)
	}
}
