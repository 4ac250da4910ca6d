package probe

import (
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/work"
	"github.com/fermi-cluster/fermi/internal/engine"
)

// rules are a probe's: those of all steady work.
type rules struct{}

func (rules) Kind() api.Kind { return Kind }

func (rules) Decide(s *work.Seen, now time.Time) work.Plan {
	p := s.Work.(*Probe)
	status, plan, changed := work.Steady(s, &p.Status, p.Spec.Restart, now)
	if changed {
		next := *p
		next.Status = status
		plan.Next = &next
	}
	return plan
}

func (rules) Fill(_ api.Work, _ *api.Role, r *engine.Replica) {
	r.Env = append(r.Env, api.EnvVar{Name: "PROBE", Value: string(r.Name)})
}
