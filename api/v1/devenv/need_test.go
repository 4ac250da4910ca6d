package devenv

import (
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/quota"
)

func TestOver(t *testing.T) {
	env := func(devices int, stop bool, storage api.Bytes) *DevEnvironment {
		e := &DevEnvironment{}
		e.Spec.Resources.Accelerators.Count, e.Spec.Stop, e.Spec.Storage = devices, stop, storage
		return e
	}
	others := []*DevEnvironment{env(2, false, 0), env(4, true, 100<<30)}
	for name, c := range map[string]struct {
		q    quota.Environments
		e    *DevEnvironment
		over string
	}{
		"no bound":                       {quota.Environments{}, env(8, false, 1<<50), ""},
		"room for one":                   {quota.Environments{Running: 2, Devices: 3, Storage: 200 << 30}, env(1, false, 50<<30), ""},
		"one too many":                   {quota.Environments{Running: 1}, env(0, false, 0), "running"},
		"stopped ones do not count":      {quota.Environments{Running: 1}, env(0, true, 0), ""},
		"devices":                        {quota.Environments{Devices: 3}, env(2, false, 0), "devices"},
		"no devices are always had":      {quota.Environments{Devices: 1}, env(0, false, 0), ""},
		"homes of stopped ones do count": {quota.Environments{Storage: 199 << 30}, env(0, true, 0), "storage"},
		"without a bound":                {quota.Environments{Running: -1, Devices: -1, Storage: -1}, env(8, false, 1<<50), ""},
	} {
		if got := Over(c.q, others, Needs(c.e)); got.What != c.over {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if q := (&quota.Environments{Devices: 4}).Or(quota.Environments{Running: 8, Devices: 16}); q.Running != 8 || q.Devices != 4 {
		t.Errorf("%+v", q)
	}
}
