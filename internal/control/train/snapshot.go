package train

import (
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/control/save"
	"github.com/fermi-cluster/fermi/internal/control/train/figure"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// snapshot is everything known about a task at one moment.
type snapshot struct {
	gang.Gang
	// unfit says why the framework can't be started on this placement; nil where it can, or is plain.
	unfit *fault.Error
	// homeless is an environment of a guest that is gone; nil: none. guest is who is inside this one.
	homeless *loss
	guest    string
	// stay: no other place was found for the open generation's failure.
	stay bool
	// base is the pace of the same work in a smaller world; nil: none is known.
	base *figure.Base
	// origins are the checkpoints to begin from where nothing is in memory, took is how long the last one took until a tier had it.
	origins save.Origins
	took    map[string]time.Duration
	// archiveAfter is how long a finished task stays in the store.
	archiveAfter time.Duration
}

// torn says that the task was read before and the placement after the write that moved both on.
func (s *snapshot) torn() bool {
	phase := s.Task.Status.Phase
	return s.Placement != nil && s.Placement.Spec.Attempt > s.Task.Status.Attempt && phase != "" && phase != api.PhasePending && !phase.Finished()
}

// isFresh says that a placement is new to the task: some replica is to be started on it, and no generation has been.
func (s *snapshot) isFresh() bool {
	status := &s.Task.Status
	if s.Placement == nil || status.Phase.Finished() || status.Rendezvous != nil {
		return false
	}
	return status.Phase == api.PhasePending || !s.tooFew() && s.Members.Any(func(m *gang.Member) bool { return m.State == "" })
}

// tooFew says that fewer take part than the task can do with.
func (s *snapshot) tooFew() bool { return s.Members.TooFew(&s.Task.Spec) }

// reachable says that every launcher has told where its ranks may be reached.
func (s *snapshot) reachable() bool { return s.Members.Reachable(&s.Task.Spec) }

// main is the unit of the roles that restart with the task, as the plan has it.
func (s *snapshot) main(p *plan) *gang.Unit {
	main := s.Units(&p.status)[0]
	return &main
}

// holds says whether launchers shall wait for another generation after a failure. One that need not ends at once.
func (s *snapshot) holds(restarts []time.Time, now time.Time) bool {
	if s.Elastic() {
		return true // its ranks may fail of a change that is meant
	}
	_, left := allowanceOf(&s.Task.Spec).count(restarts, now)
	return left > 0
}

// endAll stops what runs; true when every replica that ever was has handed over.
func (s *snapshot) endAll(p *plan) bool { return s.end(p, s.Everybody()) }

// end is the same for some of the members, and for all that are none any more.
func (s *snapshot) end(p *plan, list gang.Members) bool {
	over := s.guest == "" // who is inside goes first
	for i := range list {
		m := &list[i]
		if m.State == "" || m.State == engine.StateDone {
			continue
		}
		over = false
		if !m.Ended() {
			p.stop = append(p.stop, m.Name)
		}
	}
	for _, o := range s.Others {
		if o.State != engine.StateDone {
			over = false
		}
	}
	return over
}

// finish is the one way into a final phase: invariant 4.
func (s *snapshot) finish(p *plan, now time.Time, phase api.Phase, reason string, message fault.Text) {
	p.usage = true
	p.status.FinishedAt = &now
	if p.status.StartedAt == nil {
		p.status.StartedAt = s.Members.Started()
	}
	p.dropPlace = s.Placement != nil
	p.to(phase, reason, message)
	once := "end"
	if r := s.Task.Spec.Restore; r != nil {
		once += "-" + r.At.String() // it had ended before
	}
	p.tell(phase == api.PhaseFailed, string(phase), once, message)
}

// count refreshes the numbers people see.
func (s *snapshot) count(p *plan) {
	n := api.ReplicaCount{Total: len(s.Members)}
	for i := range s.Members {
		switch m := &s.Members[i]; {
		case m.Ended() && m.Exit != nil && m.Exit.Reason == engine.ReasonSucceeded:
			n.Succeeded++
		case m.Ended():
			n.Failed++
		case m.State == engine.StateRunning && !m.Lags(&p.status):
			n.Running++
		default:
			n.Starting++
		}
	}
	if n != p.status.Replicas {
		p.status.Replicas, p.commit = n, true
	}
	if spares := spareStatus(s.Spares); !slices.Equal(spares, p.status.Spares) {
		p.status.Spares, p.commit, p.usage = spares, true, true
	}
}
