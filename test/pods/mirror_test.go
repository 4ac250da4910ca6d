package pods

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"sigs.k8s.io/yaml"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/engine/kubeengine/kubetest"
	"github.com/fermi-cluster/fermi/test/harness"
)

// define makes the custom resources of the chart.
func define(t *testing.T, s *kubetest.Server) {
	t.Helper()
	files, err := filepath.Glob("../../deploy/chart/crds/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var o kubetest.Object
		if err := yaml.UnmarshalStrict(raw, &o); err != nil {
			t.Fatal(f, err)
		}
		s.Must(t, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", o, nil)
		plural := strings.TrimSuffix(filepath.Base(f), ".yaml")
		harness.Eventually(t, plural+" are served", func() bool {
			code, _, err := s.Do(kubetest.Admin, "GET", "/apis/fermi.io/v1/"+plural, "", nil)
			return err == nil && code == http.StatusOK
		})
	}
}

// mirrored is a world in which a member's `fermi mirror` runs.
type mirrored struct {
	*world
	member *member
}

func (w *mirrored) at(plural string) string {
	return "/apis/fermi.io/v1/namespaces/" + w.namespace + "/" + plural
}

// custom is what is seen of a custom object.
type custom struct {
	Metadata struct {
		Name        string
		Annotations map[string]string
	}
	Spec   map[string]any
	Status struct{ Phase, Reason, Message, Replicas, ID string }
}

func (w *mirrored) custom(plural, name string) (o custom, found bool) {
	w.t.Helper()
	code, out, err := w.s.Do(kubetest.Admin, "GET", w.at(plural)+"/"+name, "", nil)
	if err != nil || code != http.StatusOK && code != http.StatusNotFound {
		w.t.Fatalf("%d %s %v", code, out, err)
	}
	if code == http.StatusOK {
		if err := json.Unmarshal(out, &o); err != nil {
			w.t.Fatal(err)
		}
	}
	return o, code == http.StatusOK
}

func (w *mirrored) apply(plural, manifest string) {
	w.t.Helper()
	var o kubetest.Object
	if err := yaml.Unmarshal([]byte(manifest), &o); err != nil {
		w.t.Fatal(err)
	}
	w.s.Must(w.t, "POST", w.at(plural), o, nil)
}

func upMirrored(t *testing.T) *mirrored {
	t.Helper()
	w := up(t)
	define(t, w.s)
	w.onlyPods()
	m := &mirrored{world: w, member: w.member("ann", "lab")}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(m.member.secret), 0o600); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd := exec.Command(w.bin, "mirror", "--kubeconfig", w.file, "--map", w.namespace+"=lab", "--server", "http://"+w.Addr, "--token-file", token)
	cmd.Env = append(os.Environ(), "FERMI_TOKEN=")
	cmd.Stderr = &said
	cmd.Stdout = io.Discard
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(said.String())
		}
	})
	return m
}

