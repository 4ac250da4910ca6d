package serve

import (
	"reflect"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/control/work"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Rehearsal is one service in a world that is only played, the simulator's: the judgement and the desk are the controller's, and what
// is decided is done at once, in memory. Whoever plays it says when replicas answer. Not safe for concurrent use.
type Rehearsal struct {
	seen *seen
	c    *Controller
}

// Rehearse begins with a service that has its defaults, and no replicas.
func Rehearse(service *serving.InferenceService, ids *id.Source) *Rehearsal {
	return &Rehearsal{seen: &seen{service: store.Clone(service)}, c: New(work.Config{}, ids, nil)}
}

// Heard takes what a gateway reports; true: somebody waits whom nobody answers, and the service has its turn at once.
func (r *Rehearsal) Heard(report *serving.LoadReport, now time.Time) bool {
	return len(r.c.desk.Take(report, now)) > 0
}

// Turn decides until nothing changes any more, and says in how long the service wants its next turn; 0: when something happens.
// Replicas that were told to end are gone after it.
func (r *Rehearsal) Turn(now time.Time) time.Duration {
	for {
		r.c.figures(r.seen, now)
		p := decide(r.seen, now)
		again := len(p.make)+len(p.drain)+len(p.end) > 0 || p.endpoints != nil || !reflect.DeepEqual(p.status, r.seen.service.Status)
		p.carry(r.seen, r.c, now)
		r.seen.replicas = slices.DeleteFunc(r.seen.replicas, func(x *serving.ServiceReplica) bool { return x.Meta.DeletedAt != nil })
		if !again {
			return p.wake
		}
	}
}

// Replicas are those that there are, oldest first. A new one is api.PhasePending.
func (r *Rehearsal) Replicas() []*serving.ServiceReplica { return r.seen.replicas }

// Answers says that a replica has come up, at an address.
func (r *Rehearsal) Answers(x *serving.ServiceReplica, address string) {
	x.Status.Phase, x.Status.Ready, x.Status.Address = api.PhaseRunning, true, address
}

// Scale is how many replicas are wanted, and why.
func (r *Rehearsal) Scale() *serving.ScaleStatus { return r.seen.service.Status.Scale }

// carry does in memory what apply does in the store.
func (p *plan) carry(s *seen, c *Controller, now time.Time) {
	for _, r := range p.drain {
		r.Spec.DrainAt = &now
	}
	for _, r := range p.end {
		r.Meta.DeletedAt = &now
	}
	for _, m := range p.make {
		s.replicas = append(s.replicas, c.replica(s, &p.status, m, now))
	}
	if p.endpoints != nil {
		s.endpoints = &serving.ServiceEndpoints{Spec: *p.endpoints}
	}
	s.service = store.Clone(s.service)
	s.service.Status = p.status
}
