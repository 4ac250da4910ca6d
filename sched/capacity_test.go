package sched

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCapacities(t *testing.T) {
	c := NewCluster()
	devices := func(n int, kind string) (out []string) {
		for range n {
			out = append(out, kind)
		}
		return out
	}
	for i, n := range []Node{
		{Devices: devices(8, "A100")},
		{Devices: devices(8, "A100"), Closed: true},
		{Devices: devices(8, "A100"), ClosedDevices: 1},
		{Devices: devices(4, "V100"), CPU: 9000}, // CPU for two of its four
	} {
		n.Number, n.Zone, n.Name = uint32(i+1), "z", string(rune('a'+i))
		if n.CPU == 0 {
			n.CPU = 128000
		}
		n.Memory = 1 << 40
		if err := c.SetNode(n); err != nil {
			t.Fatal(err)
		}
	}
	half := Role{Name: "w", Replicas: 1, Need: Need{CPU: 1000, Memory: 1 << 30, Devices: 1, Share: 500}}
	if err := c.Hold("half", []Role{half}, Assignment{{{Node: 3, Devices: 2}}}); err != nil {
		t.Fatal(err)
	}
	one := Role{Name: "w", Replicas: 1, Need: Need{CPU: 1000, Memory: 1 << 30, Devices: 2}}
	if err := c.Hold("two", []Role{one}, Assignment{{{Node: 1, Devices: 3}}}); err != nil {
		t.Fatal(err)
	}
	want := []Capacity{
		{Type: "A100", Total: 24000, Used: 2500, Closed: 9000, Free: 12500, Stranded: 500, Gangs: []bool{false, false, false}},
		{Type: "V100", Total: 4000, Free: 4000, Stranded: 2000, Largest: 4, Gangs: []bool{false, false, false}},
	}
	if d := cmp.Diff(want, Capacities(c)); d != "" {
		t.Error(d)
	}
	c.Release("two")
	got := Capacities(c)
	if got[0].Largest != 8 || !got[0].Gangs[0] || got[0].Gangs[1] {
		t.Errorf("%+v", got[0])
	}
}