// TestMirror: custom objects and Fermi's are alike, whoever made, changed or deleted them; what Fermi refuses is said in the status.
func TestMirror(t *testing.T) {
	w := upMirrored(t)
	w.s.Node(t, "npu-"+w.namespace, "huawei.com/Ascend910", 8, nil)

	// From the cluster to Fermi: the seed's TrainingJob with a sort of accelerator.
	w.apply("trainingjobs", `
apiVersion: fermi.io/v1
kind: TrainingJob
metadata: {name: job}
spec:
  acceleratorType: huawei-ascend
  roles:
    - replicas: 2
      command: [sleep, "3600"]
      resources: {cpu: 1, memory: 256Mi, accelerators: {count: 4}}
`)
	harness.Eventually(t, "the job runs", func() bool {
		o, _ := w.custom("trainingjobs", "job")
		if o.Status.Phase == "Refused" {
			t.Fatalf("%+v", o.Status)
		}
		return o.Status.Phase == "Running" && o.Status.Replicas == "2/2" && o.Status.ID != ""
	})
	task, err := client.Get[*api.TrainingTask](t.Context(), w.cl, "lab", "job")
	if err != nil || task.Spec.Roles[0].Resources.Accelerators.Type != "Ascend 910" {
		t.Fatalf("%+v %v", task, err)
	}
	for _, p := range w.pods() {
		if n := p.Spec.Containers[0].Resources.Limits["huawei.com/Ascend910"]; n.Value() != 4 || p.Spec.NodeName != "npu-"+w.namespace {
			t.Errorf("%s on %s has %d", p.Name, p.Spec.NodeName, n.Value())
		}
	}
	// As kubectl shows it.
	stream, err := w.s.Stream(t.Context(), kubetest.Admin, w.at("trainingjobs"), "application/json;as=Table;v=v1;g=meta.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(stream)
	_ = stream.Close()
	var table struct {
		ColumnDefinitions []struct{ Name string }
		Rows              []struct{ Cells []any }
	}
	if err := errors.Join(err, json.Unmarshal(raw, &table)); err != nil || len(table.Rows) != 1 {
		t.Fatalf("%s %v", raw, err)
	}
	var columns []string
	for _, c := range table.ColumnDefinitions {
		columns = append(columns, c.Name)
	}
	if cells := table.Rows[0].Cells; !slices.Equal(columns[:5], []string{"Name", "Phase", "Replicas", "Restarts", "Age"}) || cells[1] != "Running" || cells[2] != "2/2" || cells[3] != float64(0) {
		t.Errorf("%v %v", columns, cells)
	}

	// From Fermi to the cluster: what the member submits is a TrainingTask there; deleted here, it goes there.
	w.member.must("train", "run", "-d", "--name", "ours", "--no-code", "--zone", "k1", "--", "sleep", "3600")
	harness.Eventually(t, "ours is there", func() bool {
		o, ok := w.custom("trainingtasks", "ours")
		return ok && o.Status.Phase == "Running" && o.Spec["roles"] != nil
	})
	w.member.must("delete", "task", "ours")
	harness.Eventually(t, "ours is gone there", func() bool {
		_, ok := w.custom("trainingtasks", "ours")
		return !ok
	})

	// Unknown fields and taken names: refused with the field, nothing is made; mended, it is taken.
	w.apply("trainingtasks", "{apiVersion: fermi.io/v1, kind: TrainingTask, metadata: {name: odd}, spec: {rols: [{command: [sleep, '3600']}]}}")
	harness.Eventually(t, "what is odd is refused", func() bool {
		o, _ := w.custom("trainingtasks", "odd")
		return o.Status.Phase == "Refused" && strings.Contains(o.Status.Message, "spec.rols")
	})
	w.s.Must(t, "PATCH", w.at("trainingtasks")+"/odd", kubetest.Object{"spec": kubetest.Object{"rols": nil, "roles": []kubetest.Object{{"command": []string{"sleep", "3600"}}}}}, nil)
	harness.Eventually(t, "what was mended runs", func() bool {
		o, _ := w.custom("trainingtasks", "odd")
		return o.Status.Phase == "Running"
	})

	// The other kinds.
	w.apply("devenvironments", "{apiVersion: fermi.io/v1, kind: DevEnvironment, metadata: {name: box}, spec: {storage: 1Gi}}")
	w.apply("inferenceservices", `{apiVersion: fermi.io/v1, kind: InferenceService, metadata: {name: echo}, spec: {replicas: 1, template: {command: [sh, -c, "exec python3 -m http.server $PORT"], health: {path: /}}}}`)
	harness.Eventually(t, "an environment and a service run", func() bool {
		e, _ := w.custom("devenvironments", "box")
		s, _ := w.custom("inferenceservices", "echo")
		if e.Status.Phase == "Refused" || s.Status.Phase == "Refused" {
			t.Fatalf("%+v %+v", e.Status, s.Status)
		}
		return e.Status.Phase == "Running" && s.Status.Phase == "Running" && s.Status.Replicas == "1/1"
	})
	w.s.Must(t, "PATCH", w.at("inferenceservices")+"/echo", kubetest.Object{"spec": kubetest.Object{"replicas": 2}}, nil)
	harness.Eventually(t, "the service has grown", func() bool {
		s, _ := w.custom("inferenceservices", "echo")
		return s.Status.Replicas == "2/2"
	})

	// Deleted in the cluster, they end in Fermi, and are gone when they have.
	for plural, name := range map[string]string{"trainingjobs": "job", "trainingtasks": "odd", "devenvironments": "box", "inferenceservices": "echo"} {
		w.s.Must(t, "DELETE", w.at(plural)+"/"+name, nil, nil)
	}
	w.noPods()
	for plural, name := range map[string]string{"trainingjobs": "job", "trainingtasks": "odd", "devenvironments": "box", "inferenceservices": "echo"} {
		harness.Eventually(t, name+" is gone", func() bool {
			_, ok := w.custom(plural, name)
			return !ok
		})
	}
}
