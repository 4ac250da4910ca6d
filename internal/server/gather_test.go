package server

import (
	"slices"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// TestAllThatIsWrongAtOnce sends a task with faults of every sort: a value that is out of bounds, and
// names of a queue, a secret, another task and an archive that are not there.
func TestAllThatIsWrongAtOnce(t *testing.T) {
	w := newWorld(t)
	spoil := func(t *api.TrainingTask) {
		t.Spec.Queue = "nowhere"
		t.Spec.Code = &api.Code{Archive: "sha256:" + strings.Repeat("0", 64)}
		t.Spec.Roles[0].Env = []api.EnvVar{
			{Name: "A", ValueFrom: &api.SecretRef{Secret: "no-such", Key: "k"}},
			{Name: "B", ValueFrom: &api.SecretRef{Secret: "neither", Key: "k"}},
		}
		t.Spec.Roles[0].SecretFiles = []api.SecretFile{{Name: "f", Secret: "no-such", Key: "k"}}
	}
	named := []string{
		"spec.code.archive", "spec.queue", "spec.roles[0].env[0].valueFrom.secret", "spec.roles[0].env[1].valueFrom.secret",
		"spec.roles[0].secretFiles[0].secret",
	}
	paths := func(a answerOf) (out []string) {
		for _, f := range a.Fields {
			out = append(out, f.Path)
		}
		slices.Sort(out)
		return out
	}
	a := w.do("POST", "/api/v1/training-tasks", w.admin, manifest("a", spoil))
	if got := paths(a); a.status != 400 || !slices.Equal(got, named) {
		t.Errorf("%d %v, want %v: %s", a.status, got, named, a.raw)
	}
	a = w.do("POST", "/api/v1/training-tasks", w.admin, manifest("a", spoil, func(t *api.TrainingTask) { t.Spec.Roles[0].Ranks = 99 }))
	want := append(slices.Clone(named), "spec.roles[0].ranks")
	slices.Sort(want)
	if got := paths(a); a.status != 400 || !slices.Equal(got, want) {
		t.Errorf("%d %v, want %v: %s", a.status, got, want, a.raw)
	}
	// One fault keeps its own words.
	a = w.do("POST", "/api/v1/training-tasks", w.admin, manifest("a", func(t *api.TrainingTask) { t.Spec.Queue = "nowhere" }))
	if got := paths(a); !slices.Equal(got, []string{"spec.queue"}) {
		t.Errorf("%v: %s", got, a.raw)
	}
}

// TestAllThatIsWrongWithABadValue has a value that can't be read beside what can't be used: both are told.
func TestAllThatIsWrongWithABadValue(t *testing.T) {
	w := newWorld(t)
	lin := w.user("lin", api.RoleMember)
	w.put(&api.Project{Meta: api.Meta{Name: "lab"}, Spec: api.ProjectSpec{Members: []string{"lin"}}})
	body := func(project string) string {
		return `{"metadata":{"project":"` + project + `"},"spec":{"queue":"nowhere","nonsense":1,"roles":[{"command":["a"],"resources":{"memory":"lots"}}]}}`
	}
	for project, want := range map[string][]string{
		"lab":     {"metadata.name", "spec.nonsense", "spec.queue", "spec.roles[0].resources.memory"},
		"default": {"metadata.name", "spec.nonsense", "spec.roles[0].resources.memory"}, // not hers: nothing is looked up there
	} {
		a := w.do("POST", "/api/v1/training-tasks", lin, body(project))
		var got []string
		for _, f := range a.Fields {
			got = append(got, f.Path)
		}
		slices.Sort(got)
		if a.status != 400 || !slices.Equal(got, want) {
			t.Errorf("in %s: %d %v, want %v: %s", project, a.status, got, want, a.raw)
		}
	}
}
