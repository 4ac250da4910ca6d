package service

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// TestStand: zones as they are said, with what is not said as it was; what is none is refused.
func TestStand(t *testing.T) {
	old := []serving.ServiceZone{{Zone: "a", Replicas: 3, Weight: 7, MaxReplicas: 9, Serves: []string{"north"}}, {Zone: "b", Replicas: 1, Role: serving.ZoneBackup}}
	for name, c := range map[string]struct {
		primary, backups, serves []string
		want                     []serving.ServiceZone
		refused                  bool
	}{
		"all of it": {
			[]string{"a=4:80", "c"}, []string{"b=2"}, []string{"c=east,south"}, []serving.ServiceZone{
				{Zone: "a", Replicas: 4, Weight: 80, MaxReplicas: 9, Role: serving.ZonePrimary, Serves: []string{"north"}}, {Zone: "c", Role: serving.ZonePrimary, Serves: []string{"east", "south"}}, {Zone: "b", Replicas: 2, Role: serving.ZoneBackup},
			}, false,
		},
		"a backup takes over": {[]string{"b"}, nil, nil, []serving.ServiceZone{{Zone: "b", Replicas: 1, Role: serving.ZonePrimary}}, false},
		"regions alone":       {nil, nil, []string{"a=", "b=west"}, []serving.ServiceZone{{Zone: "a", Replicas: 3, Weight: 7, MaxReplicas: 9}, {Zone: "b", Replicas: 1, Role: serving.ZoneBackup, Serves: []string{"west"}}}, false},
		"no number":           {[]string{"a=many"}, nil, nil, nil, true},
		"no weight":           {[]string{"a=1:0"}, nil, nil, nil, true},
		"none of them":        {[]string{"a=0"}, nil, nil, nil, true},
		"another zone":        {[]string{"a"}, nil, []string{"z=west"}, nil, true},
	} {
		got, err := stand(old, c.primary, c.backups, c.serves)
		if (fault.ReasonOf(err) == "BadZone") != c.refused || err != nil && !c.refused {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(c.want, got); d != "" && !c.refused {
			t.Errorf("%s: %s", name, d)
		}
	}
}
