package image

import (
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// TestFieldsOf: the image of a task and that of each role, to be read and written.
func TestFieldsOf(t *testing.T) {
	s := &api.TrainingTaskSpec{Image: "all", Roles: []api.Role{{Image: "first"}, {}}}
	want := map[string]string{"spec.image": "all", "spec.roles[0].image": "first", "spec.roles[1].image": ""}
	fields := FieldsOf(s)
	for _, f := range fields {
		if text, ok := want[f.Path]; !ok || *f.Image != text {
			t.Errorf("%s names %q", f.Path, *f.Image)
		}
		*f.Image = f.Path
	}
	if len(fields) != len(want) || s.Image != "spec.image" || s.Roles[1].Image != "spec.roles[1].image" {
		t.Errorf("%d fields, %+v", len(fields), s)
	}
}
