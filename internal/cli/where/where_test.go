package where

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/spot"
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
		{[]string{"--spot", "never"}, &api.ZoneRules{Spot: spot.Never}, false},
		{[]string{"--prefer", "price=3,carbon=1"}, &api.ZoneRules{Prefer: &where.Weights{Price: 3, Carbon: 1}}, false},
		{[]string{"--prefer", "latency=2", "--stay"}, &api.ZoneRules{Prefer: &where.Weights{Latency: 2}, Stay: true}, false},
		{[]string{"--spot", "never"}, &api.ZoneRules{Spot: spot.Never}, false},
		{[]string{"--split", "a=1,b=4"}, &api.ZoneRules{Split: where.Split{"a": where.Exactly(1), "b": where.Exactly(4)}}, false},
		{[]string{"--split", "b,a"}, &api.ZoneRules{Split: where.Split{"a": where.Exactly(2), "b": where.Exactly(3)}}, false},
		{[]string{"--split", "a, b,c"}, &api.ZoneRules{Split: where.Split{"a": where.Exactly(2), "b": where.Exactly(2), "c": where.Exactly(1)}}, false},
		{[]string{"--split", "a=1..3,b=2"}, &api.ZoneRules{Split: where.Split{"a": {Least: 1, Most: 3}, "b": where.Exactly(2)}}, false},
		{[]string{"--split", "a=2..,b=..2"}, &api.ZoneRules{Split: where.Split{"a": {Least: 2, Most: where.MostReplicas}, "b": {Most: 2}}}, false},
		{[]string{"--balance", "--zone", "a"}, &api.ZoneRules{Allow: []string{"a"}, Balance: true}, false},
		{[]string{"--split", "a=3..1"}, nil, true},
		{[]string{"--split", "a=.."}, nil, true},
		{[]string{"--split", "a=1,b"}, nil, true},
		{[]string{"--split", "a,a"}, nil, true},
		{[]string{"--split", "a=0"}, nil, true},
		{[]string{"--split", "a=x"}, nil, true},
		{[]string{"--split", ""}, nil, true},
		{[]string{"--prefer", "price"}, nil, true},
		{[]string{"--prefer", "price=1,price=2"}, nil, true},
		{[]string{"--prefer", "speed=1"}, nil, true},
	} {
		var f Task
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.Add(set, english)
		err := set.Parse(c.args)
		task := api.TrainingTask{Spec: api.TrainingTaskSpec{Roles: []api.Role{{Replicas: 4}, {Replicas: 1}}}}
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
