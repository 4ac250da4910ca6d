package where

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/where"
)

func english(en, _ string) string { return en }

func TestTask(t *testing.T) {
	for _, c := range []struct {
		args []string
		want *api.ZoneRules
		bad  bool
	}{
		{nil, nil, false},
		{[]string{"--zone", "a"}, &api.ZoneRules{Allow: []string{"a"}}, false},
		{[]string{"--prefer", "price=3,carbon=1"}, &api.ZoneRules{Prefer: &where.Weights{Price: 3, Carbon: 1}}, false},
		{[]string{"--prefer", "latency=2", "--stay"}, &api.ZoneRules{Prefer: &where.Weights{Latency: 2}, Stay: true}, false},
		{[]string{"--prefer", "price"}, nil, true},
		{[]string{"--prefer", "price=1,price=2"}, nil, true},
		{[]string{"--prefer", "speed=1"}, nil, true},
	} {
		var f Task
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.Add(set, english)
		err := set.Parse(c.args)
		var task api.TrainingTask
		f.Over(&task)
		if d := cmp.Diff(c.want, task.Spec.Zones); (err != nil) != c.bad || err == nil && d != "" {
			t.Errorf("%v: %v; %s", c.args, err, d)
		}
	}
}

func TestQueue(t *testing.T) {
	q := &api.Queue{Spec: api.QueueSpec{Prefer: &where.Weights{Price: 1}, Stay: true}}
	for _, c := range []struct {
		args []string
		want api.QueueSpec
	}{
		{nil, api.QueueSpec{Prefer: &where.Weights{Price: 1}, Stay: true}},
		{[]string{"--prefer", "carbon=1", "--stay=false"}, api.QueueSpec{Prefer: &where.Weights{Carbon: 1}}},
		{[]string{"--prefer", ""}, api.QueueSpec{}},
	} {
		var f Queue
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.Add(set, english)
		if err := set.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		f.Over(q, set.Changed)
		if d := cmp.Diff(c.want, q.Spec); d != "" {
			t.Errorf("%v: %s", c.args, d)
		}
	}
}
