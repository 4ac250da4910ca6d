package image

import (
	"testing"

	"github.com/google/go-containerregistry/pkg/name"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// Whole words of a name count, and Docker's own registry has two names.
func TestAllowed(t *testing.T) {
	list := []string{"registry.example.org/team", "localhost:5000", name.DefaultRegistry + "/library"}
	for reference, want := range map[string]bool{
		"registry.example.org/team/x:1": true, "registry.example.org/team:1": true, "registry.example.org/teamwork/x": false, "registry.example.org/x": false,
		"localhost:5000/a/b": true, "localhost:5001/a": false, "python:3.12": true, "someone/python": false, "registry.example.org/team/../x": false, "": false,
		"registry.example.org.evil.example/team/x": false,
	} {
		if Allowed(reference, list) != want {
			t.Errorf("%q: %v", reference, !want)
		}
	}
	if !Allowed("anything/at:all", nil) {
		t.Error("without a list")
	}
	for prefix, want := range map[string]bool{"registry.example.org": true, "localhost:5000/team": true, "": false, "team": false, "https://x.example": false, "x.example/Upper": false} {
		if IsPrefix(prefix) != want {
			t.Errorf("prefix %q: %v", prefix, !want)
		}
	}
}

func TestPinned(t *testing.T) {
	digest := "sha256:1111111111111111111111111111111111111111111111111111111111111111"
	i := &Image{Spec: ImageSpec{Reference: "registry.example.org/team/x:1"}}
	if got := i.Pinned(); got != i.Spec.Reference {
		t.Error(got)
	}
	i.Status.Verified = &ImageVerified{Found: ImageFound{Reference: i.Spec.Reference, Digest: digest}}
	if got := i.Pinned(); got != "registry.example.org/team/x@"+digest {
		t.Error(got)
	}
	i.Spec.Reference = "registry.example.org/team/x:2" // another was checked
	if got := i.Pinned(); got != i.Spec.Reference {
		t.Error(got)
	}
}

func TestRules(t *testing.T) {
	secret := []api.CredentialRef{{Secret: "hub"}}
	code := &api.Code{Archive: "sha256:1111111111111111111111111111111111111111111111111111111111111111"}
	for name, c := range map[string]struct {
		o    interface{ paths() []string }
		want string
	}{
		"a custom entry":            {entry{ImageSpec{Reference: "xx:1", Category: Custom, Project: "lab", Credentials: secret}}, ""},
		"one of no project":         {entry{ImageSpec{Reference: "xx:1", Category: Custom}}, "spec.project"},
		"an official one of one":    {entry{ImageSpec{Reference: "xx:1", Category: Official, Project: "lab"}}, "spec.project"},
		"an unsafe reference":       {entry{ImageSpec{Reference: "https://x", Category: Official}}, "spec.reference"},
		"the host":                  {entry{ImageSpec{Reference: "host", Category: Official}}, "spec.reference"},
		"no reference":              {entry{ImageSpec{Category: Official}}, "spec.reference"},
		"a look":                    {job{ImageJobSpec{Do: Inspect, Image: "xx:1"}}, ""},
		"a build":                   {job{ImageJobSpec{Do: Build, Image: "xx:1", Code: code, Build: &ImageRecipe{Args: map[string]string{"A": "1"}}}}, ""},
		"a build of nothing":        {job{ImageJobSpec{Do: Build, Image: "xx:1"}}, "spec.code"},
		"a build to a digest":       {job{ImageJobSpec{Do: Build, Image: "xx@sha256:1111111111111111111111111111111111111111111111111111111111111111", Code: code}}, "spec.image"},
		"a file elsewhere":          {job{ImageJobSpec{Do: Build, Image: "xx:1", Code: code, Build: &ImageRecipe{File: "../Dockerfile"}}}, "spec.build.file"},
		"a file that is a flag":     {job{ImageJobSpec{Do: Build, Image: "xx:1", Code: code, Build: &ImageRecipe{File: "-f"}}}, "spec.build.file"},
		"an argument with a dash":   {job{ImageJobSpec{Do: Build, Image: "xx:1", Code: code, Build: &ImageRecipe{Args: map[string]string{"--x": "1"}}}}, "spec.build.args.--x"},
		"a look with a recipe":      {job{ImageJobSpec{Do: Inspect, Image: "xx:1", Build: &ImageRecipe{}}}, "spec.build"},
		"a save of nothing":         {job{ImageJobSpec{Do: Save, Image: "xx:1"}}, "spec.environment"},
		"a node for who builds":     {job{ImageJobSpec{Do: Inspect, Image: "xx:1", ImagePlace: ImagePlace{Node: "n1"}}}, "spec.node"},
		"something else altogether": {job{ImageJobSpec{Do: "dance", Image: "xx:1"}}, "spec.do"},
	} {
		got := c.o.paths()
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) == 0 || got[0] != c.want) {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
}

type (
	entry struct{ spec ImageSpec }
	job   struct{ spec ImageJobSpec }
)

func (e entry) paths() (out []string) {
	i := &Image{Meta: api.Meta{Name: "x"}, Spec: e.spec}
	i.Default()
	for _, f := range i.Validate() {
		out = append(out, f.Path)
	}
	return out
}

func (e job) paths() (out []string) {
	j := &ImageJob{Meta: api.Meta{Name: "x", Project: "lab"}, Spec: e.spec}
	j.Default()
	for _, f := range j.Validate() {
		out = append(out, f.Path)
	}
	return out
}
