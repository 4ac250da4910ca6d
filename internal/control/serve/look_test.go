package serve

import (
	"math"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/control/serve/demand"
	"github.com/fermi-cluster/fermi/internal/control/work"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
)

// launchers say what their processes used.
type launchers struct {
	work.Hub
	said map[engine.Name]link.Ranks
}

func (l launchers) Ranks(name engine.Name) (link.Ranks, bool) {
	r, ok := l.said[name]
	return r, ok
}

// TestLook: what launchers say of all members of the replicas that answer, against what those asked for, is what autoscaling by cpu and device goes by.
func TestLook(t *testing.T) {
	hub := launchers{said: map[engine.Name]link.Ranks{}}
	c := New(work.Config{Hub: hub}, nil, nil)
	s := &seen{service: &serving.InferenceService{Meta: api.Meta{ID: "svc-1", Name: "chat"}, Spec: serving.ServiceSpec{Autoscale: &serving.ServiceAutoscale{
		MaxReplicas: 9, Metrics: []serving.ScaleMetric{{Type: serving.MetricCPU, Target: 50}}, Policy: serving.ScalePolicy{Window: api.Duration(time.Minute)},
	}}}}
	template := serving.ServiceTemplate{Resources: api.Resources{CPU: 2000}, Parts: serving.Parts{Roles: []serving.ServiceRole{{Name: "lead", Members: 1}, {Name: "rest", Members: 2, Resources: &api.Resources{CPU: 500}}}}}
	now := time.Date(2026, 11, 19, 8, 0, 0, 0, time.UTC)
	for _, r := range []struct {
		id      string
		ready   bool
		drained *time.Time
	}{{"rep-1", true, nil}, {"rep-2", false, nil}, {"rep-3", true, &now}} {
		s.replicas = append(s.replicas, &serving.ServiceReplica{Meta: api.Meta{ID: r.id}, Spec: serving.ServiceReplicaSpec{Service: "chat", Template: template, DrainAt: r.drained}, Status: serving.ServiceReplicaStatus{Attempt: 2, Answers: serving.Answers{Ready: r.ready}}})
	}
	for turn := range 5 {
		seconds := float64(5 * (turn + 1))
		say := func(id, role string, index, attempt int, cores, busy float64) {
			var r link.Ranks
			r.Use = link.Use{CPU: cores * seconds, Seconds: seconds, Busy: busy * seconds, Watched: seconds}
			hub.said[engine.NameOf(id, role, index, attempt)] = r
		}
		say("rep-1", "lead", 0, 2, 1, 0.9)   // half of its two cores
		say("rep-1", "rest", 0, 2, 0.5, 0.3) // all of its half
		say("rep-1", "rest", 1, 1, 0.5, 0.3) // of an attempt that is over
		say("rep-2", "lead", 0, 2, 2, 1)     // does not answer yet
		say("rep-3", "lead", 0, 2, 2, 1)     // gets no more requests
		c.figures(s, now.Add(time.Duration(seconds)*time.Second))
	}
	if l := s.stable; !l.HasCores || math.Abs(l.Cores-0.75) > 1e-9 || !l.HasDevices || math.Abs(l.Devices-0.6) > 1e-9 {
		t.Errorf("%+v", l)
	}
	s.service.Meta.ID, s.service.Spec.Autoscale.Metrics[0].Type = "svc-2", serving.MetricQPS
	if c.figures(s, now.Add(time.Minute)); s.stable != (demand.Load{}) {
		t.Errorf("nobody asked to look: %+v", s.stable)
	}
}
