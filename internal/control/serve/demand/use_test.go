package demand

import (
	"math"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
)

// TestUse: what launchers tell since the start becomes a share of the window, of all that tell; a member that was started again begins anew, and one that
// says nothing any more counts no more.
func TestUse(t *testing.T) {
	d, now := NewDesk(), monday
	if l := d.Of("s", time.Minute, now); l.HasCores || l.HasDevices {
		t.Error("it knows without being told")
	}
	var a, b Use
	for range 24 { // two minutes
		now = now.Add(5 * time.Second)
		a.CPU, a.Seconds, a.Busy, a.Watched = a.CPU+4, a.Seconds+5, a.Busy+9, a.Watched+10
		b.CPU, b.Seconds = b.CPU+2, b.Seconds+5
		d.Used("s", "a", a, now)
		d.Used("s", "b", b, now)
		d.Used("s", "b", b, now) // nothing new
	}
	if l := d.Of("s", time.Minute, now); !l.HasCores || math.Abs(l.Cores-0.6) > 1e-9 || !l.HasDevices || math.Abs(l.Devices-0.9) > 1e-9 {
		t.Errorf("%+v", l)
	}
	b = Use{CPU: 5, Seconds: 5} // started again: what it needed for that counts for nobody
	now = now.Add(5 * time.Second)
	d.Used("s", "b", b, now)
	if l := d.Of("s", time.Minute, now); math.Abs(l.Cores-0.8) > 1e-9 {
		t.Errorf("after a start: %+v", l)
	}
	for range 2 {
		now = now.Add(5 * time.Second)
		b.CPU, b.Seconds = b.CPU+1, b.Seconds+5
		d.Used("s", "b", b, now)
	}
	if l := d.Of("s", 10*time.Second, now); math.Abs(l.Cores-0.5) > 1e-9 { // a's last minute: 0.8; b's: 0.2
		t.Errorf("both: %+v", l)
	}
	now = now.Add(25 * time.Second)
	if l := d.Of("s", time.Minute, now); math.Abs(l.Cores-0.2) > 1e-9 {
		t.Errorf("a is silent: %+v", l)
	}
	if l := d.Of("s", time.Minute, now.Add(time.Minute)); l.HasCores {
		t.Errorf("all are silent: %+v", l)
	}
}

// TestWantedByUse: replicas by how busy their cores and accelerators are.
func TestWantedByUse(t *testing.T) {
	long := monday.Add(-time.Hour)
	busy := func(cores, devices float64) Load {
		return Load{Known: true, Requests: 9, Concurrency: 1, Now: 1, Cores: cores, Devices: devices, HasCores: true, HasDevices: devices > 0}
	}
	for name, tc := range map[string]struct {
		metric serving.MetricType
		target float64
		load   Load
		want   int
		reason string
	}{
		"more":              {serving.MetricCPU, 50, busy(0.8, 0), 5, "Load"}, // 3 × 80 / 50
		"enough":            {serving.MetricCPU, 70, busy(0.69, 0), 3, "Enough"},
		"at the edge":       {serving.MetricCPU, 70, busy(0.45, 0), 3, "Enough"},
		"less":              {serving.MetricCPU, 70, busy(0.2, 0), 1, "Load"},
		"a peak":            {serving.MetricCPU, 40, busy(0.95, 0), 8, "Panic"},
		"devices":           {serving.MetricDevice, 60, busy(0.1, 0.9), 5, "Load"},
		"not known":         {serving.MetricDevice, 60, busy(0.1, 0), 3, "Enough"},
		"nobody asks, busy": {serving.MetricCPU, 60, Load{Known: true, Cores: 0.9, HasCores: true}, 1, "Load"},
	} {
		a := &serving.ServiceAutoscale{MinReplicas: 1, MaxReplicas: 10, Metrics: []serving.ScaleMetric{{Type: tc.metric, Target: tc.target}}, Policy: serving.ScalePolicy{Window: api.Duration(time.Minute), Down: api.Duration(time.Minute)}}
		d := Wanted(a, Seen{Wanted: 3, Ready: 3, Changed: long, Stable: tc.load, Panic: tc.load}, monday)
		if d.Wanted != tc.want || d.Reason != tc.reason {
			t.Errorf("%s: %+v, want %d, %s", name, d, tc.want, tc.reason)
		}
	}
}
