package devenv

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/mount"
)

func TestTemplate(t *testing.T) {
	x := &EnvironmentTemplate{Meta: api.Meta{Name: "trainer"}, Spec: TemplateSpec{Environment: Spec{
		Type: Training, Image: "team/train:v3", Storage: 100 << 30, Env: []api.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "1"}},
		Resources: api.Resources{CPU: 8000, Memory: 64 << 30, Accelerators: api.Accelerators{Type: "A100", Count: 2}},
		Begin:     Begin{Command: []string{"tensorboard"}}, Ways: Ways{Ports: []Port{{6006, "tensorboard"}}, VSCode: true},
	}}}
	if bad := x.Validate(); len(bad) > 0 {
		t.Fatalf("%+v", bad)
	}
	var s Spec
	if err := x.Into(&s); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(x.Spec.Environment, s); diff != "" {
		t.Errorf("who says nothing has all of it: %s", diff)
	}
	s = Spec{Env: []api.EnvVar{{Name: "B", Value: "2"}}, Resources: api.Resources{CPU: 2000, Accelerators: api.Accelerators{Count: 1}}, Ways: Ways{Ports: []Port{{8080, ""}}}}
	if err := x.Into(&s); err != nil {
		t.Fatal(err)
	}
	want := x.Spec.Environment
	want.Resources.CPU, want.Resources.Accelerators.Count, want.Ports = 2000, 1, []Port{{8080, ""}}
	want.Env = []api.EnvVar{{Name: "B", Value: "2"}, {Name: "A", Value: "1"}}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("what is said counts: %s", diff)
	}
	s = Spec{Begin: Begin{EntryPoint: true}}
	if err := x.Into(&s); err != nil || len(s.Command) > 0 || !s.EntryPoint {
		t.Errorf("%v, %+v", err, s.Begin)
	}
	if x.Spec.Environment.Resources.CPU != 8000 || len(x.Spec.Environment.Env) != 2 {
		t.Error("the template was changed")
	}
}

func TestTemplateRules(t *testing.T) {
	for path, s := range map[string]TemplateSpec{
		"spec.environment.from":                         {Environment: Spec{Begin: Begin{From: &mount.AssetRef{Name: "x"}}}},
		"spec.environment.stop":                         {Environment: Spec{Rest: Rest{Asked: Asked{Stop: true}}}},
		"spec.environment.type":                         {Environment: Spec{Type: "toy"}},
		"spec.environment.resources.accelerators.count": {Environment: Spec{Resources: api.Resources{Accelerators: api.Accelerators{Count: 65}}}},
		"spec.environment.ports[0].port":                {Environment: Spec{Ways: Ways{Ports: []Port{{Port: 70000}}}}},
		"spec.project":                                  {Project: "No Name"},
	} {
		bad := (&EnvironmentTemplate{Meta: api.Meta{Name: "x"}, Spec: s}).Validate()
		if len(bad) == 0 || bad[0].Path != path {
			t.Errorf("%s: %+v", path, bad)
		}
	}
}
