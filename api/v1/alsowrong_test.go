package v1

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/fermi-cluster/fermi/internal/fault"
)

func TestAlsoWrong(t *testing.T) {
	for _, c := range []struct {
		name, manifest string
		want           []string
	}{
		{"a bad amount and no name", `spec: {roles: [{command: [a], resources: {memory: lots}}]}`, []string{"metadata.name"}},
		{"an unknown field and a number out of range", `{metadata: {name: a}, spec: {nonsense: 1, roles: [{command: [a], ranks: 99}]}}`, []string{"spec.roles[0].ranks"}},
		{"a bad item takes its list along", `{metadata: {name: a}, spec: {priority: 99999, roles: [{command: [[1]]}]}}`, []string{"spec.priority"}},
		{"what is left out only because it is refused is no fault of its own", `{metadata: {name: a}, spec: {roles: 7}}`, nil},
		{"a key that is no word", `{metadata: {name: a, labels: {"a b": 1}}, spec: {priority: -1, roles: [{command: [a]}]}}`, []string{"spec.priority"}},
		{"no object", `[1]`, nil},
		{"no YAML", `a: [`, nil},
	} {
		_, err := Decode(KindTrainingTask, []byte(c.manifest))
		if err == nil {
			t.Fatalf("%s: it is not refused", c.name)
		}
		_, also := AlsoWrong(KindTrainingTask, []byte(c.manifest), fault.From(err).Fields)
		var got []string
		for _, f := range also {
			got = append(got, f.Path)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestAlsoWrongOfAnything: whatever the paths are, it ends, and takes nothing for a fault that is refused already.
func TestAlsoWrongOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		paths := rapid.SliceOf(rapid.OneOf(
			rapid.SampledFrom([]string{"", ".", "[", "[0", "[\"", `["a`, "spec", "spec.roles[0]", "spec.roles[9].x", "metadata.name", "spec[0]"}), rapid.String())).Draw(t, "paths")
		var refused []fault.Field
		for _, p := range paths {
			refused = append(refused, fault.Field{Path: p})
		}
		_, also := AlsoWrong(KindTrainingTask, []byte(`{metadata: {}, spec: {roles: [{replicas: 99999}]}}`), refused)
		for _, f := range also {
			if slices.Contains(paths, f.Path) {
				t.Fatalf("%q is told again", f.Path)
			}
		}
	})
}
