package placing

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/spot"
)

// TestInto: what is given goes over what a task has; the rest stays.
func TestInto(t *testing.T) {
	had := func() *api.ZoneRules {
		return &api.ZoneRules{Allow: []string{"a"}, Deny: []string{"b"}, Spot: spot.Only}
	}
	for _, c := range []struct {
		args      []string
		had, want *api.ZoneRules
	}{
		{nil, nil, nil},
		{nil, had(), had()},
		{[]string{"--spot", "never"}, nil, &api.ZoneRules{Spot: spot.Never}},
		{[]string{"--zone", "x", "--zone", "y"}, had(), &api.ZoneRules{Allow: []string{"x", "y"}, Deny: []string{"b"}, Spot: spot.Only}},
		{[]string{"--spot", "prefer"}, had(), &api.ZoneRules{Allow: []string{"a"}, Deny: []string{"b"}, Spot: spot.Prefer}},
	} {
		var p Flags
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		p.Bind(f, func(en, _ string) string { return en })
		if err := f.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		task := &api.TrainingTask{Spec: api.TrainingTaskSpec{Zones: c.had}}
		p.Into(task)
		if d := cmp.Diff(c.want, task.Spec.Zones); d != "" {
			t.Errorf("%v: %s", c.args, d)
		}
	}
}
