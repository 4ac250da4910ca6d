package devenv

import (
	"slices"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func TestRules(t *testing.T) {
	e := &DevEnvironment{Meta: api.Meta{Name: "lab", Project: "lab"}}
	e.Default()
	if got := e.Validate(); len(got) > 0 {
		t.Errorf("an empty wish: %+v", got)
	}
	if e.Spec.Type != Custom || e.Spec.Resources.CPU != 1000 || e.Spec.Restart.MaxRestarts != 3 {
		t.Errorf("defaults: %+v", e.Spec)
	}
	for path, spoil := range map[string]func(*Spec){
		"spec.type":                         func(s *Spec) { s.Type = "toy" },
		"spec.resources.accelerators.count": func(s *Spec) { s.Resources.Accelerators.Count = 9 },
		"spec.resources.cpu":                func(s *Spec) { s.Resources.CPU = 129_000 },
		"spec.resources.memory":             func(s *Spec) { s.Resources.Memory = 2 << 40 },
		"spec.storage":                      func(s *Spec) { s.Storage = 3 << 40 },
		"spec.image":                        func(s *Spec) { s.Image = "../evil" },
		"spec.env[0].name":                  func(s *Spec) { s.Env = []api.EnvVar{{Name: "1 x", Value: "y"}} },
	} {
		bad := &DevEnvironment{Meta: e.Meta}
		spoil(&bad.Spec)
		bad.Default()
		got := bad.Validate()
		if !slices.ContainsFunc(got, func(f fault.Field) bool { return f.Path == path && f.Message.EN != "" && f.Message.ZH != "" }) {
			t.Errorf("%s is not refused: %+v", path, got)
		}
	}
}
