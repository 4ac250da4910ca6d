package image

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// What a role says goes before its image; arguments alone go in the place of the image's.
func TestOwn(t *testing.T) {
	for _, c := range []struct {
		role  api.Role
		image string
		args  []string
		own   bool
	}{
		{api.Role{Command: []string{"a"}, Args: []string{"b"}}, "x", nil, false},
		{api.Role{Args: []string{"b", "c"}}, "x", []string{"b", "c"}, true},
		{api.Role{}, "x", []string{}, true},
		{api.Role{Command: []string{"fermi"}}, "", nil, false},
		{api.Role{Args: []string{"b"}}, "", nil, false},
	} {
		got, is := OwnArgs(Argv(&c.role, c.image))
		if is != c.own || !cmp.Equal(got, c.args) {
			t.Errorf("%+v in %q: %v %q", c.role, c.image, is, got)
		}
	}
}
