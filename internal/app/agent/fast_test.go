package agent

import (
	"net/netip"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
)

// TestNameFast: work with cards over several machines is told by which ports, those of the network that its zone names; not where its author said so,
// where the way is encrypted, or where it stays on one machine.
func TestNameFast(t *testing.T) {
	ports := func(n netip.Prefix) []string {
		if n.IsValid() {
			return []string{"mlx5_1:1"}
		}
		return []string{"mlx5_0:1", "mlx5_1:1"}
	}
	over := func(change func(*engine.Replica)) engine.Replica {
		r := engine.Replica{Devices: []api.Device{{Vendor: "nvidia"}}}
		r.HostNetwork = true
		change(&r)
		return r
	}
	for name, c := range map[string]struct {
		r    engine.Replica
		want string
	}{
		"all":          {over(func(*engine.Replica) {}), "=mlx5_0:1,mlx5_1:1"},
		"of a network": {over(func(r *engine.Replica) { r.Way = &engine.Way{Network: "10.77.0.0/24"} }), "=mlx5_1:1"},
		"its author's": {over(func(r *engine.Replica) { r.Env = []api.EnvVar{{Name: variableRDMA, Value: "mlx5_9"}} }), "mlx5_9"},
		"encrypted":    {over(func(r *engine.Replica) { r.Way = &engine.Way{Sealed: []string{"b1"}} }), ""},
		"one machine":  {over(func(r *engine.Replica) { r.HostNetwork = false }), ""},
		"no cards":     {over(func(r *engine.Replica) { r.Devices = nil }), ""},
		"other cards":  {over(func(r *engine.Replica) { r.Devices[0].Vendor = "huawei" }), ""},
	} {
		r := c.r
		nameFast(&r, ports)
		got := ""
		for _, v := range r.Env {
			if v.Name == variableRDMA {
				got = v.Value
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
	r := over(func(*engine.Replica) {})
	if nameFast(&r, func(netip.Prefix) []string { return nil }); len(r.Env) > 0 {
		t.Errorf("a machine without RDMA: %v", r.Env)
	}
}
