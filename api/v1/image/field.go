package image

import (
	"fmt"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// Field is where work names an image.
type Field struct {
	Path  string
	Image *string
}

// FieldsOf are those of a task's spec, or of a spec that has one: its own and that of each role.
func FieldsOf(s *api.TrainingTaskSpec) []Field {
	out := []Field{{"spec.image", &s.Image}}
	for i := range s.Roles {
		out = append(out, Field{fmt.Sprintf("spec.roles[%d].image", i), &s.Roles[i].Image})
	}
	return out
}
