package service

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// TestScaleTo: who has no say in the number of replicas is told so.
func TestScaleTo(t *testing.T) {
	for reason, s := range map[string]*serving.ServiceSpec{
		"":              {Replicas: 1},
		"ScaledByZones": {Replicas: 1, Zones: []serving.ServiceZone{{Zone: "a", Replicas: 1}}},
		"ScaledByLoad":  {Replicas: 1, Autoscale: &serving.ServiceAutoscale{MaxReplicas: 5}},
	} {
		if err := scaleTo(s, 3); fault.ReasonOf(err) != reason || (s.Replicas == 3) != (reason == "") {
			t.Errorf("%s: %v, %d replicas", reason, err, s.Replicas)
		}
	}
}

// TestShareKeepsWhatIsNotSaid: a rule does not end a shadow, a shadow does not end rules, and both end when somebody says so.
func TestShareKeepsWhatIsNotSaid(t *testing.T) {
	ten, none := 10, 0
	var s serving.ServiceSpec
	for i, step := range []struct {
		rules       []string
		shadow      *int
		plain       bool
		want, wants int // rules, percent of copies
	}{
		{[]string{"user:ann:canary"}, &ten, false, 1, 10},
		{[]string{"user:ann:stable", "percent:5:canary"}, nil, false, 2, 10},
		{nil, &none, false, 2, 0},
		{nil, &ten, false, 2, 10},
		{nil, nil, true, 0, 10},
	} {
		if err := share(&s, step.rules, step.shadow, step.plain); err != nil {
			t.Fatal(err)
		}
		copies := 0
		if s.Traffic.Shadow != nil {
			copies = s.Traffic.Shadow.Percent
		}
		if len(s.Traffic.Rules) != step.want || copies != step.wants {
			t.Errorf("step %d: %d rules, %d %%", i, len(s.Traffic.Rules), copies)
		}
	}
	if err := share(&s, []string{"moon:full:canary"}, nil, false); err == nil {
		t.Error("a rule that is none is taken")
	}
}

// TestScalesKeepsWhatIsNotSaid: one flag changes one thing, and a metric alone is no question.
func TestScalesKeepsWhatIsNotSaid(t *testing.T) {
	var s serving.ServiceSpec
	for _, step := range []struct {
		flag    string
		said    serving.ServiceAutoscale
		metrics []string
		want    serving.ServiceAutoscale
	}{
		{flag: "max", said: serving.ServiceAutoscale{MaxReplicas: 8}, want: serving.ServiceAutoscale{MaxReplicas: 8}},
		{flag: "metric", metrics: []string{"qps=5"}, want: serving.ServiceAutoscale{MaxReplicas: 8, Metrics: []serving.ScaleMetric{{Type: "qps", Target: 5}}}},
		{flag: "min", said: serving.ServiceAutoscale{MinReplicas: 2}, want: serving.ServiceAutoscale{MinReplicas: 2, MaxReplicas: 8, Metrics: []serving.ScaleMetric{{Type: "qps", Target: 5}}}},
		{flag: "metric", metrics: []string{"cpu=70"}, want: serving.ServiceAutoscale{MinReplicas: 2, MaxReplicas: 8, Metrics: []serving.ScaleMetric{{Type: "cpu", Target: 70}}}},
	} {
		if err := scales(&s, func(flag string) bool { return flag == step.flag }, step.said, step.metrics); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, *s.Autoscale); diff != "" {
			t.Errorf("--%s: %s", step.flag, diff)
		}
	}
	if err := scales(&s, func(string) bool { return true }, serving.ServiceAutoscale{}, []string{"cpu"}); fault.ReasonOf(err) != "BadMetric" {
		t.Errorf("a metric without a target: %v", err)
	}
}
