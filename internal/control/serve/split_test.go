package serve

import (
	"fmt"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/control/serve/demand"
)

// TestSplit: zones have their parts by weight within their bounds; one more that is wanted takes none away, and what no zone may have is nowhere.
func TestSplit(t *testing.T) {
	zones := []serving.ServiceZone{
		{Zone: "a", Weight: 80}, {Zone: "b", Weight: 20, MinReplicas: 1}, {Zone: "c", Weight: 40, MaxReplicas: 2}, {Zone: "d", Replicas: 3, Weight: 99, Role: serving.ZoneBackup},
	}
	for want, has := range map[int]string{0: "[0 0 0 0]", 1: "[0 1 0 3]", 2: "[1 1 0 3]", 3: "[1 1 1 3]", 4: "[2 1 1 3]", 7: "[4 1 2 3]", 10: "[6 2 2 3]", 100: "[78 20 2 3]"} {
		var got []int
		list, all := split(zones, want)
		for _, z := range list {
			got = append(got, z.Replicas)
			all -= z.Replicas
		}
		if fmt.Sprint(got) != has || all != 0 {
			t.Errorf("%d wanted: %v, want %s; %d are not counted", want, got, has, -all)
		}
	}
	before, _ := split(zones, 1)
	for want := 2; want < 60; want++ {
		after, _ := split(zones, want)
		more := 0
		for i := range after {
			if after[i].Replicas < before[i].Replicas {
				t.Fatalf("%d wanted: %s has fewer", want, after[i].Zone)
			}
			more += after[i].Replicas - before[i].Replicas
		}
		if before = after; more != 1 {
			t.Fatalf("%d wanted: %d more", want, more)
		}
	}
	for i := range zones {
		zones[i].MaxReplicas = 2
	}
	if list, all := split(zones, 50); all != 9 {
		t.Errorf("beyond their bounds: %+v", list)
	}
}

// TestZonesScale: a service over zones grows and shrinks by what is asked, each zone by its weight; a backup has its replicas beside that, and is
// none of those by which is judged. Nobody that answers is taken away for it but those that are too many.
func TestZonesScale(t *testing.T) {
	w := newWorld(t, 1)
	p := &w.service.Spec
	p.Zones = []serving.ServiceZone{{Zone: "east", Weight: 2}, {Zone: "west", Weight: 1}, {Zone: "spare", Replicas: 1, Role: serving.ZoneBackup}}
	p.Autoscale = &serving.ServiceAutoscale{MaxReplicas: 9, Metrics: []serving.ScaleMetric{{Type: serving.MetricConcurrency, Target: 10}}, Policy: serving.ScalePolicy{Down: api.Duration(time.Minute)}}
	w.service.Default()
	if bad := w.service.Validate(); len(bad) > 0 {
		t.Fatal(bad)
	}
	count := func() string {
		n := map[string]int{}
		for _, r := range w.replicas {
			if r.Meta.DeletedAt == nil && r.Spec.DrainAt == nil {
				n[r.Spec.Zone]++
			}
		}
		return fmt.Sprint(n)
	}
	asked := func(n float64) {
		l := demand.Load{Known: true, Concurrency: n, Now: int(n), Requests: 9}
		if n == 0 {
			l.Requests = 0
		}
		w.stable, w.panic = l, l
		w.now = w.now.Add(2 * time.Minute)
		w.turn()
		w.ready(1)
		for range 3 { // what is released goes
			w.now = w.now.Add(drainFor)
			w.turn()
			w.gone()
		}
	}
	for _, step := range []struct {
		load float64
		want string
	}{{15, "map[east:1 spare:1 west:1]"}, {58, "map[east:4 spare:1 west:2]"}, {300, "map[east:6 spare:1 west:3]"}, {28, "map[east:2 spare:1 west:1]"}, {0, "map[]"}, {5, "map[east:1 spare:1]"}} {
		if asked(step.load); count() != step.want {
			t.Errorf("%g at once: %s, want %s; %+v", step.load, count(), step.want, w.service.Status.Scale)
		}
	}
	if s := w.service.Status; s.Scale.Wanted != 1 || s.Replicas.Wanted != 2 {
		t.Errorf("%+v %+v", s.Scale, s.Replicas)
	}
	if got := len(w.endpoints.Spec.Road.Zones); got != 3 {
		t.Errorf("gateways hear of %d zones", got)
	}
}
