package workbench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/client"
)

// TestTemplates: an operator names what environments have, a project its own; who makes one says the rest, and others see no project's.
func TestTemplates(t *testing.T) {
	w := newWorld(t, "--env-most-cpu", "4")
	file := func(name, spec string) string {
		at := filepath.Join(t.TempDir(), name+".yaml")
		if err := os.WriteFile(at, []byte("kind: EnvironmentTemplate\nmetadata: {name: "+name+"}\nspec:\n"+spec), 0o644); err != nil {
			t.Fatal(err)
		}
		return at
	}
	const small = "  environment:\n    type: training\n    resources: {cpu: 500m, memory: 256Mi}\n    env: [{name: A, value: one}, {name: B, value: one}]\n    ports: [{port: 6006, name: board}]\n"
	everybody, labs := file("small", small), file("labs", "  project: lab\n"+small)
	if out, code := w.fermi("ann", "", "apply", "-f", everybody); code == 0 {
		t.Errorf("a member writes one for everybody: %s", out)
	}
	w.must("ann", "apply", "-f", labs)
	w.secrets["admin"] = strings.TrimSpace(read(t, filepath.Join(w.Dir, "admin.token")))
	w.must("admin", "apply", "-f", everybody)
	if out := w.must("ann", "env", "templates"); !strings.Contains(out, "small") || !strings.Contains(out, "labs") {
		t.Error(out)
	}
	if out := w.must("mal", "env", "templates"); !strings.Contains(out, "small") || strings.Contains(out, "labs") {
		t.Errorf("of another project: %s", out)
	}
	if out, code := w.fermi("mal", "", "env", "create", "x", "--template", "labs"); code == 0 || !strings.Contains(out, "fermi env templates") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	w.must("ann", "env", "create", "made", "--template", "labs", "--env", "B=two", "--memory", "300Mi")
	if out := w.must("ann", "env", "shell", "made", "--", "sh", "-c", "echo $A $B"); out != "one two\n" {
		t.Error(out)
	}
	e, err := client.Get[*devenv.DevEnvironment](t.Context(), w.people["ann"], "lab", "made")
	if err != nil || e.Spec.Type != devenv.Training || e.Spec.Resources.CPU != 500 || e.Spec.Resources.Memory != 300<<20 || len(e.Spec.Ports) != 1 {
		t.Errorf("%+v, %v", e.Spec, err)
	}
	for want, spec := range map[string]string{
		"spec.environment.resources.cpu": "  environment: {resources: {cpu: 8}}\n", "spec.environment.from": "  environment: {from: {name: x}}\n",
		"spec.environment.ports": "  environment: {ports: [{port: 0}]}\n", "spec.project": "  project: nowhere\n  environment: {}\n",
	} {
		if out, code := w.fermi("admin", "", "apply", "-f", file("bad", spec)); code == 0 || !strings.Contains(out, want) {
			t.Errorf("%s: exit code %d\n%s", want, code, out)
		}
	}
}

func read(t *testing.T, at string) string {
	t.Helper()
	data, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
